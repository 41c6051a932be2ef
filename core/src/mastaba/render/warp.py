"""Resampling at positions of any transformation (resampling.md section 6)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.render import compiled
from mastaba.render.kernels import Taps, radii_of, reach_of, table_of
from mastaba.render.local_positions import LocalPositions
from mastaba.render.positions import FRACTIONS, CurvedPositions, cut_positions
from mastaba.render.request import Pixels
from mastaba.render.resample import to_bytes

Floats = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]

_SHIFT: Final = FRACTIONS.bit_length() - 1
_MASK: Final = FRACTIONS - 1

LARGEST_STENCIL: Final = 32
"""Taps; a stencil then has 132 KB. Where more take part, their weights are computed for each pixel,
which is little beside the taps themselves."""

_KEPT: Final = 64

# Samples gathered at a time.
_GATHERED: Final = 1 << 20


class Stencil:
    """Weights of a kernel for each fraction of a source pixel.

    Attributes:
        first: shape (1024,), first source pixel relative to the whole part of a position.
        weights: shape (1024, taps), float32; each row sums to 1.
    """

    def __init__(self, taps: Taps) -> None:
        fractions = np.arange(FRACTIONS) / FRACTIONS
        first = taps.first(fractions)
        self.first: npt.NDArray[np.int32] = first.astype(np.int32)
        self.weights: Float32 = taps.weights(fractions, first).astype(np.float32)


@lru_cache(maxsize=_KEPT)
def stencil(taps: Taps) -> Stencil:
    """Return the stencil of some taps, at most `LARGEST_STENCIL`; the same one each time."""
    return Stencil(taps)


def warp(
    pixels: Pixels,
    positions: CurvedPositions | LocalPositions,
    vertical: Taps,
    horizontal: Taps,
) -> Pixels:
    """Return the image at other positions.

    Args:
        pixels: uint8 or float32, shape (height, width, channels); the positions count from its
            first row and column, and all taps lie inside.
        positions: of the output; rounded down to 1/1024 of a source pixel.
        vertical, horizontal: taps; of `LocalPositions` the kernel alone counts.

    Returns:
        sample type of ``pixels``, shape (output rows, output columns, channels); 0 where a pixel
        has no position. Bytes are rounded half up.
    """
    if (
        isinstance(positions, LocalPositions)
        or max(vertical.count, horizontal.count) > LARGEST_STENCIL
    ):
        parts = [
            _warp_locally(pixels, vertical.kernel, *_local(positions, rows, vertical, horizontal))
            for rows in positions.chunks()
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    if not compiled.AVAILABLE:
        return warp_in_numpy(pixels, positions, vertical, horizontal)
    tall, wide = stencil(vertical), stencil(horizontal)
    result: Pixels = compiled.warp(
        np.ascontiguousarray(pixels),
        positions.across,
        positions.down,
        positions.columns,
        positions.rows,
        tall.first,
        tall.weights,
        wide.first,
        wide.weights,
    )
    return result


def warp_in_numpy(pixels: Pixels, positions: CurvedPositions, down: Taps, across: Taps) -> Pixels:
    """Do what `warp` does with stencils, one tap after the other."""
    vertical, horizontal = stencil(down), stencil(across)
    height, width, channels = pixels.shape
    lines, columns = positions.spread(positions.rows), positions.spread(positions.columns)
    placed = np.isfinite(lines) & np.isfinite(columns)
    # A pixel without position is computed like the first that has one, and cleared at the end.
    somewhere = np.argmax(placed)
    lines = np.where(placed, lines, lines.flat[somewhere])
    columns = np.where(placed, columns, columns.flat[somewhere])
    row, column = (np.floor(p * FRACTIONS).astype(np.int64) for p in (lines, columns))
    row_part, column_part = row & _MASK, column & _MASK
    origin = ((row >> _SHIFT) + vertical.first[row_part]) * width
    origin += (column >> _SHIFT) + horizontal.first[column_part]
    flat = pixels.astype(np.float32, copy=False).reshape(height * width, channels)
    result = np.zeros((*origin.shape, channels), np.float32)
    for i in range(vertical.weights.shape[1]):
        line = np.zeros_like(result)
        for j in range(horizontal.weights.shape[1]):
            weight = horizontal.weights[:, j][column_part]
            line += flat[origin + (i * width + j)] * weight[:, :, np.newaxis]
        result += line * vertical.weights[:, i][row_part][:, :, np.newaxis]
    result[~placed] = 0.0
    return to_bytes(result) if pixels.dtype == np.uint8 else result


def _local(
    positions: CurvedPositions | LocalPositions, rows: slice, vertical: Taps, horizontal: Taps
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return columns, rows and both radii of the pixels of some rows."""
    if isinstance(positions, LocalPositions):
        found = positions.pixels(rows)
        kernel = vertical.kernel
        radii = radii_of(kernel, found.ratios_x), radii_of(kernel, found.ratios_y)
        return found.columns, found.rows, *radii
    part = positions.cut(rows.start, rows.stop - 1)
    columns = part.spread(part.columns)
    radii = np.full_like(columns, horizontal.radius), np.full_like(columns, vertical.radius)
    return columns, part.spread(part.rows), *radii


def _warp_locally(
    pixels: Pixels, kernel: str, columns: Floats, rows: Floats, radii_x: Floats, radii_y: Floats
) -> Pixels:
    """Return the image at other positions, each with radii of its own.

    Args:
        columns, rows: positions; shape (output rows, output columns), as the radii.
        radii_x, radii_y: where the kernel ends, source pixels.
    """
    columns, rows = cut_positions(columns), cut_positions(rows)
    table = table_of(kernel)
    if not compiled.AVAILABLE:
        return warp_locally_in_numpy(pixels, table, columns, rows, radii_x, radii_y)
    result: Pixels = compiled.warp_locally(
        np.ascontiguousarray(pixels), table, columns, rows, radii_x, radii_y
    )
    return result


def warp_locally_in_numpy(
    pixels: Pixels, table: Floats, columns: Floats, rows: Floats, radii_x: Floats, radii_y: Floats
) -> Pixels:
    """Do what `_warp_locally` does, for pixels of about as many taps at a time."""
    height, width, channels = pixels.shape
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
            # Taps beyond those of a pixel have no weight; they need not lie inside.
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
