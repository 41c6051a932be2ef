"""Drawing of rivers into rasters."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from PIL import Image, ImageDraw

from mastaba_demo.hydrology import River
from mastaba_demo.noise import Field, Window
from mastaba_demo.terrain import WORLD_METRES

# Smallest drained area of the rivers drawn at each level, in square kilometres.
SMALLEST_AREA = {8: 2500.0, 9: 900.0, 10: 250.0, 11: 70.0, 12: 0.0}
_FINE = 4  # lines are drawn four times larger and then reduced, for antialiasing


def river_width(area: float) -> float:
    """Return the width in metres of a river that drains `area` square kilometres."""
    width: float = 5.0 * area**0.42
    return width


def visible(rivers: Iterable[River], window: Window, level: int) -> list[River]:
    """Return the rivers of a level that may intersect a window."""
    smallest = SMALLEST_AREA.get(level)
    if smallest is None:
        return []
    border = 8  # pixels: rivers have a width
    west, north = (window.left - border) / window.world, (window.top - border) / window.world
    side = (window.size + 2 * border) / window.world
    east, south = west + side, north + side
    found: list[River] = []
    for river in rivers:
        left, top, right, bottom = river.bounds
        near = left <= east and right >= west and top <= south and bottom >= north
        if near and river.area >= smallest:
            found.append(river)
    return found


def opacity(rivers: Iterable[River], window: Window, level: int, thinnest: float) -> Field:
    """Return the opacity of rivers, 0 to 1, per pixel of a window.

    Args:
        rivers: any rivers; only those visible in the window at this level are drawn.
        window: pixels of the level.
        level: level of the tile matrix set PM.
        thinnest: minimum line width in pixels; 0 draws true widths, so narrow rivers disappear.
    """
    drawn = visible(rivers, window, level)
    if not drawn:
        return np.zeros((window.size, window.size), np.float32)
    cell_size = WORLD_METRES / window.world
    side = window.size * _FINE
    image = Image.new("L", (side, side))
    pen = ImageDraw.Draw(image)
    for river in drawn:
        width = river_width(river.area) / cell_size
        shown = max(width, thinnest * (0.7 + 0.12 * np.log2(1 + river.area / 100)))
        fine = shown * _FINE
        strength = min(1.0, fine)  # a line cannot be thinner than one pixel: draw it paler
        points = (river.points * window.world - (window.left, window.top)) * _FINE
        pen.line(
            [(float(x), float(y)) for x, y in points],
            fill=int(255 * strength),
            width=max(1, round(fine)),
            joint="curve" if fine > 6 else None,
        )
    reduced = np.asarray(image.reduce(_FINE), np.float32)
    reduced /= 255
    return reduced
