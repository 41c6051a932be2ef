"""Heights for holes: a constant, or the nearest height (elevation.md 4.1)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba_render.api.maps import Mask

Floats = npt.NDArray[np.float64]
Values = npt.NDArray[np.float32] | npt.NDArray[np.float64]

REACH: Final = 64
"""Pixels at which a nearest height is looked for."""

_FAR: Final = 1 << 14


def with_constant(values: Values, valid: Mask | None, height: float) -> Floats:
    """Return heights with a constant in their holes.

    Args:
        values: shape (rows, columns).
        valid: the same shape, False in holes; None without any.
    """
    if valid is None:
        return values.astype(np.float64)
    return np.where(valid, values.astype(np.float64), height)


def with_nearest(values: Values, valid: Mask, height: float) -> Floats:
    """Return the heights of a window without its border of `REACH` pixels, and without holes.

    A hole takes the height of the nearest pixel, or a constant if that is too far. Of pixels at
    the same distance, the result is the same in every window that contains them.

    Args:
        values, valid: shape (rows + 2 · REACH, columns + 2 · REACH).

    Returns:
        shape (rows, columns).
    """
    inner = np.s_[REACH:-REACH, REACH:-REACH]
    result = with_constant(values[inner], valid[inner], height)
    rows, columns = np.nonzero(~valid[inner])
    if not len(rows):
        return result
    nearest, distance = _in_columns(valid)
    rows, columns = rows + REACH, columns + REACH
    best = np.full(len(rows), REACH * REACH + 1, np.int64)
    source_rows, source_columns = np.zeros_like(rows), np.zeros_like(columns)
    for step in sorted(range(-REACH, REACH + 1), key=abs):
        if step * step >= best.max():
            break
        there = columns + step
        squared = distance[rows, there] ** 2 + step * step
        closer = squared < best
        best[closer] = squared[closer]
        source_rows[closer] = nearest[rows[closer], there[closer]]
        source_columns[closer] = there[closer]
    found = best <= REACH * REACH
    rows, columns = rows[found], columns[found]
    result[rows - REACH, columns - REACH] = values[source_rows[found], source_columns[found]]
    return result


def _in_columns(valid: Mask) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return, for each pixel, the row of the nearest valid one in its column, and how far it is.

    Of two, the upper one. The distance is at least `_FAR` if there is none.
    """
    numbers = np.arange(len(valid), dtype=np.int64)[:, np.newaxis]
    above = np.maximum.accumulate(np.where(valid, numbers, -_FAR), axis=0)
    below = np.minimum.accumulate(np.where(valid, numbers, 2 * _FAR)[::-1], axis=0)[::-1]
    nearest = np.where(numbers - above <= below - numbers, above, below)
    return nearest, np.abs(nearest - numbers)
