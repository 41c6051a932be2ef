"""The frame header of a JPEG (ITU-T T.81, B.2.2), as far as TIFF must declare it."""

from __future__ import annotations

import struct
from typing import Final

_START: Final = b"\xff\xd8"
_FRAMES: Final = (0xC0, 0xC1, 0xC2)
_ADOBE: Final = 0xEE
_SCAN: Final = 0xDA
# Horizontal and vertical sampling of Y, Cb and Cr.
_HALVED: Final = (0x22, 0x11, 0x11)


def is_halved(payload: bytes, width: int, height: int) -> bool:
    """Return whether a JPEG has this size, and Y, Cb and Cr with chroma at half resolution."""
    position = 2
    if not payload.startswith(_START):
        return False
    while position + 4 <= len(payload) and payload[position] == 0xFF:
        marker = payload[position + 1]
        (length,) = struct.unpack_from(">H", payload, position + 2)
        segment = payload[position + 4 : position + 2 + length]
        if marker == _ADOBE and segment.startswith(b"Adobe") and segment[11:12] == b"\0":
            return False  # red, green and blue
        if marker in _FRAMES:
            if len(segment) < 15:
                return False
            bits, rows, columns, components = struct.unpack_from(">BHHB", segment)
            found = (rows, columns, bits, components) == (height, width, 8, 3)
            return found and (segment[7], segment[10], segment[13]) == _HALVED
        if marker == _SCAN:
            return False
        position += 2 + length
    return False
