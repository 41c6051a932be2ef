"""Separable resampling of whole images (resampling.md section 5.4)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.render import compiled
from mastaba.render.kernels import AxisWeights
from mastaba.render.request import Pixels

Float32 = npt.NDArray[np.float32]

_BLOCK: Final = 8


def resample(pixels: Pixels, rows: AxisWeights, columns: AxisWeights) -> Pixels:
    """Return the image at other positions.

    Args:
        pixels: uint8 or float32, shape (height, width, channels); the weights count from its
            first row and column, and stay inside.
        rows, columns: weights for each output row and column.

    Returns:
        sample type of ``pixels``, shape (output rows, output columns, channels). Bytes are
        rounded half up.
    """
    if rows.weights.shape[1] == 1 and columns.weights.shape[1] == 1:
        picked: Pixels = pixels[rows.first[:, np.newaxis], columns.first[np.newaxis, :]]
        return picked
    if not compiled.AVAILABLE:
        return resample_in_numpy(pixels, rows, columns)
    result: Pixels = compiled.resample(
        np.ascontiguousarray(pixels), rows.first, rows.weights, columns.first, columns.weights
    )
    return result


def resample_in_numpy(pixels: Pixels, rows: AxisWeights, columns: AxisWeights) -> Pixels:
    """Do what `resample` does, by products of small matrices.

    Eight output rows at a time need few source rows, and products of that size run at the full
    speed of the linear algebra library, an order of magnitude faster than adding up one tap
    after the other in numpy.
    """
    height, width, channels = pixels.shape
    source = pixels.astype(np.float32, copy=False).reshape(height, width * channels)
    tall = _combine_rows(source, rows)
    result = _combine_columns(tall, columns, channels)
    return to_bytes(result) if pixels.dtype == np.uint8 else result


def _combine_rows(source: Float32, rows: AxisWeights) -> Float32:
    count = len(rows.first)
    result = np.empty((count, source.shape[1]), np.float32)
    low, blocks = _blocks(rows, len(source))
    width = blocks.shape[2]
    for start, first, block in zip(range(0, count, _BLOCK), low, blocks, strict=True):
        np.matmul(
            block[: count - start],
            source[first : first + width],
            out=result[start : start + _BLOCK],
        )
    return result


def _combine_columns(source: Float32, columns: AxisWeights, channels: int) -> Float32:
    count = len(columns.first)
    result = np.empty((len(source), count * channels), np.float32)
    low, blocks = _blocks(columns, source.shape[1] // channels)
    number, _, width = blocks.shape
    # One matrix for all channels of interleaved pixels: the weights, spread over them.
    spread = np.zeros((number, width * channels, _BLOCK * channels), np.float32)
    for channel in range(channels):
        spread[:, channel::channels, channel::channels] = blocks.transpose(0, 2, 1)
    for start, first, block in zip(range(0, count, _BLOCK), low, spread, strict=True):
        np.matmul(
            source[:, first * channels : (first + width) * channels],
            block[:, : (count - start) * channels],
            out=result[:, start * channels : (start + _BLOCK) * channels],
        )
    return result.reshape(len(source), count, channels)


def _blocks(axis: AxisWeights, size: int) -> tuple[list[int], Float32]:
    """Return dense weights for each run of eight output pixels.

    Args:
        size: of the source along the axis.

    Returns:
        the first source pixel of each run; and the weights, shape (runs, 8, source pixels),
        where a last run that is shorter is filled up.
    """
    count, taps = axis.weights.shape
    filled = count + -count % _BLOCK
    first = np.full(filled, axis.first[-1])
    first[:count] = axis.first
    first = first.reshape(-1, _BLOCK)
    weights = np.zeros((filled, taps), np.float32)
    weights[:count] = axis.weights
    weights = weights.reshape(-1, _BLOCK, taps)
    low = first.min(axis=1)
    width = int((first.max(axis=1) - low).max()) + taps
    # All runs are given the same width; at the end of the source they begin a little earlier.
    low = np.minimum(low, size - width)
    blocks = np.zeros((*first.shape, width), np.float32)
    places = (first - low[:, np.newaxis])[:, :, np.newaxis] + np.arange(taps)
    np.put_along_axis(blocks, places, weights, axis=2)
    return low.tolist(), blocks


def to_bytes(values: Float32) -> npt.NDArray[np.uint8]:
    """Return values rounded half up and cut to 0 to 255. The values given are used up."""
    np.add(values, np.float32(0.5), out=values)
    np.clip(values, 0.0, 255.0, out=values)
    return values.astype(np.uint8)
