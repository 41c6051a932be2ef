"""Where the pixels of a file come from, for its tags (time.md section 5.5)."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from mastaba.errors import MastabaError
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS, WGS84, geographic_bbox, transform_points
from mastaba.model.layer import Layer
from mastaba.slab.tiff import Field
from mastaba_documents.times import Precision, parse_time, time_text
from mastaba_server.threads.recent import Recent
from mastaba_server.web.markup import escaped

logger = logging.getLogger("mastaba.render")

SourcesIn = Callable[[Layer, BoundingBox], Sequence[Mapping[str, Any]]]
"""What returns the rows of the sources in a box in CRS84, the largest share first."""

_MOST: Final = 256
"""Files whose origin is kept."""
_VALIDITY: Final = 300.0
"""Seconds after which an origin is found again."""
_LARGEST: Final = 8192
"""Bytes of the list of sources; those with the smallest shares are left out."""
_EDGE: Final = 1e-6
"""Part of the sides of a file: at ±180 degrees itself, PROJ may give either."""
_STEPS: Final = 17
"""Places along each side of a file where longitudes are compared."""
_DATE_TIME, _GDAL_METADATA = 306, 42112


class Origin(NamedTuple):
    """The sources of a file.

    Attributes:
        sources: JSON list, the largest share first; empty if they are unknown.
        date: of all of them, as TIFF writes it (``DateTime``, tag 306); empty if they have several,
            or none that names a day.
    """

    sources: str = ""
    date: str = ""

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Origin:
        """Return the origin in rows of sources (docs/source-table.md), the largest share first."""
        shown, size = [], 2
        for row in rows:
            text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
            more = len(text.encode()) + 1
            if size + more > _LARGEST:
                continue
            shown.append(text)
            size += more
        dates = {str(row.get("date", "")) for row in rows}
        sources = f"[{','.join(shown)}]" if shown else ""
        return cls(sources, _date(dates.pop()) if len(dates) == 1 else "")


def _date(text: str) -> str:
    found = parse_time(text)
    if found is None or found.precision is None or found.precision < Precision.DAY:
        return ""
    return time_text(found.start, Precision.SECOND).rstrip("Z").replace("-", ":").replace("T", " ")


UNKNOWN: Final = Origin()
"""The origin of a file that names no sources."""


class Origins:
    """The origins of the files of a service, each found once for all its ranges.

    Args:
        sources: of a layer in a box.
    """

    def __init__(self, sources: SourcesIn) -> None:
        self._sources = sources
        self._known: Recent[tuple[float, Origin]] = Recent(_MOST)
        self._failing: set[str] = set()

    def of(self, layer: Layer, box: BoundingBox, crs: CRS) -> Origin:
        """Return the origin of a file; unknown outside the globe and across the antimeridian.

        Args:
            box: CRS units.

        Raises:
            MastabaError: the sources cannot be read.
        """
        key, now = (layer.key, layer.generation, box, crs.code), time.monotonic()
        known = self._known.get(key)
        if known is None or now >= known[0]:
            known = self._known.add(key, (now + _VALIDITY, self._found(layer, box, crs)))
        return known[1]

    def of_map(self, layers: Sequence[Layer], box: BoundingBox, crs: CRS) -> Origin:
        """Return the origin of a map: as `of`, but unknown for several layers.

        Never raises. Maps have no ranges, so a map is sent without sources if they cannot be read.

        Args:
            layers: of the map; one layer for each value of a dimension.
            box: CRS units.
        """
        if len(layers) != 1:
            return UNKNOWN
        key = layers[0].key
        try:
            found = self.of(layers[0], box, crs)
        except MastabaError as error:
            if key not in self._failing:
                self._failing.add(key)
                logger.warning("maps of %s name no sources, which cannot be read: %s", key, error)
            return UNKNOWN
        self._failing.discard(key)
        return found

    def _found(self, layer: Layer, box: BoundingBox, crs: CRS) -> Origin:
        if _is_across(box, crs):
            return UNKNOWN
        try:
            box = geographic_bbox(box, crs)
        except ValueError:
            return UNKNOWN
        return Origin.of(self._sources(layer, box))


def _is_across(box: BoundingBox, crs: CRS) -> bool:
    """Return whether a box crosses the antimeridian: longitudes of neighbours are far apart."""
    right, up = _EDGE * (box.xmax - box.xmin), _EDGE * (box.ymax - box.ymin)
    x, y = np.meshgrid(
        np.linspace(box.xmin + right, box.xmax - right, _STEPS),
        np.linspace(box.ymin + up, box.ymax - up, _STEPS),
    )
    found = transform_points(crs, WGS84, x, y)[0]
    # Places that cannot be transformed say nothing.
    longitudes = np.where(np.isfinite(found), found, np.nan)
    is_far = (np.abs(np.diff(longitudes, axis=axis)) > 180 for axis in (0, 1))
    return bool((np.abs(longitudes) > 180).any() or any(one.any() for one in is_far))


def origin_fields(
    origin: Origin, items: Mapping[str, str] = {}, tiling: Mapping[str, str] = {}
) -> list[Field]:
    """Return the tags of a TIFF that name its sources and their date.

    Args:
        items: further metadata for GDAL, by name; empty ones are left out.
        tiling: items of the domain TILING_SCHEME.
    """
    # GDAL reads text that is escaped twice, as it writes it.
    texts = [
        f'<Item name="{name}">{escaped(escaped(text))}</Item>'
        for name, text in {**items, "SOURCES": origin.sources}.items()
        if text
    ]
    texts += [
        f'<Item name="{name}" domain="TILING_SCHEME">{escaped(escaped(text))}</Item>'
        for name, text in tiling.items()
    ]
    found = []
    if texts:
        found.append(Field.text(_GDAL_METADATA, f"<GDALMetadata>{''.join(texts)}</GDALMetadata>"))
    return [*found, Field.text(_DATE_TIME, origin.date)] if origin.date else found
