"""The rows of a table, sorted in the order of painting, and found by place."""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyproj

from mastaba.api.catalogue import CRS
from mastaba.api.storages import ResourcePath
from mastaba_cog.directories import HEAD
from mastaba_cog.errors import CogError
from mastaba_cog.mosaic.boxes import BoxIndex, Floats
from mastaba_cog.mosaic.paths import member_path
from mastaba_containers.sets import are_equal

MOST_ROWS: Final = 1_000_000
NOWHERE: Final = (math.nan, math.nan, math.nan, math.nan)
"""Box of a row that has no footprint."""
_MOST_WITHOUT: Final = 1000
"""Rows without a footprint: their files are opened to find it."""
_PER_EDGE: Final = 6
"""Points of each edge of a box that are transformed."""
_MOST_BANDS: Final = 4
_MOST_LEVELS: Final = 64


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the rows of a table are read.

    Attributes:
        sort_field: by which they are sorted; None for ``order``, or what the table says.
        descends: whether the lowest one is on top; None for what the table says.
        asset: key of the asset of STAC items; None for the one with the role ``data``.
        layer: table of a GeoPackage; None for the only one.
    """

    sort_field: str | None = None
    descends: bool | None = None
    asset: str | None = None
    layer: str | None = None

    def sorted_by(self, columns: Collection[str]) -> str | None:
        """Return the column by which rows are sorted, or None.

        Raises:
            CogError: the wanted one is absent.
        """
        name = self.sort_field or ("order" if "order" in columns else None)
        if name is not None and name not in columns:
            raise CogError(f"it has no column {name[:40]!r}", "correct the sort field")
        return name


@dataclass(slots=True)
class Rows:
    """What a table says.

    Attributes:
        crs: code of the CRS of the boxes; empty for that of the tile matrix set.
        boxes: xmin, ymin, xmax, ymax of each row, x first.
        locations: of the files.
        keys: by which rows are sorted: numbers, texts or None.
        facts: what some rows say besides: ``nodata``, ``bands``, ``version``, ``levels``.
        heads: the first bytes of some files, in the version that the row has.
        bands: of all rows that say nothing else.
        descends: whether the row with the lowest key is on top.
    """

    crs: str
    boxes: list[tuple[float, float, float, float]] = field(default_factory=list)
    locations: list[Any] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)
    facts: dict[int, dict[str, Any]] = field(default_factory=dict)
    heads: dict[int, bytes] = field(default_factory=dict)
    bands: tuple[int, ...] = ()
    descends: bool = False

    def add(
        self,
        location: object,
        box: tuple[float, float, float, float],
        key: object,
        facts: Mapping[str, Any],
    ) -> None:
        """Add a row.

        Raises:
            CogError: there are too many.
        """
        if len(self.locations) == MOST_ROWS:
            raise CogError(f"it has more than {MOST_ROWS:,} rows", "divide it")
        found = {name: facts[name] for name in _FACTS if facts.get(name) not in (None, "")}
        if found:
            self.facts[len(self.locations)] = found
        if facts.get("header") not in (None, "", b""):
            self.heads[len(self.locations)] = _head(facts["header"], found.get("version"))
        self.locations.append(location)
        self.boxes.append(box)
        self.keys.append(key)


_FACTS: Final = ("nodata", "bands", "version", "levels")
COLUMNS: Final = (*_FACTS, "header")
"""Columns besides that rows may have."""
Locate = Callable[[str, Mapping[str, Any]], tuple[float, float, float, float]]
"""Returns the box of a file, by its path and what its row says besides."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table, in the CRS of the tile matrix set.

    Attributes:
        paths: of the files; later ones are painted over earlier ones.
        boxes: of the rows, shape (rows, 4).
        index: finds them.
        facts: what some rows say besides, by number: ``nodata``, ``bands``, ``version``,
            ``levels``.
        version: of the table.
        modified: when it was changed, Unix seconds or None.
        heads: the first bytes of some files, by number, in the version that the row has.
    """

    paths: Sequence[str]
    boxes: Floats
    index: BoxIndex
    facts: Mapping[int, Mapping[str, Any]]
    version: str | None
    modified: float | None
    heads: Mapping[int, bytes]

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """The box around all rows."""
        low, high = self.boxes[:, :2].min(axis=0), self.boxes[:, 2:].max(axis=0)
        return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def table_of(
    rows: Rows,
    path: ResourcePath,
    allowed: Collection[str],
    crs: CRS | None,
    version: str | None = None,
    modified: float | None = None,
    locate: Locate | None = None,
) -> Table:
    """Return the table of some rows.

    Args:
        path: of the table.
        allowed: other storages that rows may name.
        crs: of the tile matrix set; None to keep the boxes as they are.
        locate: finds the boxes of rows that have none, in the CRS of the set; not without it.

    Raises:
        CogError: a row is invalid.
    """
    if not rows.locations:
        raise CogError("it has no rows", "add the files to it")
    paths = [member_path(location, path, allowed) for location in rows.locations]
    boxes = np.array(rows.boxes, np.float64)
    without = np.flatnonzero(np.isnan(boxes).all(axis=1)).tolist()
    if len(without) > _MOST_WITHOUT:
        raise CogError(f"{len(without)} rows have no footprint", "make it with gdaltindex")
    boxes[without] = 0
    if not np.isfinite(boxes).all() or (boxes[:, :2] > boxes[:, 2:]).any():
        raise CogError("a footprint is not a box of finite numbers", "correct the footprints")
    if crs is not None and rows.crs and len(without) < len(boxes):
        boxes = _transformed(boxes, rows.crs, crs)
    if locate is not None:
        for number in without:
            boxes[number] = locate(paths[number], _checked(rows.facts.get(number, {})))
    ranks = [_rank(key) for key in rows.keys]
    # Of files with the same key, the order is by path: equal in all processes.
    order = sorted(range(len(paths)), key=paths.__getitem__)
    order.sort(key=ranks.__getitem__, reverse=rows.descends)
    facts = {}
    for place, number in enumerate(order):
        given = _checked(rows.facts.get(number, {}))
        if rows.bands:
            given.setdefault("bands", rows.bands)
        if given:
            facts[place] = given
    boxes = boxes[order]
    sorted_paths = [paths[number] for number in order]
    heads = {
        place: rows.heads[number] for place, number in enumerate(order) if number in rows.heads
    }
    return Table(sorted_paths, boxes, BoxIndex(boxes), facts, version, modified, heads)


def _head(value: object, version: object) -> bytes:
    """Return the first bytes of a file, which may be in Base64.

    Raises:
        CogError: they are too many, or of an unknown version.
    """
    if not version:
        raise CogError(
            "a row has a header without the version of its file",
            "add both with mastaba mosaic heads, or remove the header",
        )
    try:
        data = b64decode(value, validate=True) if isinstance(value, str) else value
    except ValueError:
        data = None
    if not isinstance(data, bytes) or len(data) > HEAD:
        reason = f"the header of a row is not at most {HEAD} bytes, or these in Base64"
        raise CogError(reason, "make it with mastaba mosaic heads")
    return data


def _rank(key: object) -> tuple[int, float, str]:
    """Return what sorts keys of several types."""
    if isinstance(key, bool) or key is None:
        return 0, 0.0, ""
    if isinstance(key, int | float) and abs(key) < 1e300:
        return 1, float(key), ""
    return 2, 0.0, str(key)[:256]


def _checked(facts: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    nodata = facts.get("nodata")
    if nodata is not None:
        if isinstance(nodata, bool) or not isinstance(nodata, int | float):
            raise CogError(f"the nodata {nodata!r:.40} of a row is not a number", "correct it")
        found["nodata"] = float(nodata)
    for name, kind, most in (("bands", int, _MOST_BANDS), ("levels", str, _MOST_LEVELS)):
        values = facts.get(name)
        if isinstance(values, str):
            values = values.split(",")
        if values is None:
            continue
        if not isinstance(values, list | tuple) or not 0 < len(values) <= most:
            raise CogError(
                f"the {name} {values!r:.40} of a row are not a short list", "correct them"
            )
        try:
            found[name] = tuple(kind(value) for value in values)
        except (TypeError, ValueError):
            raise CogError(
                f"the {name} {values!r:.40} of a row are invalid", "correct it"
            ) from None
        if name == "bands" and min(found[name]) < 1:
            raise CogError("the bands of a row are counted from 1", "correct them")
    if "version" in facts:
        found["version"] = str(facts["version"])[:256]
    return found


def _transformed(boxes: Floats, code: str, crs: CRS) -> Floats:
    """Return boxes around boxes in another CRS."""
    try:
        own = CRS.from_code(code)
    except ValueError as error:
        raise CogError(f"the CRS of its footprints: {error}", "name a code of EPSG") from None
    if are_equal(own, crs):
        return boxes
    steps = np.linspace(0, 1, _PER_EDGE)
    low, high = np.zeros(_PER_EDGE), np.ones(_PER_EDGE)
    right = np.concatenate([steps, steps, low, high])
    up = np.concatenate([low, high, steps, steps])
    x = boxes[:, :1] + (boxes[:, 2:3] - boxes[:, :1]) * right
    y = boxes[:, 1:2] + (boxes[:, 3:] - boxes[:, 1:2]) * up
    found_x, found_y = _transformer(own.code, crs.code).transform(x, y)
    found = np.stack(
        [found_x.min(axis=1), found_y.min(axis=1), found_x.max(axis=1), found_y.max(axis=1)], axis=1
    )
    if not np.isfinite(found).all():
        raise CogError(f"a footprint is outside of {crs.code}", "correct the footprints")
    return found


@lru_cache(maxsize=16)
def _transformer(source: str, target: str) -> pyproj.Transformer:
    one, other = ("OGC:CRS84" if code == "CRS:84" else code for code in (source, target))
    return pyproj.Transformer.from_crs(one, other, always_xy=True)
