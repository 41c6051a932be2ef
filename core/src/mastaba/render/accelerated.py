"""Inner loops compiled by numba, an optional extra (``pip install mastaba[fast]``).

Importing this module raises ImportError where numba is absent; callers then use numpy.
"""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import boolean, float32, float64, int32, njit, types, uint8

Bytes = npt.NDArray[np.uint8]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]

# The compiler reports its progress at levels that would fill our log.
logging.getLogger("numba").setLevel(logging.WARNING)


def _given(dtype: Any, dimensions: int) -> Any:
    """Return the type of an array that is only read: decoded tiles in a cache are read-only."""
    return types.Array(dtype, dimensions, "C", readonly=True)


def _compiled(signature: Any) -> Any:
    # Compiled code is kept on disk, so that only the first start of an installation waits for it.
    return njit([signature], nogil=True, cache=True, fastmath={"contract", "reassoc"})


@_compiled(
    float32[:, :, ::1](
        _given(float32, 3),
        *[_given(float64, 1)] * 2,
        *[_given(float64, 2)] * 2,
        *[_given(int32, 1), _given(float32, 2)] * 2,
    )
)  # type: ignore[untyped-decorator]
def warp(
    source: Float32,
    across: Float64,
    down: Float64,
    grid_columns: Float64,
    grid_rows: Float64,
    row_first: Int32,
    row_weights: Float32,
    column_first: Int32,
    column_weights: Float32,
) -> Float32:
    """Do what `mastaba.render.warp.warp` does."""
    width, height = int(across[-1]) + 1, int(down[-1]) + 1
    channels = source.shape[2]
    result = np.zeros((height, width, channels), np.float32)
    row_taps, column_taps = row_weights.shape[1], column_weights.shape[1]
    cell_row = 0
    for i in range(height):
        while cell_row < len(down) - 2 and i >= down[cell_row + 1]:
            cell_row += 1
        next_row = min(cell_row + 1, len(down) - 1)
        below = 0.0
        if next_row > cell_row:
            below = (i - down[cell_row]) / (down[next_row] - down[cell_row])
        for cell in range(max(1, len(across) - 1)):
            next_cell = min(cell + 1, len(across) - 1)
            start = int(across[cell])
            stop = int(across[next_cell]) if cell < len(across) - 2 else width
            # Along one row of a cell, positions run evenly between its two sides.
            column = (
                grid_columns[cell_row, cell] * (1 - below) + grid_columns[next_row, cell] * below
            )
            row = grid_rows[cell_row, cell] * (1 - below) + grid_rows[next_row, cell] * below
            column_step, row_step = 0.0, 0.0
            if next_cell > cell:
                run = across[next_cell] - across[cell]
                column_end = (
                    grid_columns[cell_row, next_cell] * (1 - below)
                    + grid_columns[next_row, next_cell] * below
                )
                row_end = (
                    grid_rows[cell_row, next_cell] * (1 - below)
                    + grid_rows[next_row, next_cell] * below
                )
                column_step, row_step = (column_end - column) / run, (row_end - row) / run
            if not math.isfinite(column + row + column_step + row_step):
                continue
            for j in range(start, stop):
                fixed_row = math.floor((row + (j - start) * row_step) * 1024)
                fixed_column = math.floor((column + (j - start) * column_step) * 1024)
                row_part, column_part = fixed_row & 1023, fixed_column & 1023
                top = (fixed_row >> 10) + row_first[row_part]
                left = (fixed_column >> 10) + column_first[column_part]
                if channels == 3:
                    # Nearly all imagery: three sums in registers are much faster than a loop.
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
                                weight = column_weights[column_part, x]
                                line += weight * source[top + y, left + x, channel]
                            total += row_weights[row_part, y] * line
                        result[i, j, channel] = total
    return result


@_compiled(
    uint8[:, ::1](_given(float32, 1), _given(float64, 1), _given(float64, 2), boolean, boolean)
)  # type: ignore[untyped-decorator]
def colours(values: Float32, steps: Float64, entries: Float64, rgb: bool, alpha: bool) -> Bytes:
    """Do what `mastaba.render.styles.colours_in_numpy` does."""
    result = np.empty((len(values), 4), np.uint8)
    last = len(steps) - 1
    below = 0
    for i in range(len(values)):
        value = values[i]
        # Neighbours mostly lie between the same two steps.
        if not (steps[below] <= value and (below == last or value < steps[below + 1])):
            below = max(np.searchsorted(steps, value, side="right") - 1, 0)
        part = 0.0
        if below < last and value > steps[below]:
            part = (value - steps[below]) / (steps[below + 1] - steps[below])
        for channel in range(4):
            colour = entries[below, channel]
            if (alpha if channel == 3 else rgb) and part > 0.0:
                colour += (entries[below + 1, channel] - colour) * part
            result[i, channel] = int(colour + 1e-9)
    return result
