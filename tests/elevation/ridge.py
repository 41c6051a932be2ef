"""A ground on the grid of WebMercatorQuad, with two levels of large tiles, holes and a gap."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

Floats = npt.NDArray[np.float64]

NODATA = -99999.0
TILE = 256
HALF = math.pi * 6378137.0
LEVELS = (LevelPlan("11", 736, 737, 1061, 1062), LevelPlan("12", 1472, 1474, 2122, 2124))
GAPS = {("12", 1473, 2123)}
"""Tiles that are not stored."""


def ground(columns: Floats, rows: Floats) -> Floats:
    """Return heights at pixels of level 12; slopes of up to 40 %, a lake at exactly 1600 m."""
    x, y = columns - 2122 * TILE, rows - 1472 * TILE
    heights = 1700 + 260 * np.sin(x / 61) * np.cos(y / 47) + 70 * np.sin((x + 2 * y) / 13)
    heights = heights + 6 * np.sin(x * 1.7 + y * 2.3)
    return np.where((x - 130) ** 2 + (y - 90) ** 2 < 900, 1600.0, heights)


def tile(level: str, row: int, column: int) -> npt.NDArray[np.float32] | None:
    if (level, row, column) in GAPS:
        return None
    factor = 2 ** (12 - int(level))
    i = (np.arange(column * TILE, (column + 1) * TILE) + 0.5) * factor - 0.5
    j = (np.arange(row * TILE, (row + 1) * TILE) + 0.5) * factor - 0.5
    heights = ground(i[np.newaxis, :], j[:, np.newaxis])
    if level == "12":
        heights[(i[np.newaxis, :] // 5 % 40 == 7) & (j[:, np.newaxis] // 3 % 50 == 9)] = NODATA
    return heights.astype(np.float32)


def write(directory: Path) -> Path:
    """Return the descriptor of the pyramid."""
    return write_pyramid(
        directory,
        "ridge",
        tile_matrix_set=web_mercator(),
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        nodata=[NODATA],
        levels=LEVELS,
        tile=tile,
        tiles_per_width=1,
        tiles_per_height=1,
    )
