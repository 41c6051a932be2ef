"""Sources that share one pixel grid are one image: composed in source pixels, resampled once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyproj

from mastaba.api.catalogue import CRS, BoundingBox
from mastaba_build.errors import PlanError
from mastaba_build.sources.sets import SetExtent, proj_crs
from mastaba_build.sources.source import Source
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


def to_group(group: Group, crs: CRS) -> pyproj.Transformer | None:
    """Return the transformation of PROJ from the CRS of a set to that of a group, x before y.

    Returns:
        None if no transformation is needed, except for full turns.

    Raises:
        ProjError: PROJ has no transformation.
    """
    return _to_wkt(group.crs, crs.code)


@lru_cache(maxsize=256)
def _to_wkt(wkt: str, code: str) -> pyproj.Transformer | None:
    own, other = pyproj.CRS.from_wkt(wkt), proj_crs(code)
    code_of_own = own.to_epsg(min_confidence=90)
    if own.equals(other, ignore_axis_order=True) or (
        code_of_own is not None and code_of_own == other.to_epsg(min_confidence=90)
    ):
        return None
    return pyproj.Transformer.from_crs(other, own, always_xy=True)


@lru_cache(maxsize=64)
def _from_wkt(wkt: str, code: str) -> pyproj.Transformer:
    return pyproj.Transformer.from_crs(pyproj.CRS.from_wkt(wkt), proj_crs(code), always_xy=True)


Boxes = tuple[BoundingBox, ...]


def footprints(
    groups: Iterable[Group], extent: SetExtent
) -> tuple[tuple[Boxes, ...], tuple[tuple[Boxes, ...], ...]]:
    """Return the boxes around groups, and those of their members, for each group.

    They are in the CRS of a set, cut to its extent; raises as `_footprint`.
    """
    boxes, parts = zip(*[_footprint(group, extent) for group in groups], strict=True)
    return boxes, parts


def _footprint(group: Group, extent: SetExtent) -> tuple[Boxes, tuple[Boxes, ...]]:
    """Return the boxes around a group in the CRS of a set, cut to its extent, and of each member.

    There are several where the set begins and ends inside the group, as at the antimeridian. There
    are none of members outside the set.

    Raises:
        PlanError: the group is outside the set, or cannot be transformed.
    """
    cut = _boxes(group, extent, _POINTS)
    if not cut:
        raise PlanError(
            f"{group.name}: is outside the tile matrix set {extent.name}; choose another set"
        )
    if len(group.members) == 1:
        return cut, (cut,)
    found = []
    for one in group.members:
        alone = Group(
            group.crs, transform_of(group, one), one.source.width, one.source.height, (one,)
        )
        found.append(_boxes(alone, extent, _POINTS_OF_MEMBERS))
    return cut, tuple(found)


def transform_of(group: Group, member: Member) -> tuple[float, float, float, float, float, float]:
    """Return the georeferencing of a member of a group."""
    a, b, c, d, e, f = group.transform
    x, y = c + a * member.column + b * member.row, f + d * member.column + e * member.row
    return a, b, x, d, e, y


def _to_set(group: Group, extent: SetExtent) -> pyproj.Transformer | None:
    """Return the transformation of a group to the CRS of a set; None if none is needed.

    Raises:
        PlanError: PROJ has no transformation.
    """
    try:
        if to_group(group, extent.crs) is None:
            return None
        return _from_wkt(group.crs, extent.crs.code)
    except pyproj.exceptions.ProjError as error:
        source, target = pyproj.CRS.from_wkt(group.crs), proj_crs(extent.crs.code)
        body = re.search(r"same celestial body \([^()]*\)", str(error))
        reason = f"they are not on the {body[0]}" if body else "PROJ has no transformation"
        raise PlanError(
            f"{group.name}: cannot be transformed from {source.name!r} to {target.name!r}, the CRS "
            f"of {extent.name}: {reason}; choose another set"
        ) from None


def _boxes(group: Group, extent: SetExtent, points: int) -> tuple[BoundingBox, ...]:
    """Return the boxes around points of a group; none if it is outside the set."""
    columns, rows = np.linspace(0, group.width, points), np.linspace(0, group.height, points)
    places = np.stack(np.meshgrid(columns, rows))
    a, b, c, d, e, f = group.transform
    change = _to_set(group, extent)

    def placed(places: Floats) -> Floats:
        column, row = places
        x, y = a * column + b * row + c, d * column + e * row + f
        return np.stack((x, y) if change is None else change.transform(x, y))

    points_in_set = placed(places)
    finite = np.asarray(np.isfinite(points_in_set).all(axis=0))
    if not finite.any():
        return ()
    box = extent.box
    x, y = points_in_set[:, finite]
    if not finite.all():
        limb = placed(limb_of(places, finite, placed))
        y = np.concatenate([y, limb[1].clip(box.ymin, box.ymax)])
        x = np.concatenate([x, limb[0] if extent.period else limb[0].clip(box.xmin, box.xmax)])
    return boxes_in(x, y, extent.period, box, 1 if change is None else points)


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
