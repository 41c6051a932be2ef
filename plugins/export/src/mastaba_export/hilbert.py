"""The order of tiles along a Hilbert curve, which is that of the tile numbers of PMTiles."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


def positions(columns: Integers, rows: Integers, order: int) -> Integers:
    """Return the positions of cells on the curve through a square of 2^order cells on a side."""
    x, y = columns.astype(np.int64), rows.astype(np.int64)
    found = np.zeros(len(x), np.int64)
    for exponent in range(order - 1, -1, -1):
        side = 1 << exponent
        right, lower = (x & side) > 0, (y & side) > 0
        quarter = np.where(right, 3, 0) ^ lower
        found += quarter * (side * side)
        turned = right & ~lower
        x, y = np.where(turned, side - 1 - x, x), np.where(turned, side - 1 - y, y)
        x, y = np.where(lower, x, y), np.where(lower, y, x)
    return found


def first_number(zoom: int) -> int:
    """Return the number of the first tile of a zoom: all coarser tiles come before it."""
    return ((1 << 2 * zoom) - 1) // 3


def order_of(width: int, height: int) -> int:
    """Return the least order whose square contains a grid."""
    return (max(width, height, 1) - 1).bit_length()
