"""References for the compiled loops: the same functions as `mastaba_render.native`, in numpy.

They say plainly what the loops compute, and are slow.
"""

from __future__ import annotations

import operator
import sys
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from mastaba_render import native
from mastaba_render.map_request import Pixels
from mastaba_render.sampling import FRACTIONS, Weights, reach_of

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]

Grid = native.Grid

_SHIFT: Final = FRACTIONS.bit_length() - 1
_MASK: Final = FRACTIONS - 1
# Samples gathered at a time.
_GATHERED: Final = 1 << 20


def to_bytes(values: Float32) -> Bytes:
    return np.clip(values + np.float32(0.5), 0, 255).astype(np.uint8)


def resample(pixels: Pixels, rows: Weights, columns: Weights) -> Pixels:
    height, width, _ = pixels.shape
    down, across = _dense(*rows, height), _dense(*columns, width)
    result = np.einsum("iy,yxc,jx->ijc", down, pixels.astype(np.float64), across, optimize=True)
    values = result.astype(np.float32)
    return to_bytes(values) if pixels.dtype == np.uint8 else values


def _dense(first: Any, weights: Any, size: int) -> Floats:
    matrix = np.zeros((len(first), size))
    for line, start, some in zip(matrix, first, weights, strict=True):
        line[start : start + len(some)] = some
    return matrix


def located(grid: native.Grid, part: native.Window) -> list[Floats]:
    """Return columns, rows, and ratios if there are any, of some pixels of a map."""
    across, down, fields, blocks, details = grid.arrays
    top, bottom, left, right = part
    rows, columns = np.arange(top, bottom), np.arange(left, right)
    (above, high), (before, wide) = _cells(down, rows), _cells(across, columns)
    below, after = np.minimum(above + 1, len(down) - 1), np.minimum(before + 1, len(across) - 1)
    found = []
    for number, values in enumerate(fields):
        with np.errstate(invalid="ignore"):
            lines = values[above] * (1 - high)[:, None] + values[below] * high[:, None]
            result = lines[:, before] * (1 - wide) + lines[:, after] * wide
        if blocks is not None:
            block = blocks[np.ix_(above, before)]
            i = (rows - np.ceil(down[above])).astype(int)[:, None]
            j = (columns - np.ceil(across[before])).astype(int)[None, :]
            if len(details):
                result = np.where(block >= 0, details[block, number, i, j], result)
        found.append(result)
    if grid.wrap:
        found[0] -= grid.wrap * np.round((found[0] - grid.centre) / grid.wrap)
    return found


def _cells(points: Floats, places: Any) -> tuple[Any, Floats]:
    """Return the cell of a grid that contains each place, and the position in it."""
    if len(points) == 1:
        return np.zeros(len(places), int), np.zeros(len(places))
    low = np.clip(np.searchsorted(points, places, side="right") - 1, 0, len(points) - 2)
    return low, (places - points[low]) / (points[low + 1] - points[low])


def survey(
    grid: native.Grid,
    part: native.Window,
    radii: tuple[float, float],
    *,
    every_row: bool,
    placed: Any = None,
    boxes: Any = None,
) -> tuple[native.Window, float] | None:
    columns, rows, *ratios = located(grid, part)
    found = np.isfinite(columns) & np.isfinite(rows)
    if placed is not None:
        placed[:] = found
    if not found.any():
        return None
    bounds = []
    for axis in (1, 0):
        radius = radii[axis] * ratios[axis][found] if ratios else radii[axis]
        first, count = reach_of((columns, rows)[axis][found], radius)
        bounds += [int(first.min()), int((first + count).max())]
        if boxes is not None:
            side = 2 - 2 * axis
            boxes[found, side], boxes[found, side + 1] = first, first + count
    return native.Window(*bounds), 0.0


bound = native.bound


def warp(
    pixels: Pixels,
    source: tuple[int, int],
    grid: native.Grid,
    part: native.Window,
    rows: Weights,
    columns: Weights,
) -> Pixels:
    height, width, channels = pixels.shape
    across, down = located(grid, part)[:2]
    placed = np.isfinite(down) & np.isfinite(across)
    # A pixel without position is computed like the first that has one, and cleared at the end.
    somewhere = np.argmax(placed)
    down = np.where(placed, down, down.flat[somewhere])
    across = np.where(placed, across, across.flat[somewhere])
    row, column = (np.floor(p * FRACTIONS).astype(np.int64) for p in (down, across))
    row_part, column_part = row & _MASK, column & _MASK
    origin = ((row >> _SHIFT) - source[0] + rows.first[row_part]) * width
    origin += (column >> _SHIFT) - source[1] + columns.first[column_part]
    flat = pixels.astype(np.float32, copy=False).reshape(height * width, channels)
    result = np.zeros((*origin.shape, channels), np.float32)
    for i in range(rows.weights.shape[1]):
        line = np.zeros_like(result)
        for j in range(columns.weights.shape[1]):
            weight = columns.weights[:, j][column_part]
            line += flat[origin + (i * width + j)] * weight[:, :, np.newaxis]
        result += line * rows.weights[:, i][row_part][:, :, np.newaxis]
    result[~placed] = 0.0
    return to_bytes(result) if pixels.dtype == np.uint8 else result


def warp_locally(
    pixels: Pixels,
    source: tuple[int, int],
    grid: native.Grid,
    part: native.Window,
    table: Floats,
    radii: tuple[float, float],
) -> Pixels:
    height, width, channels = pixels.shape
    columns, rows, *ratios = located(grid, part)
    radii_x, radii_y = (
        np.full_like(columns, radius) * (ratios[axis] if ratios else 1.0)
        for axis, radius in enumerate(radii)
    )
    columns = np.floor(columns * FRACTIONS) / FRACTIONS - source[1]
    rows = np.floor(rows * FRACTIONS) / FRACTIONS - source[0]
    flat = pixels.reshape(height * width, channels)
    result = np.zeros((columns.size, channels), np.float32)
    placed = np.flatnonzero(np.isfinite(columns) & np.isfinite(rows))
    axes = [
        (values.ravel()[placed], radii.ravel()[placed])
        for values, radii in ((rows, radii_y), (columns, radii_x))
    ]
    reaches = [reach_of(*axis) for axis in axes]
    most = np.stack([_rounded_up(count) for _, count in reaches])
    for size in np.unique(most, axis=1).T:
        group = np.flatnonzero((most == size[:, np.newaxis]).all(axis=0))
        step = max(1, _GATHERED // int(size.prod() * channels))
        for part in (group[start : start + step] for start in range(0, group.size, step)):
            lines, across = (
                _table_weights(table, values[part], radii[part], first[part], count[part], taps)
                for (values, radii), (first, count), taps in zip(axes, reaches, size, strict=True)
            )
            # Taps beyond those of a pixel have no weight; they need not be inside.
            row = np.minimum(reaches[0][0][part, np.newaxis] + np.arange(size[0]), height - 1)
            column = np.minimum(reaches[1][0][part, np.newaxis] + np.arange(size[1]), width - 1)
            total = np.zeros((part.size, channels), np.float32)
            for top in range(0, int(size[0]), max(1, _GATHERED // int(size[1] * channels))):
                some = slice(top, top + max(1, _GATHERED // int(size[1] * channels)))
                taken = flat[row[:, some, np.newaxis] * width + column[:, np.newaxis, :]]
                sums = np.einsum("nyxc,nx->nyc", taken.astype(np.float32, copy=False), across)
                total += np.einsum("nyc,ny->nc", sums, lines[:, some])
            result[placed[part]] = total
    result = result.reshape(*columns.shape, channels)
    return to_bytes(result) if pixels.dtype == np.uint8 else result


def _rounded_up(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return numbers of taps, rounded up to few different ones."""
    step = 2 ** np.maximum(0, np.floor(np.log2(counts)).astype(np.int64) - 2)
    rounded: npt.NDArray[np.int64] = -(-counts // step) * step
    return rounded


def _table_weights(
    table: Floats,
    positions: Floats,
    radii: Floats,
    first: npt.NDArray[np.int64],
    count: npt.NDArray[np.int64],
    taps: int,
) -> Float32:
    """Return the weights of pixels, shape (pixels, taps); 0 behind the taps of each."""
    steps = np.arange(taps)
    distances = np.abs(first[:, np.newaxis] + steps - positions[:, np.newaxis])
    places = np.minimum(distances / radii[:, np.newaxis], 1.0) * (len(table) - 1)
    whole = np.minimum(places.astype(np.int64), len(table) - 2)
    part = places - whole
    weights: Floats = table[whole] * (1.0 - part) + table[whole + 1] * part
    weights[steps >= count[:, np.newaxis]] = 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    return weights.astype(np.float32)


def flatten(pixels: Bytes, ground: Bytes) -> Bytes:
    alpha = pixels[:, :, -1:].astype(np.int32)
    mixed = pixels[:, :, :-1].astype(np.int32) * alpha + ground.astype(np.int32) * (255 - alpha)
    return ((mixed + 127) // 255).astype(np.uint8)


def colours(
    values: npt.NDArray[np.float32], steps: Floats, entries: Floats, rgb: bool, alpha: bool
) -> Bytes:
    flat = values.astype(np.float64)
    below = np.clip(np.searchsorted(steps, flat, side="right") - 1, 0, len(steps) - 1)
    above = np.minimum(below + 1, len(steps) - 1)
    width = np.where(above > below, steps[above] - steps[below], 1.0)
    part = np.clip((flat - steps[below]) / width, 0.0, 1.0)
    result = entries[below]
    if rgb:
        result[:, :3] += (entries[above, :3] - result[:, :3]) * part[:, np.newaxis]
    if alpha:
        result[:, 3] += (entries[above, 3] - result[:, 3]) * part
    return (result + 1e-9).astype(np.uint8)


def decimate(
    pixels: Pixels,
    valid: npt.NDArray[np.bool_],
    factor: int,
    method: str = "average",
    *,
    has_alpha: bool = False,
    alpha_of_all: bool = True,
    enough: int = 1,
) -> tuple[Pixels, npt.NDArray[np.bool_]]:
    rows, columns = valid.shape[0] // factor, valid.shape[1] // factor
    result = np.zeros((rows, columns, pixels.shape[2]), pixels.dtype)
    found = np.zeros((rows, columns), np.bool_)
    for row, column in np.ndindex(rows, columns):
        box = np.s_[row * factor : (row + 1) * factor, column * factor : (column + 1) * factor]
        some = pixels[box][valid[box]].tolist()
        if method == "nn":
            middle = row * factor + (factor - 1) // 2, column * factor + (factor - 1) // 2
            some = [pixels[middle].tolist()] if valid[middle] else []
        if len(some) < (1 if method == "nn" else enough):
            continue
        found[row, column] = True
        colours = [pixel for pixel in some if not has_alpha or pixel[-1]]
        weights = [Fraction(pixel[-1]) if has_alpha else Fraction(1) for pixel in colours]
        if method in ("nn", "mode"):
            value: Any = max(sorted(map(tuple, some)), key=list(map(tuple, some)).count)
        elif not colours:
            value = [0] * pixels.shape[2]
        elif method == "average":
            value = [
                sum(map(operator.mul, channel, weights)) / sum(weights)
                for channel in (map(Fraction, line) for line in zip(*colours, strict=True))
            ]
        else:
            value = list(map(min if method == "min" else max, zip(*colours, strict=True)))
        if has_alpha and method not in ("nn", "mode"):
            whole = factor * factor if alpha_of_all else len(some)
            value[-1] = Fraction(sum(pixel[-1] for pixel in some), whole)
        if pixels.dtype == np.uint8:
            value = [round(one) for one in value]  # half to even
        result[row, column] = [float(one) for one in value]
    return result, found


def use(patch: pytest.MonkeyPatch) -> None:
    """Draw maps by these functions in place of the compiled ones."""
    for module in ("encoded_map", "sampling", "styles"):
        patch.setattr(f"mastaba_render.{module}.native", sys.modules[__name__])
