"""The area of a request, in the CRS of a layer or of the answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba.api.catalogue import WGS84, WORLD, BoundingBox, bbox_in, transform_points
from mastaba.errors import InvalidParameterError
from mastaba_coverage.errors import InvalidIntervalError, OutsideCoverageError
from mastaba_render.api.maps import transformed_box

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS
    from mastaba_coverage.grid import Coverage
    from mastaba_coverage.request import Interval, Trim

_TURN: Final = 360.0
_FURTHEST: Final = 1e10
"""CRS units. No CRS has larger coordinates."""


@dataclass(frozen=True, slots=True)
class Area:
    """A box of the ground.

    Attributes:
        box: x before y. Across the antimeridian, its east is beyond ``seam``.
        seam: x of the antimeridian inside the box, or None.
        turn: width of the world in CRS units, used with a seam.
    """

    box: BoundingBox
    seam: float | None = None
    turn: float = 0.0

    @property
    def written(self) -> BoundingBox:
        """The box for clients; across the antimeridian, west is larger than east."""
        if self.seam is None:
            return self.box
        return replace(self.box, xmax=self.box.xmax - self.turn)

    def parts(self, columns: int) -> list[tuple[BoundingBox, int]]:
        """Return the boxes to draw side by side, each with its number of columns."""
        box = self.box
        if self.seam is None:
            return [(box, columns)]
        cell = (box.xmax - box.xmin) / columns
        west = min(max(round((self.seam - box.xmin) / cell), 0), columns)
        middle = box.xmin + west * cell
        left = replace(box, xmax=middle)
        right = replace(box, xmin=middle - self.turn, xmax=box.xmax - self.turn)
        return [(part, count) for part, count in ((left, west), (right, columns - west)) if count]


def area_of_trim(coverage: Coverage, trim: Trim, target: CRS, extent: BoundingBox | None) -> Area:
    """Return the area around a trim in another CRS, not yet clipped.

    Args:
        target: the CRS; that of the trim itself, if both are treated as the same.
        extent: of the coverage in the CRS of the trim, for open ends; None if it has none there.

    Raises:
        InvalidIntervalError: an interval runs backwards, or is not finite.
        OutsideCoverageError: the trim does not meet the extent.
        InvalidParameterError: the area cannot be transformed.
    """
    crs = trim.crs
    if extent is None:
        raise InvalidParameterError(f"the coverage cannot be transformed to {crs.code}", "trim")
    _check(trim.y, "y", is_cyclic=False)
    _check(trim.x, "x", is_cyclic=crs.is_geographic)
    box = BoundingBox(
        extent.xmin if trim.x.low is None else trim.x.low,
        extent.ymin if trim.y.low is None else trim.y.low,
        extent.xmax if trim.x.high is None else trim.x.high,
        extent.ymax if trim.y.high is None else trim.y.high,
    )
    is_across = crs.is_geographic and box.xmin > box.xmax and None not in trim.x
    if is_across:
        if not (WORLD.xmin <= box.xmax and box.xmin <= WORLD.xmax):
            raise InvalidIntervalError("a longitude is beyond 180 degrees", "x")
        box = replace(box, xmax=box.xmax + _TURN)
        turned = replace(box, xmin=box.xmin - _TURN, xmax=box.xmax - _TURN)
        if not (_meets(extent, box) or _meets(extent, turned)):
            raise OutsideCoverageError("the area is outside the coverage")
        return _across(box, crs, target)
    if not _meets(extent, box):
        raise OutsideCoverageError("the area is outside the coverage")
    if crs is target:
        return Area(box)
    found = transformed_box(box, crs, target)
    if found is None:
        raise InvalidParameterError(f"the area cannot be transformed to {target.code}", "trim")
    return Area(found)


def extent_in(coverage: Coverage, crs: CRS, *, is_native: bool) -> BoundingBox | None:
    """Return the box around a coverage in a CRS; None if it has none there."""
    grid = coverage.finest
    if is_native:
        return grid.edges(grid.window)
    native = coverage.layer.pyramid.tile_matrix_set.crs
    box = bbox_in(coverage.layer, crs)
    return transformed_box(coverage.layer.native_bbox, native, crs) if box is None else box


def _check(interval: Interval, axis: str, *, is_cyclic: bool) -> None:
    low, high = interval
    for value in interval:
        if value is not None and not abs(value) <= _FURTHEST:
            raise InvalidIntervalError(f"a limit of {axis} is too large", axis)
    if low is not None and high is not None and low > high and not is_cyclic:
        raise InvalidIntervalError(f"the interval of {axis} runs backwards", axis)


def _meets(one: BoundingBox, other: BoundingBox) -> bool:
    """Return whether two closed boxes, perhaps without extent, meet."""
    return max(one.xmin, other.xmin) <= min(one.xmax, other.xmax) and max(
        one.ymin, other.ymin
    ) <= min(one.ymax, other.ymax)


def _across(box: BoundingBox, source: CRS, target: CRS) -> Area:
    """Return the area for a box in degrees whose east is beyond the antimeridian."""
    cut = box.intersection(BoundingBox(-_TURN, -90.0, 2 * _TURN, 90.0)) or box
    if source is target or target.is_geographic:
        return Area(cut, 180.0, _TURN)
    western = transformed_box(replace(cut, xmax=180.0), source, target)
    eastern = transformed_box(replace(cut, xmin=-180.0, xmax=cut.xmax - _TURN), source, target)
    if western is None or eastern is None:
        raise InvalidParameterError(f"the area cannot be transformed to {target.code}", "trim")
    equator = transform_points(WGS84, target, np.array([-180.0, 180.0]), np.zeros(2))[0]
    turn = float(np.ptp(equator))
    union = western.union(eastern)
    # The east and west edges of the CRS meet at the antimeridian, as in Mercator.
    if eastern.xmax < western.xmin and math.isclose(turn, union.xmax - union.xmin):
        joined = replace(union, xmin=western.xmin, xmax=eastern.xmax + turn)
        return Area(joined, western.xmax, turn)
    return Area(union)
