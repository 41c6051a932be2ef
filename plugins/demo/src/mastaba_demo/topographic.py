"""Topographic maps: elevation tints, contour lines, hillshade and rivers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mastaba_demo.colour import as_image, graded, paint
from mastaba_demo.light import contour, coverage, hillshade, inner, prominence, slopes
from mastaba_demo.noise import Field, smoothstep
from mastaba_demo.terrain import Terrain

_HEIGHTS = (0, 60, 200, 450, 800, 1300, 1900, 2600, 3300, 4200)
_TINTS = (
    (176, 205, 160),
    (186, 212, 164),
    (205, 220, 172),
    (224, 227, 182),
    (238, 228, 186),
    (234, 211, 168),
    (222, 192, 152),
    (214, 188, 164),
    (232, 222, 214),
    (252, 251, 250),
)
_DEPTHS = (-5000, -3000, -1500, -500, -200, -50, 0)
_SEA_TINTS = (
    (92, 142, 184),
    (112, 160, 198),
    (136, 180, 212),
    (162, 200, 224),
    (182, 214, 232),
    (200, 226, 239),
    (214, 235, 243),
)
_INTERVALS = {7: 1000, 8: 1000, 9: 500, 10: 200, 11: 100, 12: 50}  # metres, by level
_CONTOUR, _RIVER = (150, 104, 62), (70, 130, 180)
_COAST, _DEPTH_LINE = (64, 112, 152), (120, 165, 200)
_STEP = 6  # rounding step of colours, which halves the size of the PNG without visible loss


def topographic(terrain: Terrain, level: int, water: Field) -> NDArray[np.uint8]:
    """Return the map of a terrain; arguments and result are those of `imagery.imagery`."""
    height = inner(terrain.elevation, terrain)
    east, south = slopes(terrain)
    steepness = np.hypot(east, south)
    cell = terrain.cell_size
    light = hillshade(east, south, level) + 0.10 * prominence(terrain, level)

    land = graded(height, _HEIGHTS, _TINTS)
    land *= 0.62 + 0.38 * np.clip(light, 0, 1.25)
    shade = np.clip(1 - light, 0, 1)
    for plane, change in zip(land, (-6, -2, 14), strict=True):
        plane += shade * np.float32(change)
    interval = _INTERVALS.get(level)
    if interval:
        thin = contour(height, steepness, cell, interval, 0.7) * 0.38
        thick = contour(height, steepness, cell, 5 * interval, 1.3) * 0.55
        above_shore = smoothstep(0.3 * interval, 0.6 * interval, height)
        paint(land, _CONTOUR, np.maximum(thin, thick) * above_shore)
    paint(land, _RIVER, water)

    colour = graded(height, _DEPTHS, _SEA_TINTS)
    colour *= 0.88 + 0.12 * np.clip(light, 0, 1.3)
    depth_lines = contour(np.minimum(height, -1), steepness, cell, 1000, 0.6)
    paint(colour, _DEPTH_LINE, depth_lines * np.float32(0.3))
    paint(colour, land, coverage(height, steepness, cell))
    line = np.clip(1.1 - np.abs(height) / np.maximum(steepness * cell, 0.1), 0, 0.8)
    paint(colour, _COAST, line.astype(np.float32, copy=False))
    return as_image(colour, _STEP)


def relief(terrain: Terrain, level: int) -> NDArray[np.uint8]:
    """Return the hillshade of a terrain as grey, shape (rows, columns); flat ground is 160."""
    east, south = slopes(terrain)
    light = hillshade(east, south, level) + 0.12 * prominence(terrain, level)
    grey = np.round(np.clip(light * 160, 0, 248) / 8) * 8
    result: NDArray[np.uint8] = grey.astype(np.uint8)
    return result
