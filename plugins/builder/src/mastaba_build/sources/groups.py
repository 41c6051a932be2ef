"""Sources that share one pixel grid are one image: composed in source pixels, resampled once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyproj

from mastaba.api.catalogue import CRS, BoundingBox, TileMatrixSet
from mastaba_build.errors import PlanError
from mastaba_build.sources.inventory import Source
from mastaba_build.sources.sets import proj_crs
from mastaba_build.sources.turns import boxes_in, closed_turn, period_of

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_PHASE = 1e-3
_POINTS = 129
_POINTS_OF_MEMBERS = 33
_HALVINGS = 24
"""Of the step between points, for the place where positions end."""


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

    @property
    def turn(self) -> float:
        """Columns in a full turn; 0 if columns do not repeat."""
        a, b, _, d, _, _ = self.transform
        return 0.0 if b or d else period_of(self.crs) / abs(a)

    @property
    def closed_turn(self) -> int:
        """Columns in a full turn of an image that is closed around the earth, or 0."""
        return closed_turn(self.turn, self.width)


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
    """Return whether no transformation is needed, except for full turns."""
    return _is_same(group.crs, crs)


@lru_cache(maxsize=256)
def _is_same(wkt: str, crs: CRS) -> bool:
    own = pyproj.CRS.from_wkt(wkt)
    other = proj_crs(crs)
    return bool(own.equals(other, ignore_axis_order=True)) or (
        own.to_epsg(min_confidence=90) is not None
        and own.to_epsg(min_confidence=90) == other.to_epsg(min_confidence=90)
    )


def footprint(group: Group, tile_matrix_set: TileMatrixSet) -> tuple[BoundingBox, ...]:
    """Return the boxes around a group in the CRS of a set, cut to the extent of the set.

    There are several where the set begins and ends inside the group, as at the antimeridian.

    Raises:
        PlanError: the group is outside the set, or cannot be transformed.
    """
    cut = _boxes(group, tile_matrix_set, _POINTS)
    if not cut:
        raise PlanError(
            f"{group.name}: is outside the tile matrix set {tile_matrix_set.id}; choose another set"
        )
    return cut


def footprints(
    group: Group, boxes: tuple[BoundingBox, ...], tile_matrix_set: TileMatrixSet
) -> tuple[tuple[BoundingBox, ...], ...]:
    """Return the boxes of each member of a group, as in `footprint`; none if it is outside the set.

    Args:
        boxes: of the group.
    """
    if len(group.members) == 1:
        return (boxes,)
    found = []
    for one in group.members:
        alone = Group(
            group.crs, transform_of(group, one), one.source.width, one.source.height, (one,)
        )
        found.append(_boxes(alone, tile_matrix_set, _POINTS_OF_MEMBERS))
    return tuple(found)


def transform_of(group: Group, member: Member) -> tuple[float, float, float, float, float, float]:
    """Return the georeferencing of a member of a group."""
    a, b, c, d, e, f = group.transform
    x, y = c + a * member.column + b * member.row, f + d * member.column + e * member.row
    return a, b, x, d, e, y


def _to_set(group: Group, tile_matrix_set: TileMatrixSet) -> pyproj.Transformer:
    """Return the transformation of a group to the CRS of a set.

    Raises:
        PlanError: there is none.
    """
    source, target = pyproj.CRS.from_wkt(group.crs), proj_crs(tile_matrix_set.crs)
    try:
        transformer(target, source)  # which finds the pixels
        return transformer(source, target)
    except pyproj.exceptions.ProjError as error:
        body = re.search(r"same celestial body \([^()]*\)", str(error))
        reason = f"they are not on the {body[0]}" if body else "PROJ has no transformation"
        raise PlanError(
            f"{group.name}: cannot be transformed from {source.name!r} to {target.name!r}, the CRS "
            f"of {tile_matrix_set.id}: {reason}; choose another set"
        ) from None


def _boxes(group: Group, tile_matrix_set: TileMatrixSet, points: int) -> tuple[BoundingBox, ...]:
    """Return the boxes around points of a group; none if it is outside the set."""
    columns, rows = np.linspace(0, group.width, points), np.linspace(0, group.height, points)
    places = np.stack(np.meshgrid(columns, rows))
    a, b, c, d, e, f = group.transform
    same = is_same_crs(group, tile_matrix_set.crs)
    target = proj_crs(tile_matrix_set.crs)
    change = None if same else _to_set(group, tile_matrix_set)

    def placed(places: Floats) -> Floats:
        column, row = places
        x, y = a * column + b * row + c, d * column + e * row + f
        return np.stack((x, y) if change is None else change.transform(x, y))

    points_in_set = placed(places)
    finite = np.asarray(np.isfinite(points_in_set).all(axis=0))
    if not finite.any():
        return ()
    finest = list(tile_matrix_set.matrices.values())[-1]
    extent, period = finest.bbox_of(finest.all_tiles), period_of(target.to_wkt())
    x, y = points_in_set[:, finite]
    if not finite.all():
        limb = placed(limb_of(places, finite, placed))
        y = np.concatenate([y, limb[1].clip(extent.ymin, extent.ymax)])
        x = np.concatenate([x, limb[0] if period else limb[0].clip(extent.xmin, extent.xmax)])
    return boxes_in(x, y, period, extent, 1 if same else points)


def limb_of(places: Floats, known: Mask, placed: Callable[[Floats], Floats]) -> Floats:
    """Return the last places with a position between those with and those without one.

    At the limb of the earth, a part of a pixel is many pixels of the set.

    Args:
        places: a grid, shape (2, rows, columns).
        known: shape (rows, columns), which of them have a position.
        placed: returns the positions of places, both of shape (2, ...).

    Returns:
        Places, shape (2, number).
    """
    inner, outer = [], []
    for low, high, has in (
        (places[:, :, :-1], places[:, :, 1:], (known[:, :-1], known[:, 1:])),
        (places[:, :-1], places[:, 1:], (known[:-1], known[1:])),
    ):
        for one, other, is_pair in (
            (low, high, has[0] & ~has[1]),
            (high, low, has[1] & ~has[0]),
        ):
            inner.append(one[:, is_pair])
            outer.append(other[:, is_pair])
    last, beyond = np.concatenate(inner, axis=1), np.concatenate(outer, axis=1)
    for _ in range(_HALVINGS):
        middle = (last + beyond) / 2
        has_position = np.isfinite(placed(middle)).all(axis=0)
        last = np.where(has_position, middle, last)
        beyond = np.where(has_position, beyond, middle)
    return last
