"""Sources that share one pixel grid are one image: composed in source pixels, resampled once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyproj

from mastaba.api.catalogue import CRS, BoundingBox, TileMatrixSet
from mastaba_build.errors import PlanError
from mastaba_build.sets import proj_crs
from mastaba_build.sources import Source

_PHASE = 1e-3
_POINTS = 129
_POINTS_OF_MEMBERS = 33


@dataclass(frozen=True, slots=True)
class Member:
    """A source of a group, and the column and row of its first pixel in the group."""

    source: Source
    column: int
    row: int


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Consecutive sources with equal CRS, pixel size and phase (within 1/1000 pixel).

    Attributes:
        crs: WKT.
        transform: of the first column and row, as in `Source`.
        width, height: pixels.
        members: the lowest first.
    """

    crs: str
    transform: tuple[float, float, float, float, float, float]
    width: int
    height: int
    members: tuple[Member, ...]

    @property
    def name(self) -> str:
        first, others = self.members[0].source.path, len(self.members) - 1
        return f"{first} and {others} others" if others else first


def groups_of(sources: Sequence[Source]) -> list[Group]:
    """Return the groups of sources, both in the order from the lowest to the uppermost."""
    runs: list[list[Source]] = []
    for source in sources:
        if runs and _offset(runs[-1][0], source) is not None:
            runs[-1].append(source)
        else:
            runs.append([source])
    return [_group(run) for run in runs]


def _offset(first: Source, other: Source) -> tuple[int, int] | None:
    """Return the column and row of a source in the grid of another; None in another grid."""
    a, b, c, d, e, f = first.transform
    if first.crs != other.crs or first.colours != other.colours:
        return None
    reach = max(other.width, other.height)
    size = max(abs(a), abs(b), abs(d), abs(e))
    for mine, its in zip((a, b, d, e), (other.transform[k] for k in (0, 1, 3, 4)), strict=True):
        if abs(mine - its) * reach > _PHASE * size:
            return None
    x, y = other.transform[2] - c, other.transform[5] - f
    column, row = (e * x - b * y) / (a * e - b * d), (a * y - d * x) / (a * e - b * d)
    whole = round(column), round(row)
    if max(abs(column - whole[0]), abs(row - whole[1])) > _PHASE:
        return None
    return whole


def _group(run: list[Source]) -> Group:
    places = [_offset(run[0], source) or (0, 0) for source in run]
    left, top = min(column for column, _ in places), min(row for _, row in places)
    a, b, c, d, e, f = run[0].transform
    members = tuple(
        Member(source, column - left, row - top)
        for source, (column, row) in zip(run, places, strict=True)
    )
    return Group(
        run[0].crs,
        (a, b, a * left + b * top + c, d, e, d * left + e * top + f),
        max(member.column + member.source.width for member in members),
        max(member.row + member.source.height for member in members),
        members,
    )


def overview_of(group: Group, factor: int) -> Group:
    """Return the image of the overviews whose pixels are ``factor`` pixels on a side.

    All members have such an overview, and begin at a multiple of ``factor``.
    """
    a, b, c, d, e, f = group.transform
    members = tuple(
        Member(_overview_of(one.source, factor), one.column // factor, one.row // factor)
        for one in group.members
    )
    return Group(
        group.crs,
        (a * factor, b * factor, c, d * factor, e * factor, f),
        -(-group.width // factor),
        -(-group.height // factor),
        members,
    )


def _overview_of(source: Source, factor: int) -> Source:
    return replace(
        source,
        width=-(-source.width // factor),
        height=-(-source.height // factor),
        overview=source.overviews.index(factor),
        overviews=(),
    )


@lru_cache(maxsize=64)
def transformer(source: str | pyproj.CRS, target: str | pyproj.CRS) -> pyproj.Transformer:
    """Return the transformation of PROJ between two CRSs, x before y on both sides."""
    return pyproj.Transformer.from_crs(source, target, always_xy=True)


def is_same_crs(group: Group, crs: CRS) -> bool:
    """Return whether no transformation is needed, not even a full turn of longitudes."""
    return _is_same(group.crs, crs) and not (crs.is_geographic and _is_turned(group))


def _is_turned(group: Group) -> bool:
    """Return whether a geographic group reaches beyond ±180 degrees, as those from 0 to 360 do."""
    a, b, c, d, _, _ = group.transform
    # Centres of border pixels are often on the meridian.
    return not (b or d) and max(abs(c), abs(c + a * group.width)) > 180 + abs(a)


@lru_cache(maxsize=256)
def _is_same(wkt: str, crs: CRS) -> bool:
    own = pyproj.CRS.from_wkt(wkt)
    other = proj_crs(crs)
    return bool(own.equals(other, ignore_axis_order=True)) or (
        own.to_epsg(min_confidence=90) is not None
        and own.to_epsg(min_confidence=90) == other.to_epsg(min_confidence=90)
    )


def footprint(group: Group, tile_matrix_set: TileMatrixSet) -> BoundingBox:
    """Return the box of a group in the CRS of a set, cut to the extent of the set.

    Raises:
        PlanError: the group is outside the set, or cannot be transformed.
    """
    cut = _box(group, tile_matrix_set, _POINTS)
    if cut is None:
        raise PlanError(
            f"{group.name}: is outside the tile matrix set {tile_matrix_set.id}; choose another set"
        )
    return cut


def footprints(
    group: Group, box: BoundingBox, tile_matrix_set: TileMatrixSet
) -> tuple[BoundingBox | None, ...]:
    """Return the box of each member of a group, as in `footprint`; None if it is outside the set.

    Args:
        box: of the group.
    """
    if len(group.members) == 1:
        return (box,)
    a, b, c, d, e, f = group.transform
    found = []
    for one in group.members:
        x, y = c + a * one.column + b * one.row, f + d * one.column + e * one.row
        transform = a, b, x, d, e, y
        alone = Group(group.crs, transform, one.source.width, one.source.height, (one,))
        found.append(_box(alone, tile_matrix_set, _POINTS_OF_MEMBERS))
    return tuple(found)


def _box(group: Group, tile_matrix_set: TileMatrixSet, points: int) -> BoundingBox | None:
    """Return the box around points of a group; None if it is outside the set."""
    columns, rows = np.linspace(0, group.width, points), np.linspace(0, group.height, points)
    column, row = (grid.ravel() for grid in np.meshgrid(columns, rows))
    a, b, c, d, e, f = group.transform
    x, y = a * column + b * row + c, d * column + e * row + f
    same = is_same_crs(group, tile_matrix_set.crs)
    if not same:
        change = transformer(pyproj.CRS.from_wkt(group.crs), proj_crs(tile_matrix_set.crs))
        x, y = (np.asarray(axis) for axis in change.transform(x, y))
        if tile_matrix_set.crs.is_geographic:
            x = np.where(np.abs(x) > 180, (x + 180) % 360 - 180, x)
    finite = np.isfinite(x + y)
    finest = list(tile_matrix_set.matrices.values())[-1]
    if finite.any():
        # Points between the samples, and the pole of a projection, may lie further out.
        margin_x, margin_y = np.ptp(x[finite]) / (points - 1), np.ptp(y[finite]) / (points - 1)
        box = BoundingBox(
            float(x[finite].min() - (0 if same else margin_x)),
            float(y[finite].min() - (0 if same else margin_y)),
            float(x[finite].max() + (0 if same else margin_x)),
            float(y[finite].max() + (0 if same else margin_y)),
        )
        cut = box.intersection(finest.bbox_of(finest.all_tiles))
        if cut is not None and cut.xmax > cut.xmin and cut.ymax > cut.ymin:
            return cut
    return None
