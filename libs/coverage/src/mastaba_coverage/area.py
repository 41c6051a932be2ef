"""The area of a request, in the CRS of a layer or of the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import WORLD, BoundingBox, bbox_in
from mastaba.errors import InvalidParameterError
from mastaba_coverage.errors import InvalidIntervalError, OutsideCoverageError
from mastaba_render.api.maps import (
    TURN,
    GroundBox,
    across_antimeridian,
    box_on_ground,
    transformed_box,
)

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS
    from mastaba_coverage.grid import Coverage
    from mastaba_coverage.request import Interval, Trim

_FURTHEST: Final = 1e10
"""CRS units. No CRS has larger coordinates."""


def area_of_trim(
    coverage: Coverage, trim: Trim, target: CRS, extent: BoundingBox | None
) -> GroundBox:
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
        box = replace(box, xmax=box.xmax + TURN)
        turned = replace(box, xmin=box.xmin - TURN, xmax=box.xmax - TURN)
        if not (_meets(extent, box) or _meets(extent, turned)):
            raise OutsideCoverageError("the area is outside the coverage")
        across = across_antimeridian(box, crs, target)
        if across is None:
            raise _not_transformed(target)
        return across
    if not _meets(extent, box):
        raise OutsideCoverageError("the area is outside the coverage")
    if crs is target:
        return GroundBox(box)
    if crs.is_geographic:
        # What is beyond the world would come back on its other side, and the box between them.
        west, east = min(WORLD.xmin, extent.xmin), max(WORLD.xmax, extent.xmax)
        box = replace(box, xmin=max(box.xmin, west), xmax=min(box.xmax, east))
    found = box_on_ground(box, crs, target)
    if found is None:
        raise _not_transformed(target)
    if found.seam is not None and target is coverage.crs and not coverage.finest.around:
        # No cells repeat after a full turn: the box around both sides.
        return GroundBox(transformed_box(box, crs, target) or found.box)
    return found


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


def _not_transformed(target: CRS) -> InvalidParameterError:
    return InvalidParameterError(f"the area cannot be transformed to {target.code}", "trim")
