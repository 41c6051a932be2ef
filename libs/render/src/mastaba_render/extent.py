"""The extent of a map: its pixels, and what is known of it in the CRS of a layer."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS, WGS84, geographic_bbox, poles_in, transform_points
from mastaba.model.tile_matrix_set import TileMatrix
from mastaba_render.map_request import MapRequest
from mastaba_render.native import Window
from mastaba_render.sampling import ALIGNED

_POINTS_PER_EDGE: Final = 256

# How far a map may plausibly extend beyond the area of use of its CRS, in sizes of that area.
_PLAUSIBLE: Final = 4.0
# Relative. The area of use of Mercator is a turn but for the last digits.
_ROUNDING: Final = 1e-9
# A shorter turn is the rounding error of a CRS in which the antimeridian is a line like others.
_SHORTEST_TURN: Final = 1.0


def cell_of(request: MapRequest) -> tuple[float, float]:
    """Return width and height of a pixel, CRS units."""
    bbox = request.bbox
    return (bbox.xmax - bbox.xmin) / request.width, (bbox.ymax - bbox.ymin) / request.height


def part_of(request: MapRequest, window: Window) -> MapRequest:
    """Return some rows and columns of a map, which may lie outside."""
    if window == (0, request.height, 0, request.width):
        return request
    x, y = cell_of(request)
    corner, (top, bottom, left, right) = request.bbox, window
    bbox = BoundingBox(
        corner.xmin + left * x,
        corner.ymax - bottom * y,
        corner.xmin + right * x,
        corner.ymax - top * y,
    )
    return replace(request, bbox=bbox, width=right - left, height=bottom - top)


def part_with_data(
    request: MapRequest, source: CRS, finest: TileMatrix, turn: float
) -> tuple[Window, MapRequest, BoundingBox] | None:
    """Return the pixels that may show a pyramid in another CRS, and their box in that CRS.

    Args:
        source: CRS of the pyramid.
        finest: matrix of its finest level.
        turn: of ``source``, as returned by `turn_of`.

    Returns:
        rows and columns of the map, the map of these alone, and their box; None if no pixel has a
        position there.
    """
    found = None
    for area in _areas_to_try(request.crs.code, source.code):
        window = _covered_pixels(request, area)
        if window is None:
            return None
        part = part_of(request, window)
        with contextlib.suppress(ValueError):
            inside = part.bbox
            is_beyond = inside.xmin < area.xmin or inside.xmax > area.xmax
            if is_beyond and not finest.tiles_around(turn):
                inside = _moved_inside(inside, area)
            box = request.crs.transform_bbox(inside, source)
            if box.xmax - box.xmin > turn / 2 and finest.tiles_around(turn):
                box = _shorter_way(box, part, source, turn)
            found = window, part, box
            if _plausible_box(source.code).contains(box):
                break
    return found


def turn_of(crs: CRS) -> float:
    """Return the length of a full turn of the Earth along x, CRS units.

    Infinite if the antimeridian is not an edge of the CRS.
    """
    return _turn_of(crs.code)


# These caches have codes as keys: to hash or compare a CRS takes longer than a look-up.
@lru_cache(maxsize=1024)
def _turn_of(code: str) -> float:
    x, _ = transform_points(WGS84, CRS.from_code(code), np.array([-180.0, 180.0]), np.zeros(2))
    turn = float(x[1] - x[0])
    return turn if np.isfinite(turn) and turn >= _SHORTEST_TURN else np.inf


def tiles_around(matrix: TileMatrix, crs: CRS) -> int:
    """Return the number of tiles in a full turn of the Earth; see `TileMatrix.tiles_around`."""
    return matrix.tiles_around(turn_of(crs))


def _moved_inside(box: BoundingBox, area: BoundingBox) -> BoundingBox:
    """Return a box moved along x by the part of a pixel that is beyond an area.

    Beyond the antimeridian are places on the other side of the Earth, and its box would be a belt.
    """
    by = max(area.xmin - box.xmin, 0.0) - max(box.xmax - area.xmax, 0.0)
    moved = replace(box, xmin=box.xmin + by, xmax=box.xmax + by)
    return replace(box, xmin=max(moved.xmin, area.xmin), xmax=min(moved.xmax, area.xmax))


def _shorter_way(box: BoundingBox, request: MapRequest, source: CRS, turn: float) -> BoundingBox:
    """Return the box of a map in the source CRS, the shorter way around if it is possible.

    The box of an extent across the antimeridian then extends beyond the edge of the CRS.

    Args:
        box: the box that goes the longer way.

    Raises:
        ValueError: a part of the extent has no finite position there.
    """
    bbox = request.bbox
    corners = np.array(
        [
            [bbox.xmin, bbox.xmax, bbox.xmax, bbox.xmin, bbox.xmin],
            [bbox.ymin, bbox.ymin, bbox.ymax, bbox.ymax, bbox.ymin],
        ]
    )
    ring = np.linspace(corners[:, :-1], corners[:, 1:], _POINTS_PER_EDGE, axis=-1)
    x, _ = transform_points(request.crs, source, *ring.reshape(2, -1))
    around = np.unwrap(x, period=turn)
    # A ring around a pole does not close.
    if abs(around[-1] - around[0]) > turn / 2 or np.ptp(around) >= box.xmax - box.xmin:
        return box
    return replace(box, xmin=float(around.min()), xmax=float(around.max()))


@lru_cache(maxsize=1024)
def _areas_to_try(code: str, source_code: str) -> tuple[BoundingBox, ...]:
    """Return the boxes to which a map may be clipped, in units of its CRS, the preferred one first.

    A map is clipped to the area of use of its own CRS. If even that has no position in the source
    CRS (the poles in Mercator), it is clipped to the area of use of the source CRS as well.
    """
    crs, source = CRS.from_code(code), CRS.from_code(source_code)
    areas = [crs.area_of_use, crs.area_of_use.intersection(source.area_of_use)]
    boxes: list[BoundingBox] = []
    for area in areas:
        if area is not None:
            with contextlib.suppress(ValueError):
                boxes.append(WGS84.transform_bbox(area, crs))
    return tuple(boxes)


@lru_cache(maxsize=1024)
def _plausible_box(code: str) -> BoundingBox:
    crs = CRS.from_code(code)
    try:
        area = WGS84.transform_bbox(crs.area_of_use, crs)
    except ValueError:
        return BoundingBox(-np.inf, -np.inf, np.inf, np.inf)
    x, y = _PLAUSIBLE * (area.xmax - area.xmin), _PLAUSIBLE * (area.ymax - area.ymin)
    return BoundingBox(area.xmin - x, area.ymin - y, area.xmax + x, area.ymax + y)


def is_plausible(bbox: BoundingBox, crs: CRS) -> bool:
    """Return whether a transformed box is not inflated by a singularity, such as a pole.

    PROJ gives the poles a finite position in Mercator. A level chosen for such a box would be
    much too coarse.
    """
    return _plausible_box(crs.code).contains(bbox)


def transformed_box(bbox: BoundingBox, source: CRS, target: CRS) -> BoundingBox | None:
    """Return the box around a box in another CRS, also around a pole in it.

    If it is not finite or not plausible, it is cut to the target's area of use.

    Returns:
        None if the box cannot be transformed, or does not meet the area of use.
    """
    poles = () if source == target else poles_in(bbox, source)
    if any(not is_point(latitude, target.code) for latitude in poles):
        # The edges of the box do not come near the pole, which is an edge of the target.
        with contextlib.suppress(ValueError):
            area: BoundingBox | None = geographic_bbox(bbox, source)
            if area is not None and not target.is_geographic:
                area = area.intersection(target.area_of_use)
            return None if area is None else WGS84.transform_bbox(area, target)
    try:
        found = source.transform_bbox(bbox, target)
        if is_plausible(found, target):
            return found
    except ValueError:
        found = None
    try:
        area = source.transform_bbox(bbox, WGS84).intersection(target.area_of_use)
        return None if area is None else WGS84.transform_bbox(area, target)
    except ValueError:
        # The implausible box, if any, is the best available.
        return found


@lru_cache(maxsize=1024)
def is_point(latitude: float, code: str) -> bool:
    """Return whether a pole is a single point in a CRS, as in stereographic projections."""
    crs = CRS.from_code(code)
    if crs.is_geographic:
        return False
    places = transform_points(WGS84, crs, np.array([0.0, 120.0, 240.0]), np.full(3, latitude))
    return bool(np.isfinite(places).all() and np.ptp(places, axis=1).max() < 1.0)


def _covered_pixels(request: MapRequest, area: BoundingBox) -> Window | None:
    """Return the pixels of a map that lie entirely in an area; None if there are none.

    Of an area around the Earth, a pixel counts whose middle is inside: what is beyond the
    antimeridian is a place, too.
    """
    bbox, width, height = request.bbox, request.width, request.height
    cell_x, cell_y = cell_of(request)
    is_around = area.xmax - area.xmin >= (1 - _ROUNDING) * turn_of(request.crs)
    beyond = ALIGNED + 0.5 * is_around
    left = max(0, int(np.ceil((area.xmin - bbox.xmin) / cell_x - beyond)))
    right = min(width, int(np.floor((area.xmax - bbox.xmin) / cell_x + beyond)))
    top = max(0, int(np.ceil((bbox.ymax - area.ymax) / cell_y - ALIGNED)))
    bottom = min(height, int(np.floor((bbox.ymax - area.ymin) / cell_y + ALIGNED)))
    if left >= right or top >= bottom:
        return None
    return Window(top, bottom, left, right)
