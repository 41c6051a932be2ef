"""Resampling at positions of any transformation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import float32, float64, int32, int64, uint8

from mastaba.render.compiled import float4
from mastaba.render.compiled.compiler import compiled, given, part
from mastaba.render.compiled.lines import SLACK, finish

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]

_ARGUMENTS = (
    *[given(float64, 1)] * 2,
    *[given(float64, 2)] * 2,
    *[given(int32, 1), given(float32, 2)] * 2,
)


@part
def _single_sample(
    samples: Any,
    begin: int,
    row_size: int,
    channels: int,
    row_weights: Float32,
    column_weights: Float32,
) -> np.float32:
    """Return one channel of what the taps from ``begin`` on give."""
    total = float32(0)
    for y in range(len(row_weights)):
        line = float32(0)
        for x in range(len(column_weights)):
            line += column_weights[x] * samples[begin + y * row_size + x * channels]
        total += row_weights[y] * line
    return total


@part
def _first_tap(position: float, first: Int32) -> Any:
    fixed = int64(math.floor(position * 1024))
    return (fixed >> 10) + first[fixed & 1023]


@part
def _line(
    samples: Any,
    shape: tuple[int, int, int],
    across: Float64,
    columns: Float64,
    rows: Float64,
    row_first: Int32,
    row_weights: Float32,
    column_first: Int32,
    column_weights: Float32,
    line: Float32,
) -> None:
    """Write a row of the map.

    Args:
        samples: flat, of an image of this shape.
        across: columns of the map, ascending.
        columns, rows: positions at these; between two of them, positions run evenly.
    """
    height, width, channels = shape
    row_taps, column_taps = np.uintp(row_weights.shape[1]), np.uintp(column_weights.shape[1])
    last_top, last_left = height - row_weights.shape[1], width - column_weights.shape[1]
    # The last taps of a pixel may begin here, for four numbers to lie inside the image.
    last_begin = (last_top * width + last_left + 1) * channels - 4
    for cell in range(max(1, len(across) - 1)):
        next_cell = min(cell + 1, len(across) - 1)
        start = int(across[cell])
        stop = int(across[next_cell]) + (1 if next_cell == len(across) - 1 else 0)
        column, row = columns[cell], rows[cell]
        column_step, row_step = 0.0, 0.0
        if next_cell > cell:
            run = across[next_cell] - across[cell]
            column_step = (columns[next_cell] - column) / run
            row_step = (rows[next_cell] - row) / run
        if not math.isfinite(column + row + column_step + row_step):
            line[start * channels : stop * channels] = 0
            continue
        # No taps are farther out than those at the ends of a straight line.
        end = stop - start - 1
        tops = _first_tap(row, row_first), _first_tap(row + end * row_step, row_first)
        lefts = (
            _first_tap(column, column_first),
            _first_tap(column + end * column_step, column_first),
        )
        lowest, rightmost = max(tops), max(lefts)
        if min(tops) < 0 or lowest > last_top or min(lefts) < 0 or rightmost > last_left:
            raise IndexError("a position outside of the image")
        meets_end = (lowest * width + rightmost) * channels > last_begin
        for j in range(start, stop):
            fixed_row = int64(math.floor((row + (j - start) * row_step) * 1024))
            fixed_column = int64(math.floor((column + (j - start) * column_step) * 1024))
            row_part, column_part = np.uintp(fixed_row & 1023), np.uintp(fixed_column & 1023)
            top = (fixed_row >> 10) + row_first[row_part]
            left = (fixed_column >> 10) + column_first[column_part]
            corner = (top * width + left) * channels
            if meets_end and corner > last_begin:
                # Behind the last pixels of an image there is nothing that could be taken along.
                for channel in range(channels):
                    line[j * channels + channel] = _single_sample(
                        samples,
                        corner + channel,
                        width * channels,
                        channels,
                        row_weights[row_part],
                        column_weights[column_part],
                    )
                continue
            begin = np.uintp(corner)
            total = float4.zeros()
            for y in range(row_taps):
                place = begin
                sum_across = float4.zeros()
                for x in range(column_taps):
                    weight = column_weights[column_part, x]
                    pixel = float4.load(samples, place)
                    sum_across = float4.add_weighted(sum_across, weight, pixel)
                    place += np.uintp(channels)
                total = float4.add_weighted(total, row_weights[row_part, y], sum_across)
                begin += np.uintp(width * channels)
            float4.store(line, np.uintp(j * channels), total)


@compiled(
    uint8[:, :, ::1](given(uint8, 3), *_ARGUMENTS),
    float32[:, :, ::1](given(float32, 3), *_ARGUMENTS),
)  # type: ignore[untyped-decorator]
def warp(
    pixels: Any,
    across: Float64,
    down: Float64,
    grid_columns: Float64,
    grid_rows: Float64,
    row_first: Int32,
    row_weights: Float32,
    column_first: Int32,
    column_weights: Float32,
) -> Any:
    """Do what `mastaba.render.warp.warp_in_numpy` does."""
    width, height = int(across[-1]) + 1, int(down[-1]) + 1
    channels = pixels.shape[2]
    samples = pixels.reshape(-1)
    line = np.zeros(width * channels + SLACK, np.float32)
    result = np.empty((height, width * channels), pixels.dtype)
    above = 0
    for i in range(height):
        while above < len(down) - 2 and i >= down[above + 1]:
            above += 1
        below = min(above + 1, len(down) - 1)
        part_below = 0.0
        if below > above:
            part_below = (i - down[above]) / (down[below] - down[above])
        _line(
            samples,
            pixels.shape,
            across,
            grid_columns[above] * (1 - part_below) + grid_columns[below] * part_below,
            grid_rows[above] * (1 - part_below) + grid_rows[below] * part_below,
            row_first,
            row_weights,
            column_first,
            column_weights,
            line,
        )
        finish(line, result[i])
    return result.reshape(height, width, channels)


@part
def _weigh(
    table: Float64, position: float, radius: float, first: int, weights: Float32, count: int
) -> None:
    """Write the weights of the taps from ``first`` on; they sum to 1."""
    last = len(table) - 1
    total = 0.0
    for tap in range(count):
        place = min(abs(first + tap - position) / radius, 1.0) * last
        whole = min(int(place), last - 1)
        beyond = place - whole
        value = table[whole] * (1.0 - beyond) + table[whole + 1] * beyond
        weights[tap] = value
        total += value
    for tap in range(count):
        weights[tap] = weights[tap] / total


@compiled(
    uint8[:, :, ::1](given(uint8, 3), given(float64, 1), *[given(float64, 2)] * 4),
    float32[:, :, ::1](given(float32, 3), given(float64, 1), *[given(float64, 2)] * 4),
)  # type: ignore[untyped-decorator]
def warp_locally(
    pixels: Any, table: Float64, columns: Float64, rows: Float64, radii_x: Float64, radii_y: Float64
) -> Any:
    """Do what `mastaba.render.warp.warp_locally_in_numpy` does."""
    source_height, source_width, channels = pixels.shape
    samples = pixels.reshape(-1)
    # From here on, four numbers would end behind the image.
    last_begin = len(samples) - 4
    height, width = columns.shape
    row_weights = np.empty(int(2 * radii_y.max()) + 2, np.float32)
    column_weights = np.empty(int(2 * radii_x.max()) + 2, np.float32)
    line = np.zeros(width * channels + SLACK, np.float32)
    result = np.empty((height, width * channels), pixels.dtype)
    for i in range(height):
        for j in range(width):
            row, column = rows[i, j], columns[i, j]
            if not math.isfinite(row + column):
                for channel in range(channels):
                    line[j * channels + channel] = 0
                continue
            radius_y, radius_x = radii_y[i, j], radii_x[i, j]
            top = int64(math.ceil(row - radius_y - 1e-7))
            left = int64(math.ceil(column - radius_x - 1e-7))
            tall = int64(math.ceil(2 * radius_y - 1e-7))
            wide = int64(math.ceil(2 * radius_x - 1e-7))
            if top < 0 or left < 0 or top + tall > source_height or left + wide > source_width:
                raise IndexError("a position outside of the image")
            _weigh(table, row, radius_y, top, row_weights, tall)
            _weigh(table, column, radius_x, left, column_weights, wide)
            corner = (top * source_width + left) * channels
            end = corner + ((tall - 1) * source_width + wide - 1) * channels
            if end > last_begin:
                # Behind the last pixels of an image there is nothing that could be taken along.
                for channel in range(channels):
                    line[j * channels + channel] = _single_sample(
                        samples,
                        corner + channel,
                        source_width * channels,
                        channels,
                        row_weights[:tall],
                        column_weights[:wide],
                    )
                continue
            begin = np.uintp(corner)
            total = float4.zeros()
            for y in range(np.uintp(tall)):
                place = begin
                sum_across = float4.zeros()
                for x in range(np.uintp(wide)):
                    pixel = float4.load(samples, place)
                    sum_across = float4.add_weighted(sum_across, column_weights[x], pixel)
                    place += np.uintp(channels)
                total = float4.add_weighted(total, row_weights[y], sum_across)
                begin += np.uintp(source_width * channels)
            float4.store(line, np.uintp(j * channels), total)
        finish(line, result[i])
    return result.reshape(height, width, channels)
