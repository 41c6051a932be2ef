"""Resampling kernels and their weights along one axis (resampling.md 5.2 to 5.4).

A kernel is stretched to a radius in source pixels. If the image shrinks, the radius grows with the
ratio of output to source cell size, so every source pixel contributes. ``nn`` picks single pixels
at any ratio.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NEAREST: Final = "nn"
"""Name of the kernel that picks the nearest source pixel."""

BASE_RADIUS: Final = {
    NEAREST: 0.5,
    "linear": 1.0,
    "bicubic": 2.0,
    "lanczos_2": 2.0,
    "lanczos_3": 3.0,
    "lanczos_4": 4.0,
}
"""Radius of each kernel at a ratio of 1 or less."""

FRACTIONS: Final = 1024
"""Positions across CRSs are rounded down to this fraction of a source pixel (`stencil`)."""

# Rounding errors must not decide on which side of a pixel edge a position falls.
_TOLERANCE: Final = 1e-7
_TABLE_SIZE: Final = 4096
_BLOCK_VALUES: Final = 1 << 18


class Weights(NamedTuple):
    """The source pixels of each output pixel along one axis, and their weights.

    Attributes:
        first: shape (outputs,), index of the first source pixel, possibly negative.
        weights: shape (outputs, taps), float32; each row sums to 1.
    """

    first: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]


def radius_of(kernel: str, ratio: float) -> float:
    """Return the radius for one ratio, which covers a whole number of source pixels."""
    scale = 1.0 if kernel == NEAREST else max(1.0, ratio)
    return ceil(2 * BASE_RADIUS[kernel] * scale - _TOLERANCE) / 2


def radii_of(kernel: str, ratios: Floats) -> Floats:
    """Return the radius for the ratio of each output pixel, without rounding."""
    scale = np.ones_like(ratios) if kernel == NEAREST else np.maximum(ratios, 1.0)
    return scale * BASE_RADIUS[kernel]


def reach_of(
    positions: Floats, radii: Floats | float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the first source pixel of each output pixel, and how many contribute.

    Args:
        positions: 0 is the centre of the first source pixel.
        radii: one for all positions, or one for each.
    """
    first = np.ceil(positions - radii - _TOLERANCE).astype(np.int64)
    return first, np.ceil(2 * np.asarray(radii) - _TOLERANCE).astype(np.int64)


def weights_at(kernel: str, positions: Floats, radii: Floats | float) -> Weights:
    """Return the weights for source positions in any order, shape (outputs,).

    Args:
        radii: as in `reach_of`; a weight beyond the radius of its pixel is 0.
    """
    first, count = reach_of(positions, radii)
    taps = int(count.max())
    if np.ndim(radii) == 0:
        # The usual case, a third faster: all pixels have the same number of taps.
        places = first[:, np.newaxis] + np.arange(taps)
        distances = np.abs(places - positions[:, np.newaxis]) * (BASE_RADIUS[kernel] / radii)
        values = np.ones_like(distances) if kernel == NEAREST else evaluate(kernel, distances)
        values /= values.sum(axis=1, keepdims=True)
        return Weights(first, values.astype(np.float32))
    radii = np.asarray(radii)
    # No tap lies beyond the last contributing one, so no further pixels are needed.
    low = np.minimum(first, int((first + count).max()) - taps)
    result = np.empty((positions.size, taps), np.float32)
    block = max(1, _BLOCK_VALUES // taps)
    for start in range(0, positions.size, block):
        part = np.s_[start : start + block, np.newaxis]
        places = low[part] + np.arange(taps)
        distances = np.abs(places - positions[part]) * (BASE_RADIUS[kernel] / radii[part])
        values = np.ones_like(distances) if kernel == NEAREST else evaluate(kernel, distances)
        values[(places < first[part]) | (places >= first[part] + count[part])] = 0.0
        result[start : start + block] = values / values.sum(axis=1, keepdims=True)
    return Weights(low, result)


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """The source positions of the columns, or rows, of a map.

    Attributes:
        positions: shape (size,).
        ratio: ratio of the map.
        ratios: shape (size,), ratio of each column or row; None if it hardly varies.
    """

    positions: Floats
    ratio: float
    ratios: Floats | None = None

    def span(self, kernel: str, part: slice) -> tuple[int, int]:
        """Return the first source pixel that a part needs, and the one after the last."""
        first, count = reach_of(self.positions[part], self._radii(kernel, part))
        return int(first.min()), int((first + count).max())

    def weights(self, kernel: str, part: slice, start: int) -> Weights:
        """Return the weights of a part of the axis over source pixels from ``start`` on."""
        first, weights = weights_at(kernel, self.positions[part], self._radii(kernel, part))
        return Weights(first - start, weights)

    def only(self, place: int) -> Axis:
        """Return one column or row."""
        part = slice(place, place + 1)
        ratios = None if self.ratios is None else self.ratios[part]
        return replace(self, positions=self.positions[part], ratios=ratios)

    def _radii(self, kernel: str, part: slice) -> Floats | float:
        if self.ratios is None:
            return radius_of(kernel, self.ratio)
        return radii_of(kernel, self.ratios[part])


def evaluate(kernel: str, distances: Floats) -> Floats:
    """Return the values of a kernel at non-negative distances from its centre, source pixels."""
    d = distances
    if kernel == NEAREST:
        return np.where(d <= 0.5, 1.0, 0.0)
    if kernel == "linear":
        return np.maximum(1.0 - d, 0.0)
    if kernel == "bicubic":
        near = 1.0 + d * d * (1.5 * d - 2.5)
        far = 2.0 + d * (-4.0 + d * (2.5 - 0.5 * d))
        return np.where(d <= 1.0, near, np.where(d <= 2.0, far, 0.0))
    order = BASE_RADIUS[kernel]
    return np.where(d <= order, np.sinc(d) * np.sinc(d / order), 0.0)


@lru_cache(maxsize=64)
def stencil(kernel: str, radius: float) -> Weights:
    """Return the weights for each fraction of a source pixel, shape (1024, taps)."""
    return weights_at(kernel, np.arange(FRACTIONS) / FRACTIONS, radius)


@lru_cache(maxsize=len(BASE_RADIUS))
def table_of(kernel: str) -> Floats:
    """Return a kernel sampled evenly from its centre to its radius, shape (4097,)."""
    if kernel == NEAREST:
        return np.ones(_TABLE_SIZE + 1)
    return evaluate(kernel, np.linspace(0.0, BASE_RADIUS[kernel], _TABLE_SIZE + 1))
