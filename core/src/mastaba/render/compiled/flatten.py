"""Pixels with alpha, on a background."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import uint8

from mastaba.render.compiled.compiler import compiled, given

Bytes = npt.NDArray[np.uint8]


@compiled(uint8[:, :, ::1](given(uint8, 3), given(uint8, 1)))  # type: ignore[untyped-decorator]
def flatten(pixels: Bytes, ground: Bytes) -> Bytes:
    """Do what `mastaba.render.compose.flatten_in_numpy` does."""
    height, width, channels = pixels.shape
    colours = channels - 1
    result = np.empty((height, width, len(ground)), np.uint8)
    for i in range(height):
        for j in range(width):
            alpha = np.uint32(pixels[i, j, colours])
            for channel in range(len(ground)):
                colour = np.uint32(pixels[i, j, min(channel, colours - 1)])
                behind = np.uint32(ground[channel])
                mixed = colour * alpha + behind * (np.uint32(255) - alpha) + np.uint32(127)
                result[i, j, channel] = mixed // np.uint32(255)
    return result
