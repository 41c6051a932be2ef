"""Check of vector tiles, by the structure of their protobuf message only."""

from __future__ import annotations

import zlib
from typing import Final

from mastaba.errors import SlabFormatError

_MAX_SIZE: Final = 256 * 1024 * 1024
_LAYERS: Final = 3
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def check_vector_tile(payload: bytes) -> int:
    """Return the number of layers in a tile, which may be compressed with gzip.

    Raises:
        SlabFormatError: it is not a Mapbox Vector Tile, or is truncated.
    """
    if payload.startswith(b"\x1f\x8b"):
        try:
            payload = zlib.decompressobj(zlib.MAX_WBITS + 16).decompress(payload, _MAX_SIZE)
        except zlib.error as error:
            raise SlabFormatError("a vector tile cannot be decompressed") from error
    layers = position = 0
    while position < len(payload):
        key, position = _varint(payload, position)
        field, kind = key >> 3, key & 7
        if kind == _VARINT:
            _, position = _varint(payload, position)
        elif kind == _BYTES:
            length, position = _varint(payload, position)
            position += length
            layers += field == _LAYERS
        elif kind in (_FIXED64, _FIXED32):
            position += 8 if kind == _FIXED64 else 4
        else:
            raise SlabFormatError("a vector tile is not a protobuf message")
    if position != len(payload):
        raise SlabFormatError("a vector tile is truncated")
    if not layers:
        raise SlabFormatError("a vector tile has no layer")
    return layers


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        if position >= len(data):
            raise SlabFormatError("a vector tile is truncated")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise SlabFormatError("a vector tile is not a protobuf message")
