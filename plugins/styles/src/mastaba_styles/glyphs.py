"""Glyphs as signed distance fields, and their ranges: what MapLibre draws labels from.

A range is a message of Protocol Buffers (glyphs.proto of node-fontnik): the field 1 of ``glyphs``
is a ``fontstack`` with name 1, range 2 and glyphs 3; a ``glyph`` has id 1, bitmap 2, width 3,
height 4, left 5, top 6 and advance 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mastaba_containers.protobuf import fields

RANGE: Final = 256
LAST_CODE: Final = 0x10FFFF
SIZE: Final = 24
"""Pixels of an em."""
BUFFER: Final = 3
"""Pixels around each glyph."""

_BYTES: Final = 2
_MOST_GLYPHS: Final = RANGE


@dataclass(frozen=True, slots=True)
class Glyph:
    """The image of a character.

    Attributes:
        code: code point.
        bitmap: ``(height + 2 * BUFFER) * (width + 2 * BUFFER)`` bytes by rows, the top one first;
            empty for blanks.
        width, height: of the image without the buffer, pixels.
        left, top: of its corner: to the right of the origin, and above the ascender (26 pixels
            above the base line).
        advance: to the next origin, pixels.
    """

    code: int
    bitmap: bytes
    width: int
    height: int
    left: int
    top: int
    advance: int


def encoded_range(font: str, first: int, glyphs: Sequence[Glyph]) -> bytes:
    """Return a range of a font as a message."""
    body = _field(1, font.encode()) + _field(2, f"{first}-{first + RANGE - 1}".encode())
    for glyph in glyphs:
        message = _number(1, glyph.code)
        if glyph.bitmap:
            message += _field(2, glyph.bitmap)
        message += _number(3, glyph.width) + _number(4, glyph.height)
        message += _number(5, _zigzag(glyph.left)) + _number(6, _zigzag(glyph.top))
        message += _number(7, glyph.advance)
        body += _field(3, message)
    return _field(1, body)


def composed(name: str, first: int, ranges: Sequence[bytes]) -> bytes:
    """Return a range with each glyph from the first of some ranges that has it.

    Raises:
        ValueError: a range is not a message of glyphs.
    """
    found: dict[int, bytes] = {}
    for data in ranges:
        for stack in _parts(data, 1):
            for glyph in _parts(stack, 3):
                if len(found) <= _MOST_GLYPHS:
                    found.setdefault(_code(glyph), glyph)
    body = _field(1, name.encode()) + _field(2, f"{first}-{first + RANGE - 1}".encode())
    return _field(1, body + b"".join(_field(3, found[code]) for code in sorted(found)))


def _code(glyph: bytes) -> int:
    number, code = next(fields(glyph), (0, 0))
    if number != 1 or not isinstance(code, int):
        raise ValueError("a glyph does not begin with its code")
    return code


def _parts(data: bytes, wanted: int) -> Iterator[bytes]:
    """Yield the fields with a number that contain bytes."""
    for number, value in fields(data):
        if number == wanted and isinstance(value, bytes):
            yield value


def _field(number: int, data: bytes) -> bytes:
    return _encoded(number << 3 | _BYTES) + _encoded(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return _encoded(number << 3) + _encoded(value)


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _zigzag(value: int) -> int:
    return value * 2 if value >= 0 else -value * 2 - 1
