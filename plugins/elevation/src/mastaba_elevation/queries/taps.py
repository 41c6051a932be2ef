"""Which pixels a point is computed from, and how they make a height (elevation.md 1.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

_HALF: Final = 0.5 - 1e-8
"""Weight of valid pixels from which a value counts; rounding errors must not drop a half. Positions
are exact to a part of 2^-52."""


# The four pixels of a bilinear height, in the order of their weights.
_RIGHT: Final = np.array([0, 1, 0, 1])
_BELOW: Final = np.array([0, 0, 1, 1])


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
    weights = np.empty((len(f), 4))
    weights.T[...] = corner_weights(f, g)
    return Taps(column[:, np.newaxis] + _RIGHT, row[:, np.newaxis] + _BELOW, weights)


def corner_weights(f: Floats, g: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the bilinear weights of four pixels: two above, from the left, and two below.

    Args:
        f, g: fractions of `split`, across and down; of shapes that broadcast.
    """
    left, above = 1 - f, 1 - g
    return left * above, f * above, left * g, f * g


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


def is_height(
    values: npt.NDArray[np.float32], lowest: float, highest: float, nodata: np.float32
) -> Booleans:
    """Return which values are heights: finite, in the range, and not nodata."""
    found: Booleans = (values >= lowest) & (values <= highest) & (values != nodata)
    return found


def heights_of(taps: Taps, values: Floats, valid: Booleans, *, strict: bool) -> Floats:
    """Return the height of each point, NaN without one.

    Args:
        values, valid: of the pixels, and whether they are heights; shape (n, t).
        strict: whether all pixels of a weight must be valid.
    """
    weights = taps.weights

    def sums(pixels: Floats | Booleans) -> Floats:
        found: Floats = (weights * pixels).sum(axis=1)
        return found

    if valid.all():
        return sums(values)
    missing = (~valid & (weights != 0.0)).any(axis=1)
    heights = weighted_mean(sums, values, valid, missing, strict=strict)
    # The negative weights of a cubic that misses some pixels overshoot without bound.
    cut = missing & ~np.isnan(heights) & (weights < 0).any(axis=1)
    if cut.any():
        used = valid[cut] & (weights[cut] != 0.0)
        low = np.where(used, values[cut], np.inf).min(axis=1)
        high = np.where(used, values[cut], -np.inf).max(axis=1)
        heights[cut] = np.clip(heights[cut], low, high)
    return heights


def weighted_mean(
    sums: Callable[[Floats | Booleans], Floats],
    values: Floats,
    valid: Booleans,
    missing: Booleans | None = None,
    *,
    strict: bool = False,
) -> Floats:
    """Return the means over the valid pixels; NaN where less than half of the weight is valid.

    Args:
        sums: returns the weighted sums of pixels.
        values, valid: pixels, and whether they are heights.
        missing: whether a pixel with a weight is not valid, of the shape of the sums; by default
            where its weight makes a sum.
        strict: whether all pixels of a weight must be valid.
    """
    if valid.all():
        return sums(values)
    if missing is None:
        missing = sums(~valid) != 0.0
    # A point has the same height whatever the others are: weights need not sum to 1 exactly.
    total = np.where(missing, sums(valid), 1.0)
    known = ~missing if strict else total >= _HALF
    means = sums(np.where(valid, values, 0.0)) / np.where(known, total, 1.0)
    return np.where(known, means, np.nan)
