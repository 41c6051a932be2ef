"""Encoder of Mapbox Vector Tiles (version 2) that only uses the standard library."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = [
    "Feature",
    "GeometryType",
    "Point",
    "Value",
    "encode_vector_tile",
]

Value: TypeAlias = str | bool | int | float
"""Value of an attribute of a feature."""
Point: TypeAlias = tuple[int, int]
"""Position in a tile, x to the right and y downward from its upper left corner."""
GeometryType: TypeAlias = Literal["POINT", "LINESTRING", "POLYGON"]
"""Type of the geometry of a feature."""

_GEOMETRY_CODES: Mapping[GeometryType, int] = {"POINT": 1, "LINESTRING": 2, "POLYGON": 3}
_MOVE_TO, _LINE_TO, _CLOSE_PATH = 1, 2, 7


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of a vector tile.

    Attributes:
        geometry: type of the geometry.
        parts: all points in one part; or one part per line; or one part per ring, without
            repeating the first point. Coordinates start at the upper left corner of the tile,
            x to the right and y downward, in units of 1 / extent of the tile.
        attributes: names and values.
        identifier: numeric feature id, or None.
    """

    geometry: GeometryType
    parts: Sequence[Sequence[Point]]
    attributes: Mapping[str, Value] = field(default_factory=dict)
    identifier: int | None = None


def encode_vector_tile(tables: Mapping[str, Iterable[Feature]], extent: int = 4096) -> bytes:
    """Return an encoded tile; tables without features are omitted, as the format recommends.

    Args:
        tables: features by name of their table (called "layer" in the specification).
        extent: units per side of the tile.
    """
    tile = bytearray()
    for name, features in tables.items():
        layer = _layer(name, list(features), extent)
        if layer:
            tile += _bytes_field(3, layer)
    return bytes(tile)


def _layer(name: str, features: Sequence[Feature], extent: int) -> bytes:
    if not features:
        return b""
    keys: dict[str, int] = {}
    # The type is part of the key: 1, 1.0 and True are equal but encoded differently.
    values: dict[tuple[type, Value], int] = {}
    encoded = bytearray()
    for feature in features:
        tags: list[int] = []
        for key, value in feature.attributes.items():
            tags.append(keys.setdefault(key, len(keys)))
            tags.append(values.setdefault((type(value), value), len(values)))
        encoded += _bytes_field(2, _feature(feature, tags))
    layer = _varint_field(15, 2) + _bytes_field(1, name.encode()) + bytes(encoded)
    layer += b"".join(_bytes_field(3, key.encode()) for key in keys)
    layer += b"".join(_bytes_field(4, _value(value)) for _, value in values)
    return layer + _varint_field(5, extent)


def _feature(feature: Feature, tags: Sequence[int]) -> bytes:
    message = b""
    if feature.identifier is not None:
        message += _varint_field(1, feature.identifier)
    if tags:
        message += _bytes_field(2, b"".join(map(_varint, tags)))
    message += _varint_field(3, _GEOMETRY_CODES[feature.geometry])
    return message + _bytes_field(4, b"".join(map(_varint, _commands(feature))))


def _commands(feature: Feature) -> list[int]:
    commands: list[int] = []
    x = y = 0
    for part in feature.parts:
        first = len(part) if feature.geometry == "POINT" else 1
        for index, (next_x, next_y) in enumerate(part):
            if index == 0:
                commands.append(_MOVE_TO | first << 3)
            elif index == first:
                commands.append(_LINE_TO | (len(part) - 1) << 3)
            commands += (_zigzag(next_x - x), _zigzag(next_y - y))
            x, y = next_x, next_y
        if feature.geometry == "POLYGON":
            commands.append(_CLOSE_PATH | 1 << 3)
    return commands


def _value(value: Value) -> bytes:
    if isinstance(value, str):
        return _bytes_field(1, value.encode())
    if isinstance(value, bool):  # before int, because bool is a subclass of int
        return _varint_field(7, int(value))
    if isinstance(value, int):
        return _varint_field(6, _zigzag(value))
    return _varint(3 << 3 | 1) + struct.pack("<d", value)


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _varint_field(tag: int, number: int) -> bytes:
    return _varint(tag << 3) + _varint(number)


def _bytes_field(tag: int, data: bytes) -> bytes:
    return _varint(tag << 3 | 2) + _varint(len(data)) + data
