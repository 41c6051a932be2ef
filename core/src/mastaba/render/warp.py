"""Resampling at the positions of any transformation (resampling.md section 6)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.render import native
from mastaba.render.kernels import Taps, radii_of, table_of
from mastaba.render.local_positions import LocalPositions
from mastaba.render.map_request import Pixels
from mastaba.render.positions import FRACTIONS, CurvedPositions, cut_positions

Floats = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]

LARGEST_STENCIL: Final = 32
"""Taps; a stencil of this size takes 132 KB. Weights of more taps are computed for each pixel,
which costs little compared with the taps themselves."""

_KEPT: Final = 64


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
    """Return the cached stencil of at most `LARGEST_STENCIL` taps."""
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
        positions: of the output pixels; rounded down to 1/1024 of a source pixel.
        vertical, horizontal: taps; with `LocalPositions` only their kernel is used.

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
    tall, wide = stencil(vertical), stencil(horizontal)
    return native.warp(
        pixels,
        positions.across,
        positions.down,
        positions.columns,
        positions.rows,
        tall.first,
        tall.weights,
        wide.first,
        wide.weights,
    )


def _local(
    positions: CurvedPositions | LocalPositions, rows: slice, vertical: Taps, horizontal: Taps
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return columns, rows, and both radii, for the pixels of some rows."""
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
    """Return the image at other positions, each with its own radii.

    Args:
        columns, rows: positions, shape (output rows, output columns), like the radii.
        radii_x, radii_y: where the kernel ends, source pixels.
    """
    columns, rows = cut_positions(columns), cut_positions(rows)
    return native.warp_locally(pixels, table_of(kernel), columns, rows, radii_x, radii_y)
