"""Areas of queries: polygons, circles, corridors and boxes (elevation.md 2.2, 2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba.api.catalogue import CRS, WGS84, BoundingBox, transform_points
from mastaba.errors import InvalidParameterError
from mastaba_elevation.edr import query as q
from mastaba_elevation.edr.names import AREA, CORRIDOR
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.queries.ground import (
    TURN,
    Floats,
    capsules,
    circle,
    metres_per_unit,
    to_degrees,
)
from mastaba_elevation.queries.polygons import Outline, Ring
from mastaba_elevation.web.geometry import LINES, POLYGONS, Geometry

if TYPE_CHECKING:
    from mastaba_elevation.web.parameters import Parameters

_PIECE: Final = 25_000.0
"""Metres of a line between two places where its corridor is measured."""
_MOST_PIECES: Final = 10_000
_FEW_PIECES: Final = 2_500
_ROUND, _PLAIN = 32, 16
"""Points around a piece of few pieces, and of many."""


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """An area in the CRS of a request.

    Attributes:
        rings: closed. Those across the antimeridian go on beyond ±180°.
        union: whether a place inside of any ring is inside; otherwise even-odd.
    """

    rings: tuple[Ring, ...]
    union: bool = False

    @property
    def box(self) -> BoundingBox:
        points = np.concatenate(self.rings)
        low, high = points.min(axis=0).tolist(), points.max(axis=0).tolist()
        # A line has no area, but the pixels below it have.
        return BoundingBox(low[0], low[1], max(high[0], low[0] + 1e-9), max(high[1], low[1] + 1e-9))


def area_of(parameters: Parameters, crs: CRS, query: str) -> Area:
    """Return the area of a query for an area, a circle or a corridor.

    Raises:
        MissingParameterError, InvalidParameterError: a parameter is missing or invalid.
        TooMuchError: the geometry has too many points.
    """
    if query == CORRIDOR:
        return Area(_corridor(parameters, crs), union=True)
    return Area(polygon_of(parameters, crs, query).parts)


def polygon_of(parameters: Parameters, crs: CRS, query: str) -> Geometry:
    """Return the polygon of a query for an area, or the circle of one for a radius.

    Raises:
        MissingParameterError, InvalidParameterError: a parameter is missing or invalid.
    """
    if query == AREA:
        return q.geometry_of(parameters, POLYGONS, crs)
    centre = q.geometry_of(parameters, ("Point",), crs)
    radius = q.length_of(parameters, "within", "within-units")
    longitude, latitude = _on_earth(crs, centre.x, centre.y)
    ring = circle(float(longitude[0]), float(latitude[0]), radius)
    return Geometry.of("Polygon", [_from_degrees(ring, crs)], "coords")


def _corridor(parameters: Parameters, crs: CRS) -> tuple[Ring, ...]:
    """Return the rings around the pieces of lines; each has round ends.

    Raises:
        TooMuchError: the lines have too many vertices, or are too long.
    """
    geometry = q.geometry_of(parameters, LINES, crs)
    width = q.length_of(parameters, "corridor-width", "width-units")
    lines = Outline.of(geometry.parts)
    if crs.is_geographic:
        lines = lines.unwrapped(TURN)
    _, latitude = _on_earth(crs, *lines.points.T)
    longest = _PIECE / float(metres_per_unit(crs, float(np.abs(latitude).min())))
    ends = lines.edges
    lengths = np.hypot(ends[:, 2] - ends[:, 0], ends[:, 3] - ends[:, 1])
    if len(ends) + lengths.sum() / longest > _MOST_PIECES:
        raise TooMuchError("the lines have too many vertices, or are too long")
    pieces = lines.densified(longest, _MOST_PIECES)
    places = Outline(np.column_stack(_on_earth(crs, *pieces.points.T)), pieces.starts)
    count = _ROUND if len(places.points) <= _FEW_PIECES else _PLAIN
    around = capsules(places.edges, width / 2, count)
    return tuple(_from_degrees(around.reshape(-1, 2), crs).reshape(around.shape))


def _on_earth(crs: CRS, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return longitudes and latitudes.

    Raises:
        InvalidParameterError: a point is not on the Earth.
    """
    longitude, latitude = to_degrees(crs, x, y)
    if not (np.isfinite(longitude).all() and np.abs(latitude).max() <= 90):
        raise InvalidParameterError("coords is not a place on the Earth", "coords")
    return longitude, latitude


def _from_degrees(ring: Ring, crs: CRS) -> Ring:
    if crs.is_geographic:
        return ring
    return np.column_stack(transform_points(WGS84, crs, ring[:, 0], ring[:, 1]))
