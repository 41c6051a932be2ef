"""Maps computed plainly from their documented formula, in float64 and pixel by pixel.

Nothing of the renderer is used: NumPy and PROJ alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Move = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""Returns x and y in another CRS."""

RADIUS = {"linear": 1.0, "bicubic": 2.0, "lanczos_2": 2.0, "lanczos_3": 3.0}
SHARP, MOVED = 1e-4, 4e-3
"""Weights of data this close to one half do not decide; of maps in another CRS, whose positions are
rounded down to 1/1024 pixel, so that the last bit of a position may move it by as much."""


@dataclass(frozen=True, slots=True)
class Stored:
    """All pixels of one level.

    Attributes:
        x, y: outer corner of the first pixel, CRS units.
        pixels: shape (rows, columns, channels), the nodata colour where nothing is stored.
        valid: shape (rows, columns), where there is data.
    """

    cell: float
    x: float
    y: float
    pixels: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_]


def kernel_of(name: str, d: Floats) -> Floats:
    if name == "linear":
        return np.maximum(1 - d, 0)
    if name == "bicubic":
        far = np.where(d <= 2, 2 - 4 * d + 2.5 * d**2 - 0.5 * d**3, 0)
        return np.where(d <= 1, 1 - 2.5 * d**2 + 1.5 * d**3, far)
    return np.where(d <= RADIUS[name], np.sinc(d) * np.sinc(d / RADIUS[name]), 0)


def positions(
    level: Stored, box: Sequence[float], size: tuple[int, int], move: Move | None, *, even: bool
) -> tuple[Floats, Floats, float, float]:
    """Return source column and row of each pixel of a map, and the ratios in x and y.

    Args:
        even: whether axes stay parallel, so that no position is interpolated.
    """
    width, height = size
    step_x, step_y = (box[2] - box[0]) / width, (box[3] - box[1]) / height
    every = 1 if even or move is None else 16
    across, down = (np.unique([*range(0, count, every), count - 1]) for count in size)
    x, y = np.meshgrid(box[0] + (across + 0.5) * step_x, box[3] - (down + 0.5) * step_y)
    if move is not None:
        x, y = move(x, y)
    grids = (x - level.x) / level.cell - 0.5, (level.y - y) / level.cell - 0.5
    if move is None:
        return *grids, step_x / level.cell, step_y / level.cell
    ratios = [
        np.abs(grids[0][:, -1] - grids[0][:, 0]).max() / (width - 1),
        np.abs(grids[1][-1] - grids[1][0]).max() / (height - 1),
    ]
    found = []
    for grid in grids:
        rows = np.array([np.interp(range(width), across, row) for row in grid])
        columns = np.array([np.interp(range(height), down, column) for column in rows.T])
        found.append(np.floor(columns.T * 1024) / 1024)
    return found[0], found[1], *ratios


def taps(name: str, u: Floats, ratio: float) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the source pixels of each position, and their weights, shape (positions, taps)."""
    count = int(np.ceil(2 * RADIUS[name] * max(1.0, ratio) - 1e-7))
    places = np.ceil(u - count / 2 - 1e-7).astype(int)[:, np.newaxis] + np.arange(count)
    weights = kernel_of(name, np.abs(u[:, np.newaxis] - places) * RADIUS[name] * 2 / count)
    return places, weights / weights.sum(axis=1, keepdims=True)


def reference_map(
    levels: Sequence[Stored],
    nodata: Sequence[float],
    kernel: str,
    box: Sequence[float],
    size: tuple[int, int],
    move: Move | None = None,
    *,
    even: bool = False,
) -> tuple[Floats, Floats]:
    """Return the pixels of a map before they are rounded, and the share of data in each.

    Args:
        box: xmin, ymin, xmax, ymax in the CRS of the map.
        size: width and height.
        move: from the CRS of the map to that of the levels; None if they are equal.
    """
    extent = list(box)
    if move is not None:
        t = np.linspace(0, 1, 256)
        x, y = box[0] + t * (box[2] - box[0]), box[1] + t * (box[3] - box[1])
        ends = [np.full(256, value) for value in box]
        sides = [np.concatenate([x, x, ends[0], ends[2]]), np.concatenate([ends[1], ends[3], y, y])]
        mx, my = move(*sides)
        extent = [mx.min(), my.min(), mx.max(), my.max()]
    wanted = np.sqrt((extent[2] - extent[0]) / size[0] * (extent[3] - extent[1]) / size[1])
    suited = [level for level in levels if wanted / level.cell >= 0.8]
    level = max(suited or [min(levels, key=lambda one: one.cell)], key=lambda one: one.cell)
    columns, rows, ratio_x, ratio_y = positions(level, box, size, move, even=even)
    is_float = level.pixels.dtype.kind == "f"
    result = np.empty((size[1], size[0], level.pixels.shape[2]))
    share = np.empty((size[1], size[0]))
    for line in range(size[1]):
        at_x, weight_x = taps(kernel, columns[line], ratio_x)
        at_y, weight_y = taps(kernel, rows[line], ratio_y)
        high, wide = at_y[:, :, np.newaxis], at_x[:, np.newaxis, :]
        inside = (high >= 0) & (high < len(level.pixels)) & (wide >= 0)
        inside &= wide < level.pixels.shape[1]
        place = np.where(inside, high, 0), np.where(inside, wide, 0)
        valid = inside & level.valid[place]
        weight = weight_y[:, :, np.newaxis] * weight_x[:, np.newaxis, :]
        values = np.where(valid[..., np.newaxis], level.pixels[place], np.array(nodata, float))
        share[line] = (weight * valid).sum(axis=(1, 2))
        if is_float:
            known = np.where(valid[..., np.newaxis], values, 0.0)
            safe = np.where(share[line] > 0.5 - SHARP, share[line], 1.0)[:, np.newaxis]
            found = (weight[..., np.newaxis] * known).sum(axis=(1, 2)) / safe
            # Next to gaps, values stay in the range of the data.
            part = (share[line] > 0.5 - SHARP) & ~valid.all(axis=(1, 2))
            low = np.where(valid[..., np.newaxis], values, np.inf).min(axis=(1, 2))
            top = np.where(valid[..., np.newaxis], values, -np.inf).max(axis=(1, 2))
            found[part] = np.clip(found[part], low[part], top[part])
            result[line] = found
        else:
            result[line] = (weight[..., np.newaxis] * values).sum(axis=(1, 2))
    return result, share
