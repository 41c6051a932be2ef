"""Regular grids of heights in any CRS (elevation.md 2.4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import WGS84, BoundingBox
from mastaba.api.web import check_wanted
from mastaba_elevation.queries.footprints import Footprint
from mastaba_elevation.queries.ground import TURN, Floats, metres_per_unit, to_degrees

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, Equivalences
    from mastaba_elevation.queries.levels import HeightLayer

CHUNK: Final = 1 << 17
"""Points sampled at a time."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Evenly spaced centres of cells: the first one, the signed step, and their number."""

    start: float
    step: float
    count: int

    @property
    def stop(self) -> float:
        return self.start + self.step * (self.count - 1)

    @property
    def centres(self) -> Floats:
        return self.start + self.step * np.arange(self.count, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Grid:
    """Axes of a grid; y descends.

    Attributes:
        resolution: size of a cell on the ground, metres; it selects the level.
        registration: ``post`` if the centres are posts of a layer, else ``area``.
    """

    x: Axis
    y: Axis
    crs: CRS
    resolution: float
    registration: str = "area"

    @property
    def box(self) -> BoundingBox:
        """Outer edges of the cells."""
        dx, dy = self.x.step / 2, self.y.step / 2
        return BoundingBox(self.x.start - dx, self.y.stop + dy, self.x.stop + dx, self.y.start - dy)

    def sampled(
        self,
        heights_at: Callable[[Floats, Floats], Floats],
        members: npt.NDArray[np.bool_] | None = None,
    ) -> Floats:
        """Return the heights at the centres, shape (rows, columns); NaN without one.

        Args:
            members: centres that are sampled, of the same shape; None for all.
        """
        result = np.full((self.y.count, self.x.count), np.nan)
        rows = max(1, CHUNK // self.x.count)
        for start in range(0, self.y.count, rows):
            check_wanted()
            part = slice(start, start + rows)
            x, y = np.meshgrid(self.x.centres, self.y.centres[part])
            chosen = np.ones(x.shape, np.bool_) if members is None else members[part]
            if chosen.any():
                result[part][chosen] = heights_at(x[chosen], y[chosen])
        return result


def grid_over(box: BoundingBox, crs: CRS, footprint: Footprint, most: int, *, same: bool) -> Grid:
    """Return a grid with the cells of the level of a footprint.

    Cells are larger if there would be too many.

    Args:
        box: area to cover, CRS units.
        same: whether the CRS is that of the layer; the cells are then those of the level.
        most: number of cells at most.
    """
    level = footprint.level
    if same:
        top, bottom, left, right = footprint.window
        across, down = right - left, bottom - top
        if across * down <= most:
            x, y = level.places(np.array([left + 0.5]), np.array([top + 0.5]))
            return Grid(
                Axis(float(x[0]), level.cell, across),
                Axis(float(y[0]), -level.cell, down),
                crs,
                footprint.cell,
                "post" if footprint.has_posts else "area",
            )
    cell = footprint.cell / _metres(box, crs)
    width, height = box.xmax - box.xmin, box.ymax - box.ymin
    cell = max(cell, math.sqrt(width * height / most))
    across, down = max(1, math.ceil(width / cell)), max(1, math.ceil(height / cell))
    while across * down > most:
        cell *= 1.01
        across, down = max(1, math.ceil(width / cell)), max(1, math.ceil(height / cell))
    # In the middle of the box: the centre of a single cell is on the ground that is requested.
    west, north = (box.xmin + box.xmax - across * cell) / 2, (box.ymin + box.ymax + down * cell) / 2
    return Grid(
        Axis(west + cell / 2, cell, across),
        Axis(north - cell / 2, -cell, down),
        crs,
        cell * _metres(box, crs),
    )


def part_with_data(
    box: BoundingBox, crs: CRS, layers: Iterable[HeightLayer], equivalences: Equivalences
) -> BoundingBox | None:
    """Return the box around the part of a box in which layers may have heights.

    The whole box if a layer has no box in this CRS. Longitudes of the box may be beyond ±180.

    Returns:
        None if there is no such part.
    """
    found: list[BoundingBox] = []
    for layer in layers:
        if equivalences.equal(crs.code, layer.crs.code):
            known = layer.limits
        else:
            around, use = layer.layer.geographic_bbox, crs.area_of_use
            edge = layer.margin
            around = BoundingBox(
                max(around.xmin - edge, -TURN / 2),
                max(around.ymin - edge, -TURN / 4),
                min(around.xmax + edge, TURN / 2),
                min(around.ymax + edge, TURN / 4),
            )
            # Boxes are exact only inside the area of use.
            if not crs.is_geographic and use.union(around) != use:
                return box
            known = around if crs.is_geographic else WGS84.transform_bbox(around, crs)
        turns = (-TURN, 0.0, TURN) if crs.is_geographic else (0.0,)
        shifted = (
            BoundingBox(known.xmin + turn, known.ymin, known.xmax + turn, known.ymax)
            for turn in turns
        )
        found += filter(None, (box.intersection(part) for part in shifted))
    return reduce(BoundingBox.union, found) if found else None


def grid_between(box: BoundingBox, crs: CRS, across: int, down: int) -> Grid:
    """Return a grid of positions along both axes, both ends included.

    Args:
        across, down: number of positions; a single one is in the middle.
    """
    x, dx = _positions(box.xmin, box.xmax, across)
    y, dy = _positions(box.ymin, box.ymax, down)
    cell = min(dx, dy) if across > 1 and down > 1 else (dx if across > 1 else dy)
    return Grid(
        Axis(x, dx, across),
        Axis(y + dy * (down - 1), -dy, down),
        crs,
        max(cell, 1e-12) * _metres(box, crs),
    )


def _positions(low: float, high: float, count: int) -> tuple[float, float]:
    if count == 1:
        return (low + high) / 2, high - low
    return low, (high - low) / (count - 1)


def _metres(box: BoundingBox, crs: CRS) -> float:
    """Return the length of a CRS unit at the middle of a box, metres."""
    middle = np.array([(box.xmin + box.xmax) / 2]), np.array([(box.ymin + box.ymax) / 2])
    _, latitude = to_degrees(crs, *middle)
    where = float(latitude[0]) if math.isfinite(latitude[0]) else 0.0
    return float(metres_per_unit(crs, where))
