"""The levels of a plan, and the pixel sizes of the sources, which the finest of them follows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise

import numpy as np

from mastaba.api.catalogue import CRS, BoundingBox, TileLimits, TileMatrix, TileMatrixSet
from mastaba_build.config.configuration import AUTO, Configuration
from mastaba_build.errors import PlanError
from mastaba_build.sources.groups import Group, to_group
from mastaba_build.sources.sets import box_factor
from mastaba_build.sources.turns import in_nearest_turn, period_of


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a plan.

    Attributes:
        matrix: of the tile matrix set.
        limits: tiles that sources may touch.
        factor: pixels of the next finer level on a side of a pixel; 0 if the pixels come from the
            sources.
    """

    matrix: TileMatrix
    limits: TileLimits
    factor: int

    @property
    def from_sources(self) -> bool:
        """Whether the pixels come from the sources, and not from the next finer level."""
        return self.factor == 0

    def decimated(self, matrix: TileMatrix, factor: int) -> Level:
        """Return the next coarser level, whose pixels are made of those of this one."""
        edges = (edge // factor for edge in astuple(self.limits))
        return Level(matrix, TileLimits(*edges), factor)


def levels_of(
    configuration: Configuration,
    tile_matrix_set: TileMatrixSet,
    resolution: float,
    extents: Sequence[BoundingBox],
) -> list[Level]:
    """Return the levels of a plan, the finest first.

    Args:
        resolution: of the finest group, in units of the set.
        extents: of all groups.
    """
    ordered = list(tile_matrix_set.matrices.values())
    for key in (configuration.bottom, configuration.top):
        if key != AUTO and key not in tile_matrix_set.matrices:
            raise PlanError(f"level {key!r} is not in the tile matrix set {tile_matrix_set.id}")
    bottom = configuration.bottom
    if bottom == AUTO:
        fitting = [matrix for matrix in ordered if resolution / matrix.cell_size >= 0.8]
        bottom = fitting[0].id if fitting else ordered[-1].id
    if configuration.top_only:
        bottom = _above(tile_matrix_set, bottom)
    top = ordered[0].id if configuration.top == AUTO else configuration.top
    chosen = tile_matrix_set.between(top, bottom)[::-1]
    if not chosen:
        raise PlanError(f"top level {top} is finer than bottom level {bottom}; exchange them")
    factors = [0, *[box_factor(fine, coarse) for fine, coarse in pairwise(chosen)]]
    limits = [matrix.limits_of(box) for matrix in chosen for box in extents]
    levels = []
    for number, (matrix, factor) in enumerate(zip(chosen, factors, strict=True)):
        of_level = limits[number * len(extents) : (number + 1) * len(extents)]
        touched = [one for one in of_level if one is not None]
        if not touched:
            raise PlanError(f"no source is inside level {matrix.id} of {tile_matrix_set.id}")
        levels.append(Level(matrix, union(touched), factor))
    return levels


def _above(tile_matrix_set: TileMatrixSet, level: str) -> str:
    """Return the level above the one that the sources themselves have.

    Raises:
        PlanError: there is none.
    """
    names = list(tile_matrix_set.matrices)
    place = names.index(level)
    if not place:
        raise PlanError(f"no level of {tile_matrix_set.id} is above {level}, that of the sources")
    return names[place - 1]


def around(boxes: Sequence[BoundingBox]) -> BoundingBox:
    """Return the smallest box around some, at least one."""
    if len(boxes) == 1:
        return boxes[0]
    return BoundingBox(
        min(box.xmin for box in boxes),
        min(box.ymin for box in boxes),
        max(box.xmax for box in boxes),
        max(box.ymax for box in boxes),
    )


def _area(box: BoundingBox) -> float:
    return (box.xmax - box.xmin) * (box.ymax - box.ymin)


def union(limits: Iterable[TileLimits]) -> TileLimits:
    """Return the smallest limits that contain some, at least one."""
    some = list(limits)
    if len(some) == 1:
        return some[0]
    rows, last_rows, columns, last_columns = zip(*map(astuple, some), strict=True)
    return TileLimits(min(rows), max(last_rows), min(columns), max(last_columns))


def pixel_sizes(
    groups: Sequence[Group], boxes: Sequence[Sequence[BoundingBox]], crs: CRS
) -> list[float]:
    """Return the size of a pixel of each group, in units of a CRS.

    Args:
        boxes: of each group, in the CRS.

    Raises:
        PlanError: it is unknown.
    """
    return [_pixel_size(group, some, crs) for group, some in zip(groups, boxes, strict=True)]


def _pixel_size(group: Group, boxes: Sequence[BoundingBox], crs: CRS) -> float:
    """Return the geometric mean of the pixel size at the centre of a group."""
    back, box = to_group(group, crs), max(boxes, key=_area)
    x, y = (box.xmin + box.xmax) / 2, (box.ymin + box.ymax) / 2
    step = max(box.xmax - box.xmin, box.ymax - box.ymin) / 1000
    places = np.array([x, x + step, x]), np.array([y, y, y + step])
    xs, ys = places if back is None else back.transform(*places)
    right, down = in_nearest_turn(xs[1:] - xs[0], period_of(group.crs)).tolist()
    area = abs(right * (ys[2] - ys[0]) - down * (ys[1] - ys[0]))
    if not math.isfinite(area) or area == 0:
        raise PlanError(f"{group.name}: its resolution in the set is unknown; state --bottom")
    return math.sqrt(group.members[0].source.pixel_area / area) * step
