"""Resampling kernels and their weights along one axis (resampling.md 5.2 to 5.4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_BASE_RADIUS: Final = {
    "nn": 0.5,
    "linear": 1.0,
    "bicubic": 2.0,
    "lanczos_2": 2.0,
    "lanczos_3": 3.0,
    "lanczos_4": 4.0,
}
# Rounding errors must not decide on which side of a pixel edge a position falls.
_TOLERANCE: Final = 1e-7
_TABLE_SIZE: Final = 4096
_BLOCK_VALUES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Taps:
    """Number and reach of the source pixels that contribute to an output pixel.

    Attributes:
        kernel: name, ``nn`` to ``lanczos_4``.
        count: source pixels per output pixel.
        radius: half the count; the kernel is stretched to end there.
    """

    kernel: str
    count: int
    radius: float

    @classmethod
    def of(cls, kernel: str, ratio: float) -> Taps:
        """Return the taps for a ratio of output to source cell size.

        Above 1 the image shrinks and the kernel widens, so every source pixel contributes.
        ``nn`` picks single pixels at any ratio.
        """
        base = _BASE_RADIUS[kernel]
        scale = 1.0 if kernel == "nn" else max(1.0, ratio)
        count = ceil(2 * base * scale - _TOLERANCE)
        return cls(kernel, count, count / 2)

    def first(self, positions: Floats) -> npt.NDArray[np.int64]:
        """Return the first source pixel for each position (0 is the centre of pixel 0)."""
        return np.ceil(positions - self.radius - _TOLERANCE).astype(np.int64)

    def weights(self, positions: Floats, first: npt.NDArray[np.int64]) -> Floats:
        """Return the weights, shape (positions, count); each row sums to 1."""
        if self.count == 1:
            return np.ones((positions.size, 1))
        offsets = first[:, np.newaxis] + np.arange(self.count) - positions[:, np.newaxis]
        distances = np.abs(offsets) * (_BASE_RADIUS[self.kernel] / self.radius)
        values = evaluate(self.kernel, distances)
        values /= values.sum(axis=1, keepdims=True)
        return values


def evaluate(kernel: str, distances: Floats) -> Floats:
    """Return the values of a kernel at non-negative distances from its centre, source pixels."""
    d = distances
    if kernel == "nn":
        return np.where(d <= 0.5, 1.0, 0.0)
    if kernel == "linear":
        return np.maximum(1.0 - d, 0.0)
    if kernel == "bicubic":
        near = 1.0 + d * d * (1.5 * d - 2.5)
        far = 2.0 + d * (-4.0 + d * (2.5 - 0.5 * d))
        return np.where(d <= 1.0, near, np.where(d <= 2.0, far, 0.0))
    order = _BASE_RADIUS[kernel]
    return np.where(d <= order, np.sinc(d) * np.sinc(d / order), 0.0)


def radii_of(kernel: str, ratios: Floats) -> Floats:
    """Return the radius of the kernel in source pixels, for the ratio of each output pixel."""
    if kernel == "nn":
        return np.full_like(ratios, _BASE_RADIUS[kernel])
    return np.maximum(ratios, 1.0) * _BASE_RADIUS[kernel]


def reach_of(
    positions: Floats, radii: Floats
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the first source pixel of each output pixel, and how many contribute."""
    first = np.ceil(positions - radii - _TOLERANCE).astype(np.int64)
    return first, np.ceil(2 * radii - _TOLERANCE).astype(np.int64)


@lru_cache(maxsize=len(_BASE_RADIUS))
def table_of(kernel: str) -> Floats:
    """Return a kernel sampled evenly from its centre to its radius, shape (4097,)."""
    if kernel == "nn":
        return np.ones(_TABLE_SIZE + 1)
    return evaluate(kernel, np.linspace(0.0, _BASE_RADIUS[kernel], _TABLE_SIZE + 1))


@dataclass(frozen=True, slots=True)
class AxisWeights:
    """The source pixels of each output pixel along one axis, and their weights.

    Attributes:
        first: shape (outputs,), index of the first source pixel, possibly negative.
        weights: shape (outputs, taps), float32; each row sums to 1.
    """

    first: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]

    @classmethod
    def at(cls, taps: Taps, positions: Floats) -> AxisWeights:
        """Return the weights for source positions of output pixels, in any order."""
        first = taps.first(positions)
        return cls(first, taps.weights(positions, first).astype(np.float32))

    @classmethod
    def stretched(cls, kernel: str, positions: Floats, ratios: Floats) -> AxisWeights:
        """Return the weights where each output pixel has its own ratio.

        Weights beyond the taps of a pixel are 0.
        """
        radii = radii_of(kernel, ratios)
        first, count = reach_of(positions, radii)
        taps = int(count.max())
        # No tap lies beyond the last contributing one, so no further pixels are needed.
        low = np.minimum(first, int((first + count).max()) - taps)
        result = np.empty((positions.size, taps), np.float32)
        block = max(1, _BLOCK_VALUES // taps)
        for start in range(0, positions.size, block):
            part = slice(start, start + block)
            places = low[part, np.newaxis] + np.arange(taps)
            begin = first[part, np.newaxis]
            takes_part = (places >= begin) & (places < begin + count[part, np.newaxis])
            distances = np.abs(places - positions[part, np.newaxis]) / radii[part, np.newaxis]
            values = evaluate(kernel, distances * _BASE_RADIUS[kernel])
            if kernel == "nn":
                values[:] = 1.0
            values[~takes_part] = 0.0
            result[part] = values / values.sum(axis=1, keepdims=True)
        return cls(low, result)

    @property
    def span(self) -> tuple[int, int]:
        """First source pixel needed, and the one after the last."""
        return int(self.first.min()), int(self.first.max()) + self.weights.shape[1]

    def shifted(self, start: int) -> AxisWeights:
        """Return the same weights over a source array that begins at pixel ``start``."""
        return AxisWeights(self.first - start, self.weights)
