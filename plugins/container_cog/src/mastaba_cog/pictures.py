"""Headers of JPEG and WebP tiles, and complete JPEGs from the tiles of a TIFF."""

from __future__ import annotations

import struct
from typing import Final

from mastaba.errors import SlabFormatError

_FRAMES: Final = frozenset({0xC0, 0xC1, 0xC2})
_START, _END = b"\xff\xd8", b"\xff\xd9"
_NOT_CONVERTED: Final = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00"
"""The segment of Adobe that says: the components are red, green and blue."""


def _frame(data: bytes) -> bytes:
    """Return the frame header of a JPEG after its length.

    Raises:
        SlabFormatError: there is none.
    """
    place = 2
    while place + 4 <= len(data) and data[place] == 0xFF:
        marker = data[place + 1]
        (length,) = struct.unpack_from(">H", data, place + 2)
        if marker in _FRAMES and length >= 8 and place + 2 + length <= len(data):
            return data[place + 4 : place + 2 + length]
        if marker == 0xDA:
            break
        place += 2 + length
    raise SlabFormatError("a tile is not a JPEG")


def frame_of_jpeg(data: bytes) -> tuple[int, int, int]:
    """Return height, width and components of a JPEG of 8 bits. Raises `SlabFormatError`."""
    precision, height, width, components = struct.unpack_from(">BHHB", _frame(data))
    if precision != 8:
        raise SlabFormatError(f"a tile is a JPEG of {precision} bits")
    return height, width, components


def components_of_jpeg(data: bytes) -> tuple[bytes, bool]:
    """Return the identifiers of the components of a JPEG, and whether all have full resolution."""
    frame = _frame(data)
    count = min(frame[5], (len(frame) - 6) // 3)
    identifiers = bytes(frame[6 + 3 * number] for number in range(count))
    return identifiers, len({frame[7 + 3 * number] for number in range(count)}) == 1


def complete_jpeg(tile: bytes, tables: bytes, *, is_rgb: bool) -> bytes:
    """Return a tile with the tables that all tiles of an image share.

    Args:
        is_rgb: whether its components are red, green and blue, so that decoders must not convert.
    """
    if tile[:2] != _START:
        raise SlabFormatError("a tile is not a JPEG")
    before = tables[:-2] if tables.endswith(_END) and tables.startswith(_START) else _START
    if not is_rgb:
        return b"".join((before, memoryview(tile)[2:]))
    return b"".join((_START, _NOT_CONVERTED, before[2:], memoryview(tile)[2:]))


def size_of_webp(data: bytes) -> tuple[int, int]:
    """Return width and height of a WebP. Raises `SlabFormatError`."""
    kind = data[12:16] if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else b""
    if len(data) >= 30:
        if kind == b"VP8X":
            wide = int.from_bytes(data[24:27], "little") + 1
            return wide, int.from_bytes(data[27:30], "little") + 1
        if kind == b"VP8 ":
            wide, high = struct.unpack_from("<HH", data, 26)
            return wide & 0x3FFF, high & 0x3FFF
        if kind == b"VP8L":
            (packed,) = struct.unpack_from("<I", data, 21)
            return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
    raise SlabFormatError("a tile is not a WebP")
