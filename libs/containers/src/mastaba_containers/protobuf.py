"""Messages of Protocol Buffers, read without their schema (protobuf.dev, "Encoding")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_VARINT: Final = 0
_BYTES: Final = 2
_SIZES: Final = {1: 8, 5: 4}
"""Bytes of the types of fixed size."""


class Fixed(bytes):
    """A value of 4 or 8 bytes: a number, not a text or a message."""


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message: their numbers, and their values.

    A value is an int if it is a varint, `Fixed` if its type is fixed32 or fixed64, otherwise bytes.

    Raises:
        ValueError: the message is truncated, or contains something else.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            number, at = _varint(data, at)
            yield key >> 3, number
            continue
        made: type[bytes] = bytes
        if kind == _BYTES:
            length, at = _varint(data, at)
        elif kind in _SIZES:
            length, made = _SIZES[kind], Fixed
        else:
            raise ValueError(f"protobuf has no fields of type {kind}")
        if at + length > len(data):
            raise ValueError("it is truncated")
        yield key >> 3, made(data[at : at + length])
        at += length


def varints(data: bytes) -> Iterator[int]:
    """Yield the numbers of a packed field. Raises ValueError if it is truncated."""
    at = 0
    while at < len(data):
        number, at = _varint(data, at)
        yield number


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("it is truncated")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
