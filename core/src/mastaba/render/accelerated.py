"""Inner loops compiled by numba, an optional extra (``pip install mastaba[fast]``).

Importing this module raises ImportError where numba is absent; callers then use numpy.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import float32, njit

Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]

# The compiler reports its progress at levels that would fill our log.
logging.getLogger("numba").setLevel(logging.WARNING)

_SIGNATURE = (
    "f4[:,:,::1](f4[:,:,::1], i4[:,::1], i4[:,::1], i4[::1], f4[:,::1], i4[::1], f4[:,::1])"
)
_compile: Any = njit([_SIGNATURE], nogil=True, cache=True, fastmath={"contract", "reassoc"})


@_compile  # type: ignore[untyped-decorator]
def warp(
    source: Float32,
    rows: Int32,
    columns: Int32,
    row_first: Int32,
    row_weights: Float32,
    column_first: Int32,
    column_weights: Float32,
) -> Float32:
    """Do what `mastaba.render.warp.warp` does."""
    height, width = rows.shape
    channels = source.shape[2]
    result = np.empty((height, width, channels), np.float32)
    row_taps, column_taps = row_weights.shape[1], column_weights.shape[1]
    for i in range(height):
        for j in range(width):
            row_part, column_part = rows[i, j] & 1023, columns[i, j] & 1023
            top = (rows[i, j] >> 10) + row_first[row_part]
            left = (columns[i, j] >> 10) + column_first[column_part]
            if channels == 3:
                # Three sums in registers: nearly all imagery, and much faster than the general way.
                red, green, blue = float32(0), float32(0), float32(0)
                for y in range(row_taps):
                    line_red, line_green, line_blue = float32(0), float32(0), float32(0)
                    for x in range(column_taps):
                        weight = column_weights[column_part, x]
                        line_red += weight * source[top + y, left + x, 0]
                        line_green += weight * source[top + y, left + x, 1]
                        line_blue += weight * source[top + y, left + x, 2]
                    weight = row_weights[row_part, y]
                    red += weight * line_red
                    green += weight * line_green
                    blue += weight * line_blue
                result[i, j, 0], result[i, j, 1], result[i, j, 2] = red, green, blue
            else:
                for channel in range(channels):
                    total = float32(0)
                    for y in range(row_taps):
                        line = float32(0)
                        for x in range(column_taps):
                            line += (
                                column_weights[column_part, x] * source[top + y, left + x, channel]
                            )
                        total += row_weights[row_part, y] * line
                    result[i, j, channel] = total
    return result
