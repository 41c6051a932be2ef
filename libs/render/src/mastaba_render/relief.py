"""Hillshade, slope and aspect from elevations (style.md section 6).

Each pixel is computed from the 3 × 3 pixels around it, so the elevations must extend one pixel
beyond the result on each side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Settings = Mapping[str, Any]
Cell = tuple[float, float]
"""Width and height of a pixel on the ground, metres."""
_Sample = TypeVar("_Sample", bound=np.generic)

METRES_PER_DEGREE: Final = 111319.492


def apply_relief(
    name: str,
    settings: Settings,
    elevations: npt.NDArray[Any],
    valid: Mask | None,
    cell_x: float,
    cell_y: float,
) -> tuple[Float32, Mask | None]:
    """Return hillshade, slope or aspect.

    Args:
        name: one of `RELIEF_STYLES`.
        settings: settings of the style.
        elevations: shape (height + 2, width + 2), uint8 or float32.
        valid: same shape, False where there is no data; None if all is data.
        cell_x, cell_y: ground size of a pixel, metres.

    Returns:
        values, shape (height, width), with the nodata value of the style where there is no
        result; and the mask of pixels whose nine source pixels are all data, None if all are.
    """
    missing = elevations == np.float32(settings.get("image_nodata", -99999.0))
    if valid is not None:
        missing |= ~valid
    function, _, _ = _STYLES[name]
    nodata = relief_nodata(name, settings)
    values = function(settings, nodata, elevations.astype(np.float64), (cell_x, cell_y))
    if not missing.any():
        return values.astype(np.float32), None
    touched = np.any(_neighbours(missing), axis=0)
    values[touched] = nodata
    return values.astype(np.float32), ~touched


def relief_nodata(name: str, settings: Settings) -> float:
    """Return the value that a style writes where there is no result."""
    _, key, default = _STYLES[name]
    return float(settings.get(key, default))


def _neighbours(pixels: npt.NDArray[_Sample]) -> list[npt.NDArray[_Sample]]:
    """Return the 3 × 3 pixels a … i around each pixel, row by row from the north-west."""
    height, width = pixels.shape[0] - 2, pixels.shape[1] - 2
    return [pixels[i : i + height, j : j + width] for i in range(3) for j in range(3)]


def _horn(elevations: Float64, cell: Cell) -> tuple[Float64, Float64]:
    """Return the eastward and southward gradients by Horn's method."""
    cell_x, cell_y = cell
    a, b, c, d, _, f, g, h, i = _neighbours(elevations)
    east = ((c + 2 * f + i) - (a + 2 * d + g)) / (8 * cell_x)
    south = ((g + 2 * h + i) - (a + 2 * b + c)) / (8 * cell_y)
    return east, south


def _hillshade(settings: Settings, nodata: float, elevations: Float64, cell: Cell) -> Float64:
    zenith = math.radians(90.0 - settings.get("zenith", 45.0))
    # The angle of the sun from the east, counter-clockwise.
    sun = math.radians((360.0 - settings.get("azimuth", 315.0) + 90.0) % 360.0)
    east, south = _horn(elevations, cell)
    slope = np.arctan(settings.get("z_factor", 1.0) * np.hypot(east, south))
    aspect = np.arctan2(south, -east)
    light = math.cos(zenith) * np.cos(slope) + math.sin(zenith) * np.sin(slope) * np.cos(
        sun - aspect
    )
    values = 255.0 * light
    return np.where(values < 0.0, nodata, values)


def _slope(settings: Settings, nodata: float, elevations: Float64, cell: Cell) -> Float64:
    if settings.get("algo", "H") == "Z":
        _, b, _, d, _, f, _, h, _ = _neighbours(elevations)
        steepness = np.hypot((f - d) / (2 * cell[0]), (h - b) / (2 * cell[1]))
    else:
        steepness = np.hypot(*_horn(elevations, cell))
    if settings.get("unit", "degree") == "pourcent":
        values = steepness * 100.0
    else:
        values = np.degrees(np.arctan(steepness))
    return np.minimum(values, float(settings.get("slope_max", 90)))


def _aspect(settings: Settings, nodata: float, elevations: Float64, cell: Cell) -> Float64:
    side = sum(cell) / 2
    east, south = _horn(elevations, (side, side))
    north = -south
    flat = np.hypot(east, north) < math.radians(settings.get("min_slope", 1.0))
    bearing = np.degrees(np.arctan2(east, north) + math.pi)
    return np.where(flat, nodata, bearing)


_STYLES: Final = {
    "estompage": (_hillshade, "estompage_nodata", 0.0),
    "pente": (_slope, "slope_nodata", 0.0),
    "exposition": (_aspect, "aspect_nodata", -1.0),
}
"""Function, and the setting for nodata with its default, by name."""

RELIEF_STYLES: Final = tuple(_STYLES)
