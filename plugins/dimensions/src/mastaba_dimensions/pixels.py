"""Values of pixels that a request names (time.md section 2.7)."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from mastaba.api.dimensions import InvalidDimensionError, NoSuchValueError
from mastaba.api.web import printable
from mastaba_dimensions.declared import Declared
from mastaba_documents.times import parse_number

_MOST: Final = 16
"""Items of a list."""


def ranges_of(declared: Declared, text: str) -> tuple[tuple[float, float], ...]:
    """Return the lowest and highest pixel values that a text means, both included.

    Args:
        declared: a dimension of pixels.
        text: of a request; empty for the default.

    Raises:
        InvalidDimensionError: it is malformed, or has too many items.
        NoSuchValueError: a value is outside the bounds of the dimension.
    """
    dimension, text = declared.dimension, text or declared.default_text
    items = text.split(",", _MOST)
    if len(items) > _MOST or (len(items) > 1 and not dimension.multiple):
        reason = f"at most {_MOST if dimension.multiple else 1} values of {dimension.name}"
        raise InvalidDimensionError(f"{reason} can be shown at once", dimension.name)
    return tuple(_range(declared, item) for item in items)


def _range(declared: Declared, text: str) -> tuple[float, float]:
    name = declared.dimension.name
    assert declared.bounds is not None, "a dimension of pixels has bounds"
    low, high, step = declared.bounds
    parts = text.split("/", 3)
    numbers = [parse_number(part) for part in parts]
    if len(parts) > 3 or None in numbers:
        raise InvalidDimensionError(f"{printable(text)} is not a value of {name}", name)
    first, last = numbers[0] or Decimal(0), numbers[min(1, len(numbers) - 1)] or Decimal(0)
    if last < first:
        raise InvalidDimensionError(f"{printable(text)} is not a value of {name}", name)
    if first < low or last > high:
        raise NoSuchValueError(f"the layer has no {name} {printable(text)}", name)
    if len(parts) == 1:
        first, last = first - step / 2, last + step / 2
    return float(first), float(last)
