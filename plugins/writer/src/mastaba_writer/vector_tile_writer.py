"""Encoder of Mapbox Vector Tiles (version 2)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "Feature",
    "GeometryType",
    "Part",
    "Point",
    "Value",
    "encode_vector_tile",
]

Value: TypeAlias = str | bool | int | float
"""Value of an attribute of a feature."""
Point: TypeAlias = tuple[int, int]
"""Position in a tile, x to the right and y downward from its upper left corner."""
Part: TypeAlias = Sequence[Point] | npt.NDArray[np.signedinteger[Any]]
"""Positions, also as an array of shape (n, 2)."""
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
    parts: Sequence[Part]
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
    return message + _bytes_field(4, _packed(_commands(feature)))


def _commands(feature: Feature) -> npt.NDArray[np.int64]:
    """Return the commands of a geometry and their parameters."""
    arrays = [np.asarray(part, np.int64).reshape(-1, 2) for part in feature.parts if len(part)]
    if not arrays:
        return np.zeros(0, np.int64)
    counts = np.array([len(part) for part in arrays])
    points = np.concatenate(arrays)
    steps = np.diff(points, axis=0, prepend=np.zeros((1, 2), np.int64))
    is_point = feature.geometry == "POINT"
    is_closed = feature.geometry == "POLYGON"
    # Commands before the points of each part: MoveTo, LineTo and ClosePath of the parts before.
    each = 1 if is_point else 2 + is_closed
    parts = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    before = parts * each + 1
    if not is_point:
        before[np.arange(len(points)) != starts[parts]] += 1
    places = 2 * np.arange(len(points)) + before
    commands = np.empty(2 * len(points) + each * len(counts), np.int64)
    parameters = (steps << 1) ^ (steps >> 63)
    commands[places], commands[places + 1] = parameters[:, 0], parameters[:, 1]
    firsts = 2 * starts + np.arange(len(counts)) * each
    if is_point:
        commands[firsts] = _MOVE_TO | counts << 3
    else:
        commands[firsts] = _MOVE_TO | 1 << 3
        commands[firsts + 3] = _LINE_TO | (counts - 1) << 3
        if is_closed:
            commands[firsts + 2 * counts + 2] = _CLOSE_PATH | 1 << 3
    return commands


def _packed(numbers: npt.NDArray[np.int64]) -> bytes:
    """Return numbers of up to 32 bits as varints."""
    found = numbers.astype(np.uint32)
    width = max(1, -(-int(found.max(initial=0)).bit_length() // 7))
    if width == 1:
        return found.astype(np.uint8).tobytes()
    groups = np.empty((len(found), width), np.uint8)
    is_used = np.empty((len(found), width), np.bool_)
    for column in range(width):
        rest = found >> (7 * column)
        groups[:, column] = rest & 0x7F | np.where(rest > 0x7F, 0x80, 0)
        is_used[:, column] = (rest > 0) | (column == 0)
    return groups[is_used].tobytes()


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
