"""The tiles in which two versions differ, as GeoJSON (RFC 7946)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mastaba.api.catalogue import (
    CRS,
    WGS84,
    BoundingBox,
    TileLimits,
    bbox_in_degrees,
    geographic_bbox,
    poles_in,
    transform_points,
)
from mastaba.errors import ObjectNotFoundError
from mastaba_history.layers import LayerHistory, shown_box, sibling
from mastaba_ows.boxes import polygon

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer, Level, TileMatrix
    from mastaba.api.storages import ResourcePath, StoragePool
    from mastaba_history.records import History, Version

MOST_POLYGONS: Final = 20_000
_MOST_DOCUMENTS: Final = 64
_MOST_BYTES: Final = 16 * 1024**2
"""Of all documents that one answer is made from."""
_AT_ONCE: Final = 1000
"""Polygons that are transformed together."""
_STRAIGHT: Final = frozenset(("CRS:84", "EPSG:4326", "EPSG:3857"))
"""CRSs in which the sides of a box are those of a box of longitudes and latitudes."""
_STEPS: Final = 4
"""Parts of a side in other CRSs."""
_TURN: Final = 360.0
"""Degrees around the Earth."""


class Flags(NamedTuple):
    """Whether tiles are only in the later version, or only in the earlier one."""

    added: bool
    removed: bool


class Run(NamedTuple):
    """Tiles of one row, from the first to the last column."""

    row: int
    first: int
    last: int
    flags: Flags


class Rectangle(NamedTuple):
    """Tiles of one level, and what has happened to them."""

    tiles: TileLimits
    flags: Flags


@dataclass(frozen=True, slots=True)
class _Found:
    """What differs in one pyramid.

    Attributes:
        runs: by level; None if only a box is known.
        box: around everything, in the CRS of the tile matrix set; None for anything.
    """

    runs: Mapping[str, Sequence[Run]] | None
    box: tuple[float, ...] | None = ()


def changed_features(
    layer: Layer,
    history: LayerHistory,
    storages: StoragePool,
    tokens: tuple[str, str],
    *,
    is_masked: bool,
) -> Iterator[dict[str, Any]]:
    """Yield the tiles in which two versions differ, as GeoJSON features.

    At most 20,000 polygons, each of one kind of change: of runs of tiles, else of slabs, else the
    box around them. Several versions in between count together: a tile that was changed and changed
    back is contained.

    Args:
        layer: as the client sees it; nothing outside its limits is shown.
        tokens: of the earlier and the later version; both are known.
        is_masked: whether the client sees an area of the layer, which may cut its tiles. Then only
            a box is shown.

    Raises:
        StorageError: a document cannot be read.
    """
    budget = _Budget(storages)
    earlier, later = (history.versions(token) or () for token in tokens)
    for (path, one), old, new in zip(history.parts, earlier, later, strict=True):
        if old.number == new.number:
            continue
        found = _difference(path, one, old, new, budget)
        for feature in _features(layer, found, is_masked=is_masked):
            feature["properties"] |= {"from": tokens[0], "to": tokens[1]}
            yield feature


class _Budget:
    """Reads documents of changes, as many as one answer may cost."""

    def __init__(self, storages: StoragePool) -> None:
        self._storages = storages
        self._documents, self._bytes = _MOST_DOCUMENTS, _MOST_BYTES

    def read(self, path: ResourcePath) -> dict[str, Any] | None:
        """Return a document; None if there is none, it is damaged, or the budget is used up.

        Raises:
            StorageError: it cannot be read.
        """
        if self._documents <= 0 or self._bytes <= 0:
            return None
        self._documents -= 1
        try:
            data = self._storages.read_full(path)
            self._bytes -= len(data)
            document = json.loads(data) if self._bytes >= 0 else None
        except (ObjectNotFoundError, ValueError, RecursionError):
            return None
        return document if isinstance(document, dict) else None


def _difference(
    path: ResourcePath, history: History, old: Version, new: Version, budget: _Budget
) -> _Found:
    steps = _steps(history, old, new)
    if steps is None:
        return _Found(None, None)
    runs: dict[str, list[Run]] = defaultdict(list)
    box: tuple[float, ...] | None = ()
    is_known = True
    for version, is_forward in steps:
        box = _around(box, version.bbox)
        place = sibling(path, f"_{version.number}.changes.json")
        document = budget.read(place) if is_known else None
        try:
            if document is None:
                raise ValueError
            level, found = str(document["level"]), list(_runs(document, is_forward=is_forward))
        except (ValueError, KeyError, TypeError):
            is_known = False
            continue
        runs[level] += found
    return _Found(runs if is_known else None, box)


def _steps(history: History, old: Version, new: Version) -> list[tuple[Version, bool]] | None:
    """Return the versions whose changes lead from one version to another, and in which direction.

    None if their common ancestor is unknown.
    """
    up, down = _ancestors(history, old), _ancestors(history, new)
    common = {one.number for one in up} & {one.number for one in down}
    if not common:
        return None

    def below(chain: list[Version]) -> Iterator[Version]:
        for one in chain:
            if one.number in common:
                return
            yield one

    return [*((one, False) for one in below(up)), *((one, True) for one in below(down))]


def _ancestors(history: History, version: Version) -> list[Version]:
    """Return a version and those on which it is based, as far as they are known."""
    chain = [version]
    seen = {version.number}
    while (before := history.versions.get(chain[-1].since)) is not None:
        if before.number in seen:
            break
        seen.add(before.number)
        chain.append(before)
    return chain


def _around(
    box: tuple[float, ...] | None, other: tuple[float, ...] | None
) -> tuple[float, ...] | None:
    if box is None or other is None:
        return None
    if not box or not other:
        return box or other
    union = BoundingBox(*box).union(BoundingBox(*other))
    return union.xmin, union.ymin, union.xmax, union.ymax


def _runs(document: Mapping[str, Any], *, is_forward: bool) -> Iterator[Run]:
    kinds = [("tiles", Flags(False, False))]
    for name, flags in (("added", Flags(True, False)), ("removed", Flags(False, True))):
        kinds.append((name, flags if is_forward else Flags(flags.removed, flags.added)))
    for name, flags in kinds:
        for row, first, last in document[name]:
            yield Run(int(row), int(first), int(last), flags)


def _features(layer: Layer, found: _Found, *, is_masked: bool) -> Iterable[dict[str, Any]]:
    crs = layer.pyramid.tile_matrix_set.crs
    levels = layer.pyramid.levels
    runs = found.runs
    if runs is not None and all(level in levels for level in runs):
        cut = {level: list(_cut(levels[level], some)) for level, some in runs.items()}
        if not is_masked:
            for shape in (_as_tiles, _as_slabs):
                shapes = {level: shape(levels[level], some) for level, some in cut.items()}
                if sum(map(len, shapes.values())) <= MOST_POLYGONS:
                    return chain.from_iterable(
                        _polygons(levels[level].matrix, crs, some) for level, some in shapes.items()
                    )
        boxes = [box for level, some in cut.items() for box in _box(levels[level], some)]
        if not boxes:
            return []
        whole = boxes[0]
        for box in boxes[1:]:
            whole = whole.union(box)
        return _of_box(layer, whole.intersection(layer.native_bbox), crs)
    return _of_box(layer, shown_box(layer, found.box), crs)


def _of_box(layer: Layer, box: BoundingBox | None, crs: CRS) -> list[dict[str, Any]]:
    if box is None:
        return []
    level = layer.pyramid.finest.matrix.id
    return list(_geojson([box], crs, [{"level": level, "added": False, "removed": False}]))


def _cut(level: Level, runs: Iterable[Run]) -> Iterator[Run]:
    """Yield runs inside the limits of a level."""
    limits = level.limits
    for run in runs:
        first, last = max(run.first, limits.min_col), min(run.last, limits.max_col)
        if limits.min_row <= run.row <= limits.max_row and first <= last:
            yield run._replace(first=first, last=last)


def _box(level: Level, runs: Sequence[Run]) -> Iterator[BoundingBox]:
    if runs:
        rows = [run.row for run in runs]
        first, last = min(run.first for run in runs), max(run.last for run in runs)
        yield level.matrix.bbox_of(TileLimits(min(rows), max(rows), first, last))


def _as_tiles(_level: Level, runs: Iterable[Run]) -> list[Rectangle]:
    return _rectangles(runs)


def _as_slabs(level: Level, runs: Iterable[Run]) -> list[Rectangle]:
    """Return rectangles of whole slabs, in tiles."""
    width, height = level.tiles_per_width, level.tiles_per_height
    coarse = (
        Run(run.row // height, run.first // width, run.last // width, Flags(False, False))
        for run in runs
    )
    limits = level.limits
    result = []
    for tiles, flags in _rectangles(coarse):
        whole = TileLimits(
            tiles.min_row * height,
            (tiles.max_row + 1) * height - 1,
            tiles.min_col * width,
            (tiles.max_col + 1) * width - 1,
        )
        inside = whole.intersection(limits)
        if inside is not None:
            result.append(Rectangle(inside, flags))
    return result


def _rectangles(runs: Iterable[Run]) -> list[Rectangle]:
    """Return runs as rectangles: those of one row joined, and equal ones of neighbouring rows."""
    rows: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        rows[run.row].append(run)
    done: list[Rectangle] = []
    growing: dict[tuple[int, int, Flags], int] = {}
    before = None
    for row in sorted(rows):
        if before is None or row != before + 1:
            done += _finished(growing, before)
            growing = {}
        following: dict[tuple[int, int, Flags], int] = {}
        for run in _joined(rows[row]):
            key = run.first, run.last, run.flags
            following[key] = growing.pop(key, row)
        done += _finished(growing, before)
        growing, before = following, row
    done += _finished(growing, before)
    return done


def _finished(growing: Mapping[tuple[int, int, Flags], int], last: int | None) -> list[Rectangle]:
    if last is None:
        return []
    return [
        Rectangle(TileLimits(start, last, first, end), flags)
        for (first, end, flags), start in growing.items()
    ]


def _joined(runs: Sequence[Run]) -> Iterator[Run]:
    """Yield the runs of one row without overlaps; where some meet, the flags of all count.

    Tiles that were added and removed, in whatever order, are just changed.
    """
    edges: dict[int, list[tuple[int, Flags]]] = defaultdict(list)
    for run in runs:
        edges[run.first].append((1, run.flags))
        edges[run.last + 1].append((-1, run.flags))
    open_, added, removed = 0, 0, 0
    pending: Run | None = None
    places = sorted(edges)
    for place, following in zip(places, [*places[1:], None], strict=True):
        for step, flags in edges[place]:
            open_ += step
            added += step * flags.added
            removed += step * flags.removed
        if not open_ or following is None:
            continue
        run = Run(
            runs[0].row, place, following - 1, Flags(added > 0 >= removed, removed > 0 >= added)
        )
        if pending and pending.last + 1 == run.first and pending.flags == run.flags:
            pending = pending._replace(last=run.last)
            continue
        if pending:
            yield pending
        pending = run
    if pending:
        yield pending


def _polygons(
    matrix: TileMatrix, crs: CRS, rectangles: Sequence[Rectangle]
) -> Iterator[dict[str, Any]]:
    boxes = [matrix.bbox_of(one.tiles) for one in rectangles]
    facts = [
        {"level": matrix.id, "added": one.flags.added, "removed": one.flags.removed}
        for one in rectangles
    ]
    return _geojson(boxes, crs, facts)


def _geojson(
    boxes: Sequence[BoundingBox], crs: CRS, facts: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield boxes as polygons in CRS84, counterclockwise."""
    import numpy as np

    steps = 1 if crs.code in _STRAIGHT else _STEPS
    # Around the box from its lower left corner, as parts of its width and height.
    parts = np.arange(steps) / steps
    zeros, ones = np.zeros(steps), np.ones(steps)
    across = np.concatenate([parts, ones, 1 - parts, zeros, [0.0]])
    up = np.concatenate([zeros, parts, ones, 1 - parts, [0.0]])
    for start in range(0, len(boxes), _AT_ONCE):
        some = boxes[start : start + _AT_ONCE]
        corners = np.array([(box.xmin, box.ymin, box.xmax, box.ymax) for box in some], np.float64)
        x = corners[:, 0:1] + across * (corners[:, 2:3] - corners[:, 0:1])
        y = corners[:, 1:2] + up * (corners[:, 3:4] - corners[:, 1:2])
        longitude, latitude = transform_points(crs, WGS84, x, y)
        found = zip(some, longitude, latitude, facts[start:], strict=False)
        for box, xs, ys, properties in found:
            if not (np.isfinite(xs).all() and np.isfinite(ys).all()):
                continue
            ring = np.stack([xs, ys], axis=1).round(9).tolist()
            geometry = {"type": "Polygon", "coordinates": [ring]}
            has_jump = steps > 1 and np.abs(np.diff(xs)).max() > _TURN / 2
            if has_jump or poles_in(box, crs):
                geometry = polygon(_edges(box, crs))
            yield {"type": "Feature", "geometry": geometry, "properties": dict(properties)}


def _edges(box: BoundingBox, crs: CRS) -> list[float]:
    """Return west, south, east and north around a box that meets the antimeridian or a pole."""
    has_pole = any(poles_in(box, crs).values())
    around = None if has_pole else bbox_in_degrees(box, crs)
    whole = around or geographic_bbox(box, crs)
    east = whole.xmax if whole.xmax <= _TURN / 2 else whole.xmax - _TURN
    return [round(edge, 9) for edge in (whole.xmin, whole.ymin, east, whole.ymax)]
