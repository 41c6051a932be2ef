"""Geometries of requests, and their GeoJSON form (RFC 7946)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import numpy as np

from mastaba.errors import InvalidParameterError
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.queries.ground import Floats
from mastaba_elevation.queries.polygons import closed

POINTS: Final = ("Point", "MultiPoint")
LINES: Final = ("LineString", "MultiLineString")
POLYGONS: Final = ("Polygon", "MultiPolygon")

_DEPTHS: Final = {
    "Point": 0,
    "MultiPoint": 1,
    "LineString": 1,
    "MultiLineString": 2,
    "Polygon": 2,
    "MultiPolygon": 3,
}
_LEAST: Final = {"LineString": 2, "MultiLineString": 2, "Polygon": 3, "MultiPolygon": 3}
MOST_PARTS: Final = 10_000
"""Lines or rings of a geometry."""

_LARGEST: Final = 1e10
"""CRS units. No CRS has larger coordinates, and arithmetic overflows beyond 1e150."""


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """A geometry.

    Attributes:
        kind: type as in GeoJSON.
        parts: points of each line or ring, or all points; shape (n, 2), x before y. Rings are
            closed, and those of all polygons follow each other.
        measures: M values of the points of all parts, shape (n,), or None.
        x, y: of the points of all parts, shape (n,).
    """

    kind: str
    parts: tuple[Floats, ...]
    measures: Floats | None = None
    x: Floats = field(init=False)
    y: Floats = field(init=False)

    def __post_init__(self) -> None:
        points = self.parts[0] if len(self.parts) == 1 else np.concatenate(self.parts)
        object.__setattr__(self, "x", points[:, 0])
        object.__setattr__(self, "y", points[:, 1])

    @classmethod
    def of(
        cls, kind: str, parts: Iterable[Floats], parameter: str, *, measures: bool = False
    ) -> Geometry:
        """Return a geometry from arrays of points with two or more coordinates.

        Args:
            measures: whether the last coordinate is M.

        Raises:
            InvalidParameterError: a part has too few points, or a coordinate is out of range.
        """
        found = list(parts)
        least = _LEAST.get(kind, 1)
        if not found or any(len(part) < least for part in found):
            message = f"{parameter} is not valid: a {kind} has at least {least} points"
            raise InvalidParameterError(message, parameter)
        # In this form the condition also refuses NaN.
        if not all((np.abs(part) <= _LARGEST).all() for part in found):
            raise InvalidParameterError(f"{parameter} has a coordinate out of range", parameter)
        last = np.concatenate([part[:, -1] for part in found]) if measures else None
        plane = [np.ascontiguousarray(part[:, :2]) for part in found]
        if kind in POLYGONS:
            plane = [closed(part) for part in plane]
        return cls(kind, tuple(plane), last)

    def swapped(self) -> Geometry:
        """Return the geometry with x and y exchanged."""
        parts = tuple(np.ascontiguousarray(part[:, ::-1]) for part in self.parts)
        return Geometry(self.kind, parts, self.measures)


def read_geojson(document: Any, parameter: str = "geometry") -> Geometry:
    """Return the geometry of a parsed GeoJSON geometry or feature.

    Raises:
        InvalidParameterError: it is neither, or its type is not supported.
        TooMuchError: it has too many parts.
    """
    if isinstance(document, dict) and document.get("type") == "Feature":
        document = document.get("geometry")
    kind = document.get("type") if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in _DEPTHS:
        raise InvalidParameterError(f"{parameter} is not a supported GeoJSON geometry", parameter)
    parts: Sequence[Any] = [document.get("coordinates")]
    try:
        if kind == "Point":
            parts = [parts]
        for _ in range(_DEPTHS[kind] - 1):
            parts = [part for nested in parts for part in _list(nested)]
        if len(parts) > MOST_PARTS:
            raise TooMuchError(f"{parameter} has more than {MOST_PARTS} lines or rings")
        arrays = [_points(part) for part in parts]
    except (TypeError, ValueError, OverflowError):
        message = f"{parameter} has coordinates that are not those of a {kind}"
        raise InvalidParameterError(message, parameter) from None
    return Geometry.of(kind, arrays, parameter)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _points(value: Any) -> Floats:
    positions = _list(value)
    # Checked first: an array of texts takes the size of the longest one for each of them.
    if {*map(type, positions)} - {list} or {*map(type, chain(*positions))} - {int, float}:
        raise ValueError("not a list of positions")
    points = np.array(positions, np.float64)
    if points.ndim != 2 or not 2 <= points.shape[1] <= 4:
        raise ValueError("not a list of positions")
    return points
