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
_POINT, _POLYGON = _GEOMETRY_CODES["POINT"], _GEOMETRY_CODES["POLYGON"]
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
    for feature, geometry in zip(features, _geometries(features), strict=True):
        tags: list[int] = []
        for key, value in feature.attributes.items():
            tags.append(keys.setdefault(key, len(keys)))
            tags.append(values.setdefault((type(value), value), len(values)))
        encoded += _bytes_field(2, _feature(feature, tags, geometry))
    layer = _varint_field(15, 2) + _bytes_field(1, name.encode()) + bytes(encoded)
    layer += b"".join(_bytes_field(3, key.encode()) for key in keys)
    layer += b"".join(_bytes_field(4, _value(value)) for _, value in values)
    return layer + _varint_field(5, extent)


def _feature(feature: Feature, tags: Sequence[int], geometry: bytes) -> bytes:
    message = b""
    if feature.identifier is not None:
        message += _varint_field(1, feature.identifier)
    if tags:
        message += _bytes_field(2, b"".join(map(_varint, tags)))
    message += _varint_field(3, _GEOMETRY_CODES[feature.geometry])
    return message + _bytes_field(4, geometry)


def _geometries(features: Sequence[Feature]) -> list[bytes]:
    """Return the encoded geometry of each feature; all are computed at the same time."""
    parts = [
        (number, _GEOMETRY_CODES[feature.geometry], part)
        for number, feature in enumerate(features)
        for part in feature.parts
        if len(part)
    ]
    if not parts:
        return [b""] * len(features)
    owners = np.array([number for number, _, _ in parts])
    kinds = np.array([kind for _, kind, _ in parts])
    counts = np.array([len(part) for _, _, part in parts])
    points = np.concatenate([np.asarray(part, np.int64).reshape(-1, 2) for _, _, part in parts])
    starts = np.cumsum(counts) - counts
    # Each feature begins at (0, 0), and goes on from part to part.
    steps = np.diff(points, axis=0, prepend=np.zeros((1, 2), np.int64))
    first_parts = np.flatnonzero(np.diff(owners, prepend=-1))
    steps[starts[first_parts]] = points[starts[first_parts]]
    # Points have one command, lines two and polygons three: their codes.
    before = np.cumsum(kinds) - kinds
    moves = 2 * starts + before
    part_of = np.repeat(np.arange(len(counts)), counts)
    numbers = np.arange(len(points))
    places = 2 * numbers + before[part_of] + 1
    places[(numbers != starts[part_of]) & (kinds[part_of] > _POINT)] += 1
    commands = np.empty(2 * len(points) + int(kinds.sum()), np.int64)
    parameters = (steps << 1) ^ (steps >> 63)
    commands[places], commands[places + 1] = parameters[:, 0], parameters[:, 1]
    commands[moves] = _MOVE_TO | np.where(kinds == _POINT, counts, 1) << 3
    drawn = kinds > _POINT
    commands[moves[drawn] + 3] = _LINE_TO | (counts[drawn] - 1) << 3
    closed = kinds == _POLYGON
    commands[moves[closed] + 2 * counts[closed] + 2] = _CLOSE_PATH | 1 << 3
    encoded, ends = _varints(commands)
    found = [b""] * len(features)
    cuts = [0, *ends[moves[first_parts[1:]] - 1].tolist(), len(encoded)]
    for number, start, end in zip(owners[first_parts].tolist(), cuts, cuts[1:], strict=False):
        found[number] = encoded[start:end]
    return found


def _varints(numbers: npt.NDArray[np.int64]) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Return numbers of up to 32 bits as varints, and the byte after each of them."""
    rest = numbers.astype(np.uint32)
    lengths = np.ones(len(rest), np.int64)
    for bits in range(7, int(rest.max()).bit_length(), 7):
        lengths += rest >= 1 << bits
    ends = np.cumsum(lengths)
    encoded = np.empty(int(ends[-1]), np.uint8)
    places = ends - lengths
    # Most numbers have one byte, so each round has much fewer than the one before.
    while len(rest):
        is_more = rest > 0x7F
        encoded[places] = rest & 0x7F | is_more.astype(np.uint32) << 7
        rest, places = rest[is_more] >> np.uint32(7), places[is_more] + 1
    return encoded.tobytes(), ends


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
    if number <= 0x7F:
        return bytes((number,))
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
