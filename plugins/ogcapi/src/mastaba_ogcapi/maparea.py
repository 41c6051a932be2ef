"""The area and size in pixels of a map (ogcapi.md section 9.3).

Every size is checked against the limits before anything is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from mastaba.api.catalogue import (
    CRS,
    PIXEL_SIZE,
    WORLD,
    BoundingBox,
    Equivalences,
    Layer,
    bbox_in,
    transform_points,
)
from mastaba.api.services import MapSettings
from mastaba.errors import InvalidParameterError
from mastaba_ogcapi.params import Interval
from mastaba_render.api.maps import (
    TURN,
    GroundBox,
    across_antimeridian,
    box_on_ground,
    transformed_box,
)

_LONGITUDES: Final = ("lon", "long", "longitude")
_LATITUDES: Final = ("lat", "latitude")
_EASTINGS: Final = ("e", "x", "easting")
_NORTHINGS: Final = ("n", "y", "northing")


class OutsideError(Exception):
    """The requested area is outside the data: an empty answer, not an error."""


@dataclass(frozen=True, slots=True)
class Area(GroundBox):
    """The area of a map, in its CRS."""

    crs: CRS = field(kw_only=True)

    @property
    def width(self) -> float:
        return self.box.xmax - self.box.xmin

    @property
    def height(self) -> float:
        return self.box.ymax - self.box.ymin


def area_of(bbox: BoundingBox, source: CRS, target: CRS, parameter: str) -> Area:
    """Return the area in the target CRS that contains a box in the source CRS.

    If the transformed box is not finite or not plausible, it is cut to the target CRS's area of
    use. A box in degrees that reaches beyond 180 is one across the antimeridian, and so may be one
    in a projected CRS.

    Args:
        source: the target itself if both CRSs are treated as the same.
        parameter: the parameter to report in errors.

    Raises:
        InvalidParameterError: the box cannot be transformed to the target CRS or has no extent.
    """
    if source is target:
        return Area(_sound(bbox, parameter), crs=target)
    across = _beyond(bbox) if source.is_geographic and not target.is_geographic else None
    if across is not None:
        return _across(across, source, target, parameter)
    found = box_on_ground(bbox, source, target)
    if found is None:
        raise _not_transformed(parameter)
    return _area(found, target, parameter)


def area_across(bbox: BoundingBox, source: CRS, target: CRS, parameter: str) -> Area:
    """Return the area for a box in degrees whose west is east of its east.

    Args and errors are those of `area_of`.
    """
    if not (WORLD.xmin <= bbox.xmax and bbox.xmin <= WORLD.xmax):
        raise InvalidParameterError(f"{parameter} has a longitude beyond 180 degrees", parameter)
    return _across(replace(bbox, xmax=bbox.xmax + TURN), source, target, parameter)


def extent_in(layers: Iterable[Layer], target: CRS, equivalences: Equivalences) -> BoundingBox:
    """Return the box around layers in a CRS.

    Raises:
        InvalidParameterError: no layer can be transformed to the CRS.
    """
    found: BoundingBox | None = None
    for layer in layers:
        native = layer.pyramid.tile_matrix_set.crs
        is_same = equivalences.equal(native.code, target.code)
        box = layer.native_bbox if is_same else bbox_in(layer, target)
        if box is None:
            box = transformed_box(layer.native_bbox, native, target)
        if box is not None:
            found = box if found is None else found.union(box)
    if found is None:
        raise InvalidParameterError("the data cannot be transformed to the CRS of the map", "crs")
    return found


def subset_area(
    intervals: Mapping[str, Interval], source: CRS, extent: BoundingBox, target: CRS
) -> Area:
    """Return the area that ``subset`` requests.

    Args:
        intervals: by axis name in lower case.
        source: CRS of the axes; the target itself if both are treated as the same.
        extent: of the drawn data, in the source CRS; open ends use its edges.

    Raises:
        InvalidParameterError: the CRS has no such axis, or an interval has no extent or cannot be
            transformed to the target CRS.
        OutsideError: it does not intersect the extent.
    """
    x, y = by_axis(intervals, source)
    if _is_backward(y) or (_is_backward(x) and (x.low == x.high or not source.is_geographic)):
        raise InvalidParameterError("subset has an interval without extent", "subset")
    west = extent.xmin if x.low is None else x.low
    east = extent.xmax if x.high is None else x.high
    south = extent.ymin if y.low is None else y.low
    north = extent.ymax if y.high is None else y.high
    across = source.is_geographic and west > east and None not in x
    if across and not (WORLD.xmin <= east and west <= WORLD.xmax):
        raise InvalidParameterError("subset has a longitude beyond 180 degrees", "subset")
    if across:
        east += TURN
    if not (west < east and south < north):
        # An interval with an open end runs backwards if it is outside the extent.
        raise OutsideError
    box = BoundingBox(west, south, east, north)
    turned = BoundingBox(west - TURN, south, east - TURN, north)
    if not (extent.intersection(box) or (across and extent.intersection(turned))):
        raise OutsideError
    if not across:
        return area_of(box, source, target, "subset")
    return _across(box, source, target, "subset")


def centred_area(x: float, y: float, crs: CRS, columns: int, rows: int, pixel: float) -> Area:
    """Return the area around a point.

    Args:
        x, y: in the CRS.
        columns, rows: size of the map in pixels.
        pixel: size of a pixel in metres.

    Raises:
        InvalidParameterError: the area is not finite or has no extent.
    """
    half_x = columns * pixel / crs.metres_per_unit / 2
    half_y = rows * pixel / crs.metres_per_unit / 2
    return Area(
        _sound(BoundingBox(x - half_x, y - half_y, x + half_x, y + half_y), "center"), crs=crs
    )


def size_of(
    area: Area,
    width: int | None,
    height: int | None,
    pixel: float | None,
    default: int,
    limits: MapSettings,
) -> tuple[int, int]:
    """Return the columns and rows of a map of an area; missing values are computed.

    Args:
        width, height: pixels, or None.
        pixel: size of a pixel in metres if the scale is given, or None.
        default: larger dimension in pixels if no other value is given.

    Raises:
        InvalidParameterError: the size exceeds a limit.
    """
    ratio = area.width / area.height
    wide: float
    high: float
    if pixel is not None:
        cell = pixel / area.crs.metres_per_unit
        wide = area.width / cell if cell else math.inf
        high = area.height / cell if cell else math.inf
    elif width is not None:
        wide, high = width, (width / ratio if height is None else height)
    elif height is not None:
        wide, high = height * ratio, height
    else:
        wide, high = default * min(1.0, ratio), default * min(1.0, 1.0 / ratio)
    # An extreme ratio can be 0 or infinite; both fail here or become one pixel.
    columns = _pixels(wide, "width", limits.max_width)
    rows = _pixels(high, "height", limits.max_height)
    check_pixels(columns, rows, limits)
    return columns, rows


def check_pixels(columns: int, rows: int, limits: MapSettings) -> None:
    """Check the total number of pixels of a map.

    Raises:
        InvalidParameterError: it exceeds the limit.
    """
    if columns * rows > limits.max_pixels:
        raise InvalidParameterError(f"the map has more than {limits.max_pixels} pixels", "width")


def pixel_size(scale_denominator: float, mm_per_pixel: float) -> float:
    """Return the size of a pixel on the ground in metres."""
    return scale_denominator * mm_per_pixel / 1000.0


def finest_scale(layers: Iterable[Layer]) -> float:
    """Return the scale denominator of the finest level of all layers."""
    return min(
        layer.pyramid.finest.matrix.scale_denominator(layer.pyramid.tile_matrix_set.crs)
        for layer in layers
    )


def level_factor(mm_per_pixel: float) -> float:
    """Return the factor applied to the requested resolution when a level is selected."""
    return PIXEL_SIZE * 1000.0 / mm_per_pixel


def point_in(x: float, y: float, source: CRS, target: CRS) -> tuple[float, float]:
    """Return a point in another CRS.

    Args:
        source: the target itself if both CRSs are treated as the same.

    Raises:
        InvalidParameterError: it cannot be transformed.
    """
    if source is target:
        return x, y
    found_x, found_y = transform_points(source, target, np.array([x]), np.array([y]))
    if not (np.isfinite(found_x[0]) and np.isfinite(found_y[0])):
        raise InvalidParameterError("center cannot be transformed to the CRS of the map", "center")
    return float(found_x[0]), float(found_y[0])


def _pixels(value: float, name: str, limit: int) -> int:
    if not value < limit + 0.5:
        raise InvalidParameterError(
            f"the {name} of the map would be more than {limit} pixels", name
        )
    return max(1, math.floor(value + 0.5))


def _sound(bbox: BoundingBox, parameter: str) -> BoundingBox:
    width, height = bbox.xmax - bbox.xmin, bbox.ymax - bbox.ymin
    if not (bbox.is_finite and math.isfinite(width) and math.isfinite(height)):
        raise InvalidParameterError(f"{parameter} has numbers that are too large", parameter)
    if width <= 0 or height <= 0 or not 0 < width / height < math.inf:
        raise InvalidParameterError(f"{parameter} has no extent", parameter)
    return bbox


def _beyond(bbox: BoundingBox) -> BoundingBox | None:
    """Return a box in degrees that reaches beyond 180, with its east beyond the antimeridian.

    None for other boxes, and for those around the Earth.
    """
    if bbox.xmax - bbox.xmin >= TURN:
        return None
    for turn in (0.0, TURN):
        west, east = bbox.xmin + turn, bbox.xmax + turn
        if WORLD.xmin <= west < WORLD.xmax < east:
            return BoundingBox(west, bbox.ymin, east, bbox.ymax)
    return None


def _across(bbox: BoundingBox, source: CRS, target: CRS, parameter: str) -> Area:
    """Return the area for a box in degrees whose east is beyond the antimeridian."""
    found = across_antimeridian(bbox, source, target)
    if found is None:
        raise _not_transformed(parameter)
    return _area(found, target, parameter)


def _area(found: GroundBox, target: CRS, parameter: str) -> Area:
    return Area(_sound(found.box, parameter), found.seam, found.turn, crs=target)


def _not_transformed(parameter: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"{parameter} cannot be transformed to the CRS of the map", parameter
    )


def _is_backward(interval: Interval) -> bool:
    low, high = interval
    return low is not None and high is not None and low >= high


def by_axis(intervals: Mapping[str, Interval], crs: CRS) -> tuple[Interval, Interval]:
    """Return the intervals to the east and to the north; open ones for axes without any.

    Args:
        intervals: by axis name in lower case.

    Raises:
        InvalidParameterError: the CRS has no such axis, or it has two names.
    """
    across, down = (_LONGITUDES, _LATITUDES) if crs.is_geographic else (_EASTINGS, _NORTHINGS)
    open_interval = Interval(None, None)
    x = y = open_interval
    for name, interval in intervals.items():
        if name in across and x is open_interval:
            x = interval
        elif name in down and y is open_interval:
            y = interval
        else:
            raise InvalidParameterError(f"the CRS has no axis {name}", "subset")
    return x, y
