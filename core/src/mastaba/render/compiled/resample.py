"""Separable resampling of whole images."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import float32, int64, uint8

from mastaba.render.compiled import float4
from mastaba.render.compiled.compiler import compiled, given, part
from mastaba.render.compiled.lines import SLACK, finish

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]

_AXES = (given(int64, 1), given(float32, 2)) * 2


@part
def _combine_rows(pixels: Any, first: int, weights: Float32, tall: Float32) -> None:
    """Write the sum of some rows, weighted, into ``tall``."""
    count = pixels.shape[1]
    for x in range(count):
        tall[x] = weights[0] * pixels[first, x]
    for tap in range(1, len(weights)):
        weight = weights[tap]
        for x in range(count):
            tall[x] += weight * pixels[first + tap, x]


@part
def _combine_columns(
    tall: Float32, first: Int64, weights: Float32, channels: int, line: Float32
) -> None:
    taps = weights.shape[1]
    for j in range(len(first)):
        place = np.uintp(first[j] * channels)
        total = float4.zeros()
        for tap in range(taps):
            total = float4.add_weighted(total, weights[j, tap], float4.load(tall, place))
            place += np.uintp(channels)
        float4.store(line, np.uintp(j * channels), total)


@compiled(
    uint8[:, :, ::1](given(uint8, 3), *_AXES),
    float32[:, :, ::1](given(float32, 3), *_AXES),
)  # type: ignore[untyped-decorator]
def resample(
    pixels: Any,
    row_first: Int64,
    row_weights: Float32,
    column_first: Int64,
    column_weights: Float32,
) -> Any:
    """Do what `mastaba.render.resample.resample_in_numpy` does."""
    height, width, channels = pixels.shape
    if (
        row_first.min() < 0
        or row_first.max() + row_weights.shape[1] > height
        or column_first.min() < 0
        or column_first.max() + column_weights.shape[1] > width
    ):
        raise IndexError("weights of pixels outside of the image")
    tall = np.zeros(width * channels + SLACK, np.float32)
    line = np.zeros(len(column_first) * channels + SLACK, np.float32)
    result = np.empty((len(row_first), len(column_first) * channels), pixels.dtype)
    samples = pixels.reshape(height, width * channels)
    for i in range(len(row_first)):
        _combine_rows(samples, row_first[i], row_weights[i], tall)
        _combine_columns(tall, column_first, column_weights, channels, line)
        finish(line, result[i])
    return result.reshape(len(row_first), len(column_first), channels)
