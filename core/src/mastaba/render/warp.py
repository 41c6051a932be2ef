"""Resampling at positions of any transformation (resampling.md section 6)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.render import compiled
from mastaba.render.kernels import Taps
from mastaba.render.positions import FRACTIONS, CurvedPositions
from mastaba.render.request import Pixels
from mastaba.render.resample import to_bytes

Float32 = npt.NDArray[np.float32]

_SHIFT: Final = FRACTIONS.bit_length() - 1
_MASK: Final = FRACTIONS - 1


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


@lru_cache(maxsize=256)
def stencil(taps: Taps) -> Stencil:
    """Return the stencil of some taps; the same one each time."""
    return Stencil(taps)


def warp(
    pixels: Pixels, positions: CurvedPositions, vertical: Stencil, horizontal: Stencil
) -> Pixels:
    """Return the image at other positions.

    Args:
        pixels: uint8 or float32, shape (height, width, channels); the positions count from its
            first row and column, and all taps lie inside.
        positions: of the output; rounded down to 1/1024 of a source pixel.

    Returns:
        sample type of ``pixels``, shape (output rows, output columns, channels); 0 where a pixel
        has no position. Bytes are rounded half up.
    """
    if not compiled.AVAILABLE:
        return warp_in_numpy(pixels, positions, vertical, horizontal)
    result: Pixels = compiled.warp(
        np.ascontiguousarray(pixels),
        positions.across,
        positions.down,
        positions.columns,
        positions.rows,
        vertical.first,
        vertical.weights,
        horizontal.first,
        horizontal.weights,
    )
    return result


def warp_in_numpy(
    pixels: Pixels, positions: CurvedPositions, vertical: Stencil, horizontal: Stencil
) -> Pixels:
    """Do what `warp` does, one tap after the other."""
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
