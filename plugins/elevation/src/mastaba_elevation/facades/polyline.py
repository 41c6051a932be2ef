"""Encoded polylines: Google's text form of points, precision 5."""

from __future__ import annotations

from typing import Final

import numpy as np

from mastaba.errors import InvalidParameterError
from mastaba_elevation.queries.ground import Floats

LONGEST: Final = 14
"""Characters of a point, at most: seven for each of two numbers."""

_PRECISION: Final = 1e5


def read_polyline(text: str, parameter: str) -> Floats:
    """Return the points of an encoded polyline, shape (n, 2): latitude, longitude.

    Raises:
        InvalidParameterError: it is not one.
    """
    numbers: list[int] = []
    value = shift = 0
    for character in text:
        bits = ord(character) - 63
        if not 0 <= bits < 64 or shift > 30:
            raise _invalid(parameter)
        value |= (bits & 31) << shift
        shift += 5
        if bits < 32:
            numbers.append(~(value >> 1) if value & 1 else value >> 1)
            value = shift = 0
    if shift or not numbers or len(numbers) % 2:
        raise _invalid(parameter)
    points = np.cumsum(np.array(numbers, np.float64).reshape(-1, 2), axis=0)
    return np.asarray(points / _PRECISION)


def _invalid(parameter: str) -> InvalidParameterError:
    return InvalidParameterError(f"{parameter} is not a valid encoded polyline", parameter)
