"""Bytes of vector tiles: compression and protobuf (Mapbox Vector Tile 2.1)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from mastaba_containers.protobuf import fields, varints

LARGEST_TILE = 64 << 20
_GEOMETRIES = {1: "POINT", 2: "LINESTRING", 3: "POLYGON"}
_LAYER = 0x1A

Value: TypeAlias = str | float | int | bool


@dataclass(frozen=True, slots=True)
class TileLayer:
    """One layer of a tile.

    Attributes:
        geometry: type of its first feature whose type is known; empty without any.
        attributes: names and the values that features have, in the order of their first use.
    """

    name: str
    geometry: str
    attributes: dict[str, list[Value]]


def inflated(data: bytes) -> bytes:
    """Return data without gzip or zlib compression, if there is one.

    Raises:
        ValueError: the data are damaged, or larger than 64 MiB.
    """
    is_gzip = data[:2] == b"\x1f\x8b"
    is_zlib = len(data) > 1 and data[0] == 0x78 and int.from_bytes(data[:2], "big") % 31 == 0
    result = b""
    while is_gzip or is_zlib:
        stream = zlib.decompressobj(31 if is_gzip else 15)
        try:
            result += stream.decompress(data, LARGEST_TILE - len(result) + 1)
        except zlib.error as error:
            raise ValueError(str(error)) from None
        if len(result) > LARGEST_TILE:
            raise ValueError("it is larger than 64 MiB")
        if not stream.eof:
            raise ValueError("its compressed data are truncated")
        data = stream.unused_data
        is_zlib, is_gzip = False, data[:2] == b"\x1f\x8b"  # a gzip file may have several members
        if not is_gzip:
            return result
    return data


def vector_tile(data: bytes) -> bytes:
    """Return the protobuf of a stored tile; empty for a tile without layers.

    Raises:
        ValueError: it is not a vector tile.
    """
    plain = inflated(data)
    if len(plain) > LARGEST_TILE:
        raise ValueError("it is larger than 64 MiB")
    if plain and plain[0] != _LAYER:
        raise ValueError(f"its first byte is {plain[0]:02X} instead of {_LAYER:02X}")
    return plain


def layers(tile: bytes) -> Iterator[TileLayer]:
    """Yield the layers of a tile that is not compressed.

    Raises:
        ValueError: the protobuf is damaged.
    """
    for field, value in fields(tile):
        if field == 3:
            yield _layer(_as_bytes(value))


def _layer(data: bytes) -> TileLayer:
    name = ""
    keys: list[str] = []
    values: list[Value] = []
    used: dict[tuple[int, int], None] = {}
    geometry = ""
    for field, value in fields(data):
        if field == 1:
            name = _as_bytes(value).decode()
        elif field == 2:
            for inner, content in fields(_as_bytes(value)):
                if inner == 2:
                    tags = list(varints(_as_bytes(content)))
                    used.update(dict.fromkeys(zip(tags[::2], tags[1::2], strict=True)))
                elif inner == 3 and not geometry and isinstance(content, int):
                    geometry = _GEOMETRIES.get(content, "")
        elif field == 3:
            keys.append(_as_bytes(value).decode())
        elif field == 4:
            values.append(_value(_as_bytes(value)))
    attributes: dict[str, list[Value]] = {}
    for key, number in used:
        if key >= len(keys) or number >= len(values):
            raise ValueError(f"a feature of {name!r} has an attribute that is not in the layer")
        attributes.setdefault(keys[key], []).append(values[number])
    return TileLayer(name, geometry, attributes)


def _value(data: bytes) -> Value:
    for field, value in fields(data):
        if field == 1:
            return _as_bytes(value).decode()
        if field in (2, 3):
            number: float = struct.unpack("<f" if field == 2 else "<d", _as_bytes(value))[0]
            return number
        if not isinstance(value, int):
            break
        if field == 4:
            return value - (1 << 64) if value >> 63 else value
        if field == 5:
            return value
        if field == 6:
            return value >> 1 ^ -(value & 1)
        if field == 7:
            return bool(value)
    raise ValueError("an attribute has no value")


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a field of a vector tile has the wrong type")
    return value
