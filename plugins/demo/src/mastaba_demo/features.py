"""The vector layer: coasts, contours, rivers, peaks and towns of one tile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mastaba_demo.contours import trace
from mastaba_demo.hydrology import River
from mastaba_demo.noise import Field, Window
from mastaba_demo.places import Place
from mastaba_demo.rivers import SMALLEST_AREA, river_width, visible
from mastaba_writer.vector_tile_writer import Feature, Point, Value, encode_vector_tile

EXTENT = 4096
_BUFFER = 64  # units by which geometries may extend beyond the tile
_STEP = 2  # pixels between the nodes of contours
_INTERVALS = {9: 500, 10: 500, 11: 250, 12: 250}  # metres between contours, by level


@dataclass(frozen=True, slots=True)
class Features:
    """Features of the world that are not derived from the terrain of a tile."""

    rivers: tuple[River, ...] = ()
    peaks: tuple[Place, ...] = ()
    towns: tuple[Place, ...] = ()


def vector_tile(
    elevation: Field, margin: int, window: Window, level: int, known: Features
) -> bytes:
    """Return the encoded vector tile of a window that covers one tile.

    Args:
        elevation: metres, with a margin of at least two pixels.
        margin: pixels around the window.
        window: pixels of the tile.
        level: level of the tile matrix set PM.
        known: features of the world.
    """
    tables: dict[str, list[Feature]] = {
        "contours": [],
        "coastline": _lines(elevation, margin, 0.0, {}),
        "rivers": [
            Feature("LINESTRING", parts, _river_attributes(river))
            for river in visible(known.rivers, window, level)
            if (parts := _clipped(_in_tile(river.points, window)))
        ],
        "peaks": _points(known.peaks, window, level, "elevation"),
        "towns": _points(known.towns, window, level, "population"),
    }
    interval = _INTERVALS.get(level)
    if interval:
        lowest = int(np.floor(elevation.min() / interval)) + 1
        highest = int(np.ceil(elevation.max() / interval))
        for step in range(max(lowest, 1), highest):
            value = step * interval
            tables["contours"] += _lines(elevation, margin, value, {"elevation": value})
    return encode_vector_tile(tables, EXTENT)


def tables_of(level: int, known: Features) -> list[dict[str, Any]]:
    """Return the descriptions of the tables of a level."""
    tables = [_table("coastline", "LINESTRING")]
    if level in _INTERVALS:
        interval = _INTERVALS[level]
        tables.append(
            _table("contours", "LINESTRING", _number("elevation", range(interval, 9000, interval)))
        )
    smallest = SMALLEST_AREA.get(level)
    rivers = [r for r in known.rivers if smallest is not None and r.area >= smallest]
    if rivers:
        attributes = [_river_attributes(river) for river in rivers]
        numbers = [
            _number(name, [values[name] for values in attributes])
            for name in ("drained_area", "width")
        ]
        tables.append(_table("rivers", "LINESTRING", *numbers))
    for name, size, places in (
        ("peaks", "elevation", known.peaks),
        ("towns", "population", known.towns),
    ):
        shown = [place for place in places if place.level <= level]
        if shown:
            text = {"name": "name", "type": "String", "count": len({p.name for p in shown})}
            numbers = [_number(size, [place.size for place in shown])]
            tables.append(_table(name, "POINT", text, *numbers))
    return tables


def _table(name: str, geometry: str, *attributes: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "geometry": geometry, "attributes": list(attributes)}


def _number(name: str, values: Sequence[int]) -> dict[str, Any]:
    return {
        "name": name,
        "type": "Integer",
        "count": len(set(values)),
        "min": min(values),
        "max": max(values),
    }


def _river_attributes(river: River) -> dict[str, int]:
    return {"drained_area": round(river.area), "width": round(river_width(river.area))}


def _points(places: Iterable[Place], window: Window, level: int, size: str) -> list[Feature]:
    features: list[Feature] = []
    for place in places:
        ((x, y),) = _in_tile(np.array([[place.x, place.y]]), window)
        near = -_BUFFER <= x <= EXTENT + _BUFFER and -_BUFFER <= y <= EXTENT + _BUFFER
        if near and place.level <= level:
            attributes: dict[str, Value] = {"name": place.name, size: place.size}
            features.append(Feature("POINT", [[(round(x), round(y))]], attributes))
    return features


def _lines(
    elevation: Field, margin: int, value: float, attributes: dict[str, int]
) -> list[Feature]:
    nodes = elevation[margin - _STEP :: _STEP, margin - _STEP :: _STEP]
    size = len(elevation) - 2 * margin
    count = size // _STEP + 3  # from two pixels before the tile to two after
    nodes = nodes[:count, :count]
    unit = EXTENT / size
    lines = [
        # A node is at the centre of its pixel.
        ((line - 1) * _STEP + 0.5) * unit
        for line in trace(nodes, value)
    ]
    parts = [part for line in lines for part in _clipped(line)]
    return [Feature("LINESTRING", parts, attributes)] if parts else []


def _in_tile(points: NDArray[np.float64], window: Window) -> NDArray[np.float64]:
    pixels = points * window.world - (window.left, window.top)
    result: NDArray[np.float64] = pixels * (EXTENT / window.size)
    return result


def _clipped(line: NDArray[np.float64]) -> list[list[Point]]:
    """Return the parts of a line that touch the tile or its buffer, in whole units."""
    first, second = line[:-1], line[1:]
    low, high = np.minimum(first, second), np.maximum(first, second)
    inside = (high >= -_BUFFER) & (low <= EXTENT + _BUFFER)
    meets = inside[:, 0] & inside[:, 1]
    edges = np.flatnonzero(np.diff(meets, prepend=False, append=False)).tolist()
    units = np.round(line).astype(np.int64)
    parts: list[list[Point]] = []
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        points = units[start : end + 1]
        moves = np.append(True, (points[1:] != points[:-1]).any(axis=1))
        part: list[Point] = [(x, y) for x, y in points[moves].tolist()]
        if len(part) > 1:
            parts.append(part)
    return parts
