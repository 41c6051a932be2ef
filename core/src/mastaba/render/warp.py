"""Resampling at positions of any transformation (resampling.md section 6)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.render.kernels import Taps
from mastaba.render.positions import FRACTIONS
from mastaba.render.request import Pixels

try:
    from mastaba.render import accelerated
except ImportError:
    # numba is an optional extra: it makes maps across CRSs many times faster, not different.
    accelerated = None  # type: ignore[assignment]
HAS_COMPILER: Final[bool] = accelerated is not None

Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]

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
        self.first: Int32 = first.astype(np.int32)
        self.weights: Float32 = taps.weights(fractions, first).astype(np.float32)


@lru_cache(maxsize=256)
def stencil(taps: Taps) -> Stencil:
    """Return the stencil of some taps; the same one each time."""
    return Stencil(taps)


def fixed_point(positions: npt.NDArray[np.float64], start: int) -> Int32:
    """Return positions from pixel ``start`` on, in 1/1024 of a source pixel, rounded down."""
    return np.floor((positions - start) * FRACTIONS).astype(np.int32)


def warp(
    pixels: Pixels, rows: Int32, columns: Int32, vertical: Stencil, horizontal: Stencil
) -> Float32:
    """Return the image at other positions.

    Args:
        pixels: shape (height, width, channels); all taps lie inside.
        rows, columns: shape (output rows, output columns), positions as `fixed_point` gives them.

    Returns:
        float32, shape (output rows, output columns, channels).
    """
    source = np.ascontiguousarray(pixels, np.float32)
    if HAS_COMPILER:
        result: Float32 = accelerated.warp(
            source,
            rows,
            columns,
            vertical.first,
            vertical.weights,
            horizontal.first,
            horizontal.weights,
        )
        return result
    return warp_in_numpy(source, rows, columns, vertical, horizontal)


def warp_in_numpy(
    source: Float32, rows: Int32, columns: Int32, vertical: Stencil, horizontal: Stencil
) -> Float32:
    """Do what `warp` does, one tap after the other."""
    height, width, channels = source.shape
    flat = source.reshape(height * width, channels)
    row_part, column_part = rows & _MASK, columns & _MASK
    origin = ((rows >> _SHIFT) + vertical.first[row_part]).astype(np.int64) * width
    origin += (columns >> _SHIFT) + horizontal.first[column_part]
    result = np.zeros((*rows.shape, channels), np.float32)
    for i in range(vertical.weights.shape[1]):
        line = np.zeros_like(result)
        for j in range(horizontal.weights.shape[1]):
            weight = horizontal.weights[:, j][column_part]
            line += flat[origin + (i * width + j)] * weight[:, :, np.newaxis]
        result += line * vertical.weights[:, i][row_part][:, :, np.newaxis]
    return result
