"""Tables in FlatGeobuf (version 3), as ``gdaltindex`` writes them for GDAL's driver GTI.

Such a file is a header, an index of boxes, which is not read, and one buffer for each feature. All
are buffers of FlatBuffers: tables that name the places of their fields. Places of a stranger's file
may be anywhere, so each is checked to be in its buffer.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import numpy as np

from mastaba_cog.errors import CogError
from mastaba_cog.mosaic.geometry import Box
from mastaba_cog.mosaic.table import COLUMNS, MOST_ROWS, NOWHERE, Rows, Wanted

_MAGIC: Final = b"fgb\x03fgb"
_LOCATIONS: Final = ("location", "path")
_DEEPEST: Final = 8
_MOST_COLUMNS: Final = 1000
_NODE: Final = 40
"""Bytes of a node of the index."""
_NUMBERS: Final = {number: struct.Struct(f"<{form}") for number, form in enumerate("bB?hHiIqQfd")}
"""Forms of the types of columns that have a fixed size."""
_BINARY: Final = 14
"""Type of a column of bytes; those between the numbers and it are texts."""
_U16, _U32, _I32, _U64 = (struct.Struct(f"<{form}") for form in "HIiQ")
_REMEDY: Final = "make it with gdaltindex or ogr2ogr"


class Column(NamedTuple):
    """Name and number of the type of a column."""

    name: str
    type: int


def rows_of_flatgeobuf(data: bytes, wanted: Wanted) -> Rows:
    """Return the rows of a file. Raises `CogError`."""
    if not data.startswith(_MAGIC):
        raise CogError("it is a FlatGeobuf of another version than 3", _REMEDY)
    try:
        return _rows(memoryview(data), wanted)
    except CogError:
        raise
    except (struct.error, ValueError, OverflowError, IndexError):
        raise CogError("it is a damaged FlatGeobuf", _REMEDY) from None


def _rows(data: memoryview, wanted: Wanted) -> Rows:
    header, start = _sized(data, 8)
    root = _target(header, 0)
    columns = _columns(header, root)
    names = [column.name for column in columns]
    location = next((one for one in _LOCATIONS if one in names), None)
    if location is None:
        raise CogError('it has no column "location"', _REMEDY)
    sort_field = wanted.sorted_by(names)
    read = {location, *COLUMNS}
    if sort_field is not None:
        read.add(sort_field)
    count = _number(header, root, 8, _U64)
    if count > MOST_ROWS:
        raise CogError(f"it has more than {MOST_ROWS:,} rows", "divide it")
    start += _index_size(count, _number(header, root, 9, _U16, 16))
    rows = Rows(_crs(header, root), descends=bool(wanted.descends))
    # Each coordinate of an honest file is in one place, so there are no more than fit into it.
    left = len(data)
    while start < len(data):
        feature, start = _sized(data, start)
        root = _target(feature, 0)
        box, left = _box(feature, root, left)
        facts = _properties(feature, root, columns, read)
        key = None if sort_field is None else facts.get(sort_field)
        rows.add(facts.get(location), box, key, facts)
    return rows


def _columns(header: memoryview, root: int) -> list[Column]:
    start, count = _vector(header, root, 7, 4)
    if count > _MOST_COLUMNS:
        raise CogError(f"it has more than {_MOST_COLUMNS} columns", _REMEDY)
    found = []
    for number in range(count):
        table = _target(header, start + 4 * number)
        field = _field(header, table, 1)
        found.append(Column(_text(header, table, 0), header[field] if field else 0))
    return found


def _crs(header: memoryview, root: int) -> str:
    """Return the code of the CRS of the footprints."""
    field = _field(header, root, 10)
    table = _target(header, field) if field else 0
    code = _number(header, table, 1, _I32) if table else 0
    if not code:
        raise CogError("its CRS has no code", _REMEDY)
    return f"{(_text(header, table, 0) or 'EPSG').upper()}:{code}"


def _index_size(count: int, node_size: int) -> int:
    """Return the bytes of the index: the boxes of the features, of groups of them, and so on."""
    if not count or not node_size:
        return 0
    if node_size < 2:
        raise ValueError
    nodes = count
    while count > 1:
        count = -(-count // node_size)
        nodes += count
    return nodes * _NODE


def _box(feature: memoryview, root: int, left: int) -> tuple[Box, int]:
    """Return the box around the geometry of a feature, and the bytes that others may still have."""
    field = _field(feature, root, 0)
    if not field:
        return NOWHERE, left
    found: list[Any] = []
    tables = [_target(feature, field)]
    for _ in range(_DEEPEST):
        parts: list[int] = []
        for table in tables:
            start, count = _vector(feature, table, 1, 8)
            left -= 8 * count + 4
            if left < 0:
                raise ValueError
            if count:
                found.append(np.frombuffer(feature, "<f8", count, start).reshape(-1, 2))
            start, count = _vector(feature, table, 7, 4)
            parts += [_target(feature, start + 4 * number) for number in range(count)]
        tables = parts
    if tables or not found:
        raise ValueError
    points = found[0] if len(found) == 1 else np.concatenate(found)
    (xmin, ymin), (xmax, ymax) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    return (xmin, ymin, xmax, ymax), left


def _properties(
    feature: memoryview, root: int, columns: list[Column], read: set[str]
) -> dict[str, Any]:
    """Return the values of some columns; absent ones are not there."""
    place, size = _vector(feature, root, 1, 1)
    end = place + size
    found: dict[str, Any] = {}
    while place < end:
        name, kind = columns[_at(_U16, feature, place)]
        place += 2
        form = _NUMBERS.get(kind)
        if form is not None:
            value = _at(form, feature, place)
            place += form.size
        else:
            size = _at(_U32, feature, place)
            place += 4 + size
            if place > end:
                raise ValueError
            data = bytes(feature[place - size : place]) if name in read else b""
            value = data if kind == _BINARY else data.decode("utf-8", "replace")
        if name in read:
            found[name] = value
    return found


# ------------------------------------------------------------------------------ FlatBuffers


def _sized(data: memoryview, start: int) -> tuple[memoryview, int]:
    """Return the buffer whose size is before it, and the place after it."""
    end = start + 4 + _at(_U32, data, start)
    if end > len(data):
        raise ValueError
    return data[start + 4 : end], end


def _at(form: struct.Struct, data: memoryview, place: int) -> Any:
    if place < 0:
        raise ValueError
    return form.unpack_from(data, place)[0]


def _target(data: memoryview, place: int) -> int:
    """Return the place that the offset at a place names."""
    return place + int(_at(_U32, data, place))


def _field(data: memoryview, table: int, slot: int) -> int:
    """Return the place of a field of a table, or 0 if it is absent."""
    fields = table - _at(_I32, data, table)
    at = 4 + 2 * slot
    offset = _at(_U16, data, fields + at) if at < _at(_U16, data, fields) else 0
    return table + offset if offset else 0


def _number(data: memoryview, table: int, slot: int, form: struct.Struct, default: int = 0) -> int:
    field = _field(data, table, slot)
    return int(_at(form, data, field)) if field else default


def _vector(data: memoryview, table: int, slot: int, size: int) -> tuple[int, int]:
    """Return the place of the first element of a vector, and their number, 0 if it is absent."""
    field = _field(data, table, slot)
    if not field:
        return 0, 0
    start = _target(data, field)
    count = _at(_U32, data, start)
    if start + 4 + count * size > len(data):
        raise ValueError
    return start + 4, count


def _text(data: memoryview, table: int, slot: int) -> str:
    start, count = _vector(data, table, slot, 1)
    return bytes(data[start : start + count]).decode("utf-8", "replace")
