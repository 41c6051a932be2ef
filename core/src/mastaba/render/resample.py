"""Separable resampling of whole images (resampling.md section 5.4)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mastaba.render import native
from mastaba.render.kernels import AxisWeights
from mastaba.render.map_request import Pixels

Float32 = npt.NDArray[np.float32]


def resample(pixels: Pixels, rows: AxisWeights, columns: AxisWeights) -> Pixels:
    """Return the image at other positions.

    Args:
        pixels: uint8 or float32, shape (height, width, channels); the weights count from its
            first row and column, and stay inside.
        rows, columns: weights of each output row and column.

    Returns:
        sample type of ``pixels``, shape (output rows, output columns, channels). Bytes are
        rounded half up.
    """
    if rows.weights.shape[1] == 1 and columns.weights.shape[1] == 1:
        picked: Pixels = pixels[rows.first[:, np.newaxis], columns.first[np.newaxis, :]]
        return picked
    return native.resample(pixels, rows.first, rows.weights, columns.first, columns.weights)


def to_bytes(values: Float32) -> npt.NDArray[np.uint8]:
    """Return values rounded half up and clipped to 0 to 255. Modifies ``values``."""
    np.add(values, np.float32(0.5), out=values)
    np.clip(values, 0.0, 255.0, out=values)
    return values.astype(np.uint8)
