"""Grammar of parameters: numbers, flags, colours and lists. None means that a text is invalid.

The protocols say what an invalid text means, and name the parameter as they spell it. Digits are
those of ASCII: `str.isdigit`, `int` and `float` also accept those of other scripts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from mastaba_server.errors import InvalidParameterError

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_COLOUR: Final = re.compile(r"(?:0[xX]|#)?([0-9A-Fa-f]{6})")
_WORDS: Final = {"true": True, "false": False}
_DIGITS: Final = {"1": True, "0": False}
# No meaningful number, colour or list is longer.
_MAX_NUMBER: Final = 400
_MAX_DIGITS: Final = 9
_MAX_COLOUR: Final = 64
_MAX_LIST: Final = 1000


def decimal(text: str) -> float | None:
    """Return a finite number, written in ASCII, with or without an exponent.

    Spaces around it do not count. One inside is a plus sign that the client did not encode.
    """
    if len(text) > _MAX_NUMBER:
        return None
    text = text.strip(" ").replace(" ", "+")
    if _NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def decimals(text: str, counts: Sequence[int]) -> list[float] | None:
    """Return numbers with commas between them, as many as one of the counts says."""
    texts = text.split(",") if len(text) <= _MAX_LIST else []
    if len(texts) not in counts:
        return None
    values = [value for value in map(decimal, texts) if value is not None]
    return values if len(values) == len(texts) else None


def whole_number(text: str) -> int | None:
    """Return a number of up to nine decimal digits; leading zeros do not count."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    return int(digits) if len(digits) <= _MAX_DIGITS else None


def size(text: str, limit: int) -> int | None:
    """Return a number of pixels from 1 to the limit."""
    number = whole_number(text)
    return number if number is not None and 1 <= number <= limit else None


def integer(text: str, name: str, least: int, most: int) -> int:
    """Return a number of decimal digits within limits.

    Args:
        text: the value.
        name: the parameter to report.
        least, most: limits, both included, from 0 to 999,999,999.

    Raises:
        InvalidParameterError: it is anything else.
    """
    number = whole_number(text)
    if number is None or not least <= number <= most:
        raise InvalidParameterError(f"{name} must be an integer from {least} to {most}", name)
    return number


def flag(text: str, *, digits: bool = False) -> bool | None:
    """Return ``true`` or ``false``, written in any letter case.

    Args:
        digits: whether 1 and 0 are flags too, as in XML and in vendor parameters.
    """
    found = _WORDS.get(text.lower())
    return _DIGITS.get(text) if found is None and digits else found


def colour(text: str) -> Colour | None:
    """Return a colour of six hexadecimal digits, optionally after ``0x`` or ``#``."""
    if len(text) > _MAX_COLOUR:
        return None
    match = _COLOUR.fullmatch(text)
    if match is None:
        return None
    red, green, blue = bytes.fromhex(match[1])
    return red, green, blue


def items(text: str) -> list[str]:
    """Return the elements of a comma-separated list, without spaces around them or empty ones."""
    return [item for item in map(str.strip, text.split(",")) if item]
