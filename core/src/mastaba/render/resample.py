"""Separable resampling of whole images (resampling.md section 5.4).

Both axes are done as products of small matrices: sixteen output rows at a time need few source
rows, and products of that size run at the full speed of the linear algebra library, an order of
magnitude faster than adding up one tap after the other in numpy.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.render.kernels import AxisWeights
from mastaba.render.request import Pixels

Float32 = npt.NDArray[np.float32]

_BLOCK: Final = 16


def resample(pixels: Pixels, rows: AxisWeights, columns: AxisWeights) -> Float32:
    """Return the image at other positions.

    Args:
        pixels: shape (height, width, channels); the weights count from its first row and column,
            and stay inside.
        rows, columns: weights for each output row and column.

    Returns:
        float32, shape (output rows, output columns, channels).
    """
    if rows.weights.shape[1] == 1 and columns.weights.shape[1] == 1:
        picked = pixels[rows.first[:, np.newaxis], columns.first[np.newaxis, :]]
        return picked.astype(np.float32, copy=False)
    height, width, channels = pixels.shape
    source = pixels.astype(np.float32, copy=False).reshape(height, width * channels)
    tall = _combine_rows(source, rows)
    return _combine_columns(tall, columns, channels)


def _combine_rows(source: Float32, rows: AxisWeights) -> Float32:
    count = len(rows.first)
    result = np.empty((count, source.shape[1]), np.float32)
    for start, stop, low, block in _blocks(rows):
        np.matmul(block, source[low : low + block.shape[1]], out=result[start:stop])
    return result


def _combine_columns(source: Float32, columns: AxisWeights, channels: int) -> Float32:
    count = len(columns.first)
    result = np.empty((len(source), count * channels), np.float32)
    for start, stop, low, block in _blocks(columns):
        # One matrix for all channels of interleaved pixels: the block, spread over them.
        spread = np.zeros((block.shape[1] * channels, block.shape[0] * channels), np.float32)
        for channel in range(channels):
            spread[channel::channels, channel::channels] = block.T
        np.matmul(
            source[:, low * channels : (low + block.shape[1]) * channels],
            spread,
            out=result[:, start * channels : stop * channels],
        )
    return result.reshape(len(source), count, channels)


def _blocks(axis: AxisWeights) -> list[tuple[int, int, int, Float32]]:
    """Return, for each run of output pixels: start, stop, first source pixel, dense weights."""
    blocks = []
    taps = np.arange(axis.weights.shape[1])
    for start in range(0, len(axis.first), _BLOCK):
        first = axis.first[start : start + _BLOCK]
        low = int(first.min())
        block = np.zeros((len(first), int(first.max()) - low + len(taps)), np.float32)
        places = (first - low)[:, np.newaxis] + taps
        np.put_along_axis(block, places, axis.weights[start : start + _BLOCK], axis=1)
        blocks.append((start, start + len(first), low, block))
    return blocks


def to_bytes(values: Float32) -> npt.NDArray[np.uint8]:
    """Return values rounded half up and cut to 0 to 255."""
    shifted = values + np.float32(0.5)
    np.clip(shifted, 0.0, 255.0, out=shifted)
    return shifted.astype(np.uint8)
