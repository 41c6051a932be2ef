"""Heights as colours: the encodings of Mapbox and Terrarium (elevation.md 4.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

_MOST: Final = 2**24 - 1
_PART_OF_PIXEL: Final = 0.01
"""Steps of the precision ``auto``, as a fraction of the size of a pixel on the ground."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """An encoding of heights in the 24 bits of red, green and blue.

    Attributes:
        name: as MapLibre calls it.
        base: height of number 0, metres.
        steps: numbers per metre.
    """

    name: str
    base: float
    steps: float

    def shift(self, cell: float) -> int:
        """Return how many bits the precision ``auto`` drops.

        Args:
            cell: size of a pixel on the ground, metres.
        """
        return max(0, math.floor(math.log2(_PART_OF_PIXEL * cell * self.steps)))

    def colours(self, heights: npt.NDArray[np.float64], shift: int = 0) -> Bytes:
        """Return the nearest colours of heights.

        Args:
            heights: shape (rows, columns), metres; finite.
            shift: lower bits that are rounded away.

        Returns:
            shape (rows, columns, 3).
        """
        numbers = heights - self.base
        numbers *= self.steps / (1 << shift)
        numbers += 0.5
        np.clip(numbers, 0.0, _MOST >> shift, out=numbers)
        # Conversion drops the fraction, which is the floor of what is not negative.
        found = numbers.astype(np.uint32) << shift
        return np.asarray(found, ">u4").view(np.uint8).reshape(*heights.shape, 4)[:, :, 1:]


ENCODINGS: Final = {
    item.name: item
    for item in (Encoding("mapbox", -10000.0, 10.0), Encoding("terrarium", -32768.0, 256.0))
}
