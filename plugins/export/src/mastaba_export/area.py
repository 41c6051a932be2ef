"""Areas of requests: a box or GeoJSON polygons, in the CRS of a layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba.api.catalogue import CRS, BoundingBox, geographic_bbox, transform_points
from mastaba_export.errors import InvalidRequestError
from mastaba_export.selection import Area
from mastaba_render.api.areas import polygons_of
from mastaba_render.api.maps import box_on_ground

if TYPE_CHECKING:
    from mastaba.api.catalogue import Equivalences
    from mastaba_export.request import ExportRequest
    from mastaba_export.selection import Ring

MOST_POINTS: Final = 10_000
"""Points of all polygons."""
_PARTS: Final = 32
"""Parts of an edge that is transformed to another CRS."""
_TURN: Final = 360.0


def area_of(request: ExportRequest, native: CRS, equivalences: Equivalences) -> Area | None:
    """Return the area of a request in the CRS of the layer; None if the request has none.

    Raises:
        InvalidRequestError: the area is invalid, or cannot be transformed.
    """
    if request.bbox is None and request.area is None:
        return None
    try:
        source = CRS.from_code(request.crs)
    except ValueError as error:
        raise InvalidRequestError(f"crs: {error}", "crs") from None
    if equivalences.equal(source.code, native.code):
        source = native
    if request.bbox is not None:
        return _box_area(BoundingBox(*request.bbox), source, native)
    try:
        polygons: Sequence[Sequence[Ring]] = polygons_of(request.area, MOST_POINTS, is_strict=False)
    except ValueError as error:
        raise InvalidRequestError(f"area: {error}", "area") from None
    if source.is_geographic:
        polygons = [part for rings in polygons for part in _in_one_turn(rings)]
    moved = [[_moved(ring, source, native) for ring in rings] for rings in polygons]
    kept = (tuple(ring for ring in rings if len(ring)) for rings in moved)
    return Area(polygons=tuple(rings for rings in kept if rings))


def _box_area(box: BoundingBox, source: CRS, native: CRS) -> Area:
    if box.ymin > box.ymax:
        raise InvalidRequestError("bbox: the south is above the north (x comes first)", "bbox")
    if not source.is_geographic:
        if box.xmin > box.xmax:
            raise InvalidRequestError("bbox: the west is beyond the east", "bbox")
        return Area(boxes=_projected_boxes(box, source, native))
    east = box.xmax + _TURN if box.xmin > box.xmax else box.xmax
    if abs(box.xmin) > _TURN or abs(east) > 2 * _TURN:
        raise InvalidRequestError("bbox: a longitude is beyond 360 degrees", "bbox")
    parts = (
        (max(box.xmin - turn, -180.0), min(east - turn, 180.0)) for turn in (-_TURN, 0.0, _TURN)
    )
    boxes = [BoundingBox(west, box.ymin, end, box.ymax) for west, end in parts if west <= end]
    if len(boxes) > 1:
        # A part that is only the meridian at the end of the box.
        boxes = [one for one in boxes if one.xmin < one.xmax] or boxes
    found = [one for one in (_moved_box(one, source, native) for one in boxes) if one is not None]
    return Area(boxes=tuple(found))


def _projected_boxes(box: BoundingBox, source: CRS, native: CRS) -> tuple[BoundingBox, ...]:
    """Return what a box in a projected CRS covers.

    One box, two across the antimeridian, none outside the area of use of the CRS of the layer.
    """
    found = box_on_ground(box, source, native)
    if found is None and _is_outside(box, source, native):
        return ()
    if found is None:
        raise InvalidRequestError(f"bbox: cannot be transformed to {native.code}", "bbox")
    if found.seam is None:
        return (found.box,)
    east = replace(found.box, xmin=found.seam - found.turn, xmax=found.box.xmax - found.turn)
    return replace(found.box, xmax=found.seam), east


def _is_outside(box: BoundingBox, source: CRS, native: CRS) -> bool:
    try:
        return geographic_bbox(box, source).intersection(native.area_of_use) is None
    except ValueError:
        return False


def _moved_box(box: BoundingBox, source: CRS, native: CRS) -> BoundingBox | None:
    """Return the box around a box of longitudes and latitudes; None outside the area of the CRS."""
    try:
        return source.transform_bbox(box, native)
    except ValueError:
        pass
    common = box.intersection(native.area_of_use)
    if common is None:
        return None
    try:
        return source.transform_bbox(common, native)
    except ValueError:
        pass
    raise InvalidRequestError(f"bbox: cannot be transformed to {native.code}", "bbox")


def _in_one_turn(rings: Sequence[Ring]) -> Iterator[Sequence[Ring]]:
    """Yield a polygon in longitudes, cut where it leaves those from -180 to 180 degrees."""
    west = min(float(ring[:, 0].min()) for ring in rings)
    east = max(float(ring[:, 0].max()) for ring in rings)
    if west >= -180.0 and east <= 180.0:
        yield rings
        return
    if west < -_TURN or east > 2 * _TURN:
        raise InvalidRequestError("area: a longitude is beyond 360 degrees", "area")
    for turn in (-_TURN, 0.0, _TURN):
        parts = [_cut(ring - np.array([turn, 0.0]), 0, -180.0, 180.0) for ring in rings]
        parts = [part for part in parts if len(part)]
        if parts:
            yield parts


def _cut(ring: Ring, axis: int, low: float, high: float) -> Ring:
    """Return the part of a ring between two values of an axis; empty if there is none."""
    for bound, sign in ((low, 1.0), (high, -1.0)):
        if not len(ring):
            break
        depth = sign * (ring[:, axis] - bound)
        found = []
        for number in range(len(ring) - 1):
            here, there = depth[number], depth[number + 1]
            if here >= 0:
                found.append(ring[number])
            if (here >= 0) != (there >= 0):
                share = here / (here - there)
                crossing = ring[number] + share * (ring[number + 1] - ring[number])
                crossing[axis] = bound
                found.append(crossing)
        ring = np.array([*found, found[0]]) if found else np.empty((0, 2))
    return ring


def _moved(ring: Ring, source: CRS, native: CRS) -> Ring:
    """Return a ring in another CRS, with further points on its edges; empty if it is outside."""
    if source == native:
        return ring
    found = _transformed(ring, source, native)
    if not np.isfinite(found).all() and source.is_geographic:
        # Beyond the area of a CRS, positions may be infinite.
        area = native.area_of_use
        ring = _cut(ring, 1, area.ymin, area.ymax)
        found = _transformed(ring, source, native) if len(ring) else ring
    if not np.isfinite(found).all():
        raise InvalidRequestError(f"area: cannot be transformed to {native.code}", "area")
    return found


def _transformed(ring: Ring, source: CRS, native: CRS) -> Ring:
    along = np.arange(_PARTS) / _PARTS
    steps = np.diff(ring, axis=0)
    points = (ring[:-1, np.newaxis] + along[:, np.newaxis] * steps[:, np.newaxis]).reshape(-1, 2)
    points = np.concatenate([points, ring[-1:]])
    x, y = transform_points(source, native, points[:, 0].copy(), points[:, 1].copy())
    return np.column_stack([x, y])
