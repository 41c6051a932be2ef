"""Colours of images during rendering.

Three separate planes are faster to work on than interleaved pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mastaba_demo.noise import Field

Colour: TypeAlias = NDArray[np.float32]
"""Red, green and blue from 0 to 255, shape (3, rows, columns)."""

Tint: TypeAlias = tuple[int, int, int]


def mixed(first: Tint, second: Tint, part: Field) -> Colour:
    """Blend two colours: the first where `part` is 0, the second where it is 1."""
    result = np.empty((3, *part.shape), np.float32)
    for plane, start, end in zip(result, first, second, strict=True):
        np.multiply(part, np.float32(end - start), out=plane)
        plane += np.float32(start)
    return result


def graded(values: Field, stops: Sequence[float], tints: Sequence[Tint]) -> Colour:
    """Return the colours of values, interpolated linearly between ascending stops."""
    bands = (np.interp(values, stops, [tint[band] for tint in tints]) for band in range(3))
    return np.stack([band.astype(np.float32) for band in bands])


def paint(colour: Colour, over: Tint | Colour, opacity: Field) -> None:
    """Paint another colour over an image, in place."""
    for plane, other in zip(colour, over, strict=True):
        change = np.float32(other) - plane if isinstance(other, int) else other - plane
        change *= opacity
        plane += change


def as_image(colour: Colour, step: int = 1) -> NDArray[np.uint8]:
    """Return interleaved pixels, uint8, shape (rows, columns, 3), in multiples of `step`."""
    whole = np.clip(np.round(colour / np.float32(step)), 0, 255 // step) * np.float32(step)
    return np.ascontiguousarray(np.moveaxis(whole.astype(np.uint8), 0, -1))
