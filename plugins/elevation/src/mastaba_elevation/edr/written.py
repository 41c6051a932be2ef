"""Grids as text, some rows at a time: a million heights are never in memory as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba_elevation.edr.covjson import coverage
from mastaba_elevation.edr.geojson import collection_of, properties_of
from mastaba_elevation.edr.names import ELEVATION
from mastaba_elevation.web.numbers import heights_json, to_json

if TYPE_CHECKING:
    from mastaba_elevation.edr.answers import Cells

_VALUES: Final = 1 << 12
"""Heights written at a time."""
_EMPTY: Final = b'"values":[]'
_NULL: Final = "null"


def coverage_pieces(found: Cells) -> Iterator[bytes]:
    """Yield a coverage as CoverageJSON."""
    # In texts, the quotation marks are escaped.
    head, tail = to_json(coverage(found)).split(_EMPTY)
    yield head + _EMPTY[:-1]
    heights = found.heights.ravel()
    for start in range(0, len(heights), _VALUES):
        comma = b"," if start else b""
        yield comma + heights_json(heights[start : start + _VALUES], found.decimals)[1:-1]
    yield _EMPTY[-1:] + tail


def table_pieces(found: Cells) -> Iterator[bytes]:
    """Yield a line of comma-separated values for each centre, from the north-west."""
    yield f"x,y,{ELEVATION}\r\n".encode()
    for rows in _rows(found):
        lines = [
            f"{x},{y},{'' if height == _NULL else height}\r\n"
            for y, xs, heights in rows
            for x, height in zip(xs, heights, strict=True)
        ]
        yield "".join(lines).encode()


def feature_pieces(found: Cells) -> Iterator[bytes]:
    """Yield a feature of GeoJSON for each centre with a height."""
    count = int(np.count_nonzero(~np.isnan(found.heights)))
    whole = to_json(collection_of(found, [], count))
    head, tail = whole.split(b'"features":[]')
    yield head + b'"features":['
    before = '{"type":"Feature","geometry":{"type":"Point","coordinates":['
    properties = to_json(properties_of(found)).decode()
    between, after = f']}},"properties":{properties[:-1]},"{ELEVATION}":', "}}"
    is_first = True
    for rows in _rows(found):
        listed = [
            f"{before}{x},{y},{height}{between}{height}{after}"
            for y, xs, heights in rows
            for x, height in zip(xs, heights, strict=True)
            if height != _NULL
        ]
        if listed:
            yield ("" if is_first else ",").encode() + ",".join(listed).encode()
            is_first = False
    yield b"]" + tail


def _rows(found: Cells) -> Iterator[list[tuple[str, list[str], list[str]]]]:
    """Yield some parts of rows at a time: y, and texts of x and of heights."""
    xs = list(map(repr, found.grid.x.centres.tolist()))
    ys = list(map(repr, found.grid.y.centres.tolist()))
    waiting: list[tuple[str, list[str], list[str]]] = []
    size = 0
    for y, heights in zip(ys, found.heights, strict=True):
        for start in range(0, len(xs), _VALUES):
            part = slice(start, start + _VALUES)
            texts = heights_json(heights[part], found.decimals)[1:-1].decode().split(",")
            waiting.append((y, xs[part], texts))
            size += len(texts)
            if size >= _VALUES:
                yield waiting
                waiting, size = [], 0
    yield waiting
