"""Where the pixels of a file come from, for its tags (time.md section 5.5)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS, WGS84, geographic_bbox, transform_points
from mastaba.model.layer import Layer
from mastaba.slab.tiff import Field
from mastaba_documents.times import Precision, parse_time, time_text
from mastaba_server.threads.recent import Recent
from mastaba_server.web.markup import escaped

SourcesIn = Callable[[Layer, BoundingBox], Sequence[Mapping[str, Any]]]
"""What returns the rows of the sources in a box in CRS84, the largest share first."""

_MOST: Final = 256
"""Files whose origin is kept."""
_VALIDITY: Final = 300.0
"""Seconds after which an origin is found again."""
_LARGEST: Final = 8192
"""Bytes of the list of sources; those with the smallest shares are left out."""
_EDGE: Final = 1e-6
"""Part of the width of a map: at ±180 degrees itself, PROJ may give either."""
_STEPS: Final = 17
"""Places across a map whose longitudes ascend, unless it crosses the antimeridian."""
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
            size += len(text.encode()) + 1
            if size > _LARGEST:
                break
            shown.append(text)
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

    def of(self, layer: Layer, box: BoundingBox, crs: CRS) -> Origin:
        """Return the origin of a file; unknown outside the globe.

        Args:
            box: CRS units, not across the antimeridian.

        Raises:
            MastabaError: the sources cannot be read.
        """
        try:
            box = geographic_bbox(box, crs)
        except ValueError:
            return UNKNOWN
        key, now = (layer.key, layer.generation, box), time.monotonic()
        known = self._known.get(key)
        if known is None or now >= known[0]:
            found = Origin.of(self._sources(layer, box))
            known = self._known.add(key, (now + _VALIDITY, found))
        return known[1]

    def of_map(self, layers: Sequence[Layer], box: BoundingBox, crs: CRS) -> Origin:
        """Return the origin of a map: unknown for several layers, and across the antimeridian.

        Args:
            layers: of the map; one layer for each value of a dimension.
            box: CRS units.

        Raises:
            MastabaError: the sources cannot be read.
        """
        if len(layers) != 1:
            return UNKNOWN
        edge, middle = _EDGE * (box.xmax - box.xmin), (box.ymin + box.ymax) / 2
        x = np.linspace(box.xmin + edge, box.xmax - edge, _STEPS)
        longitudes = transform_points(crs, WGS84, x, np.full(_STEPS, middle))[0]
        is_across = not (np.diff(longitudes) > 0).all() or np.abs(longitudes).max() > 180
        return UNKNOWN if is_across else self.of(layers[0], box, crs)


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
        found.append(_text(_GDAL_METADATA, f"<GDALMetadata>{''.join(texts)}</GDALMetadata>"))
    return [*found, _text(_DATE_TIME, origin.date)] if origin.date else found


def _text(tag: int, text: str) -> Field:
    return Field(tag, "s", text.replace("\0", "").encode() + b"\0")
