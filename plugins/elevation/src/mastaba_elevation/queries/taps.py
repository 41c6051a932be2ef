"""Which pixels a point is computed from, and their weights (elevation.md 1.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Taps(NamedTuple):
    """Pixels of n points, t for each.

    Attributes:
        columns, rows: shape (n, t).
        weights: shape (n, t); each row sums to 1. A pixel of weight 0 is not looked at.
    """

    columns: Integers
    rows: Integers
    weights: Floats


def _nearest(x: Floats, y: Floats) -> Taps:
    columns = np.floor(x).astype(np.int64)[:, np.newaxis]
    rows = np.floor(y).astype(np.int64)[:, np.newaxis]
    return Taps(columns, rows, np.ones(columns.shape))


def _bilinear(x: Floats, y: Floats) -> Taps:
    column, f = split(x)
    row, g = split(y)
    weights = np.empty((len(x), 4))
    weights[:, 0] = (1 - f) * (1 - g)
    weights[:, 1] = f * (1 - g)
    weights[:, 2] = (1 - f) * g
    weights[:, 3] = f * g
    right, below = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    return Taps(column[:, np.newaxis] + right, row[:, np.newaxis] + below, weights)


def _cubic(x: Floats, y: Floats) -> Taps:
    column, f = split(x)
    row, g = split(y)
    across = column[:, np.newaxis] + np.arange(-1, 3)
    down = row[:, np.newaxis] + np.arange(-1, 3)
    weights = _catmull_rom(g)[:, :, np.newaxis] * _catmull_rom(f)[:, np.newaxis, :]
    shape = (len(x), 4, 4)
    return Taps(
        np.broadcast_to(across[:, np.newaxis, :], shape).reshape(len(x), 16),
        np.broadcast_to(down[:, :, np.newaxis], shape).reshape(len(x), 16),
        weights.reshape(len(x), 16),
    )


def split(position: Floats) -> tuple[Integers, Floats]:
    """Return the pixel whose centre is at or before a position, and the fraction after it."""
    centred = position - 0.5
    whole = np.floor(centred)
    return whole.astype(np.int64), centred - whole


def _catmull_rom(fraction: Floats) -> Floats:
    """Return the weights of four neighbours, shape (n, 4) (resampling.md 5.2)."""
    distance = np.abs(fraction[:, np.newaxis] - np.arange(-1, 3))
    square = distance * distance
    near = 1 - 2.5 * square + 1.5 * square * distance
    far = 2 - 4 * distance + 2.5 * square - 0.5 * square * distance
    return np.where(distance <= 1, near, far)


METHODS: Final[Mapping[str, Callable[[Floats, Floats], Taps]]] = {
    "nearest": _nearest,
    "bilinear": _bilinear,
    "cubic": _cubic,
}
"""Functions from positions in pixels (0 is the left or upper edge of the first) to taps."""

REACH: Final = 2.0
"""Pixels beyond the limits where a point may still have valid taps."""
