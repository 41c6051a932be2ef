"""One tile of the mesh, from samples to bytes (elevation.md 5.3, 5.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from mastaba_elevation.queries.ground import Floats
from mastaba_elevation.terrain.mesh.encoding import HIGHEST, Header, encode, numbered
from mastaba_elevation.terrain.mesh.globe import (
    MAJOR,
    SurfacePoints,
    horizon_point,
    metres_per_degree,
    oct_encoded,
    sphere_around,
)
from mastaba_elevation.terrain.mesh.rtin import bend_of, errors, hierarchy, triangulate

_FOR_TRIANGLES: Final = 0.9
"""Part of the error that triangles may take; the rest is for rounding."""
_LEAST: Final = 0.1
_FINEST: Final = 2.0**-10
"""Metres; heights of up to 8 km with this step are exact as float32."""


@dataclass(frozen=True, slots=True)
class Precision:
    """How exact the tiles of one zoom are.

    Attributes:
        error: metres by which a sample may be above or below its triangle.
        step: heights on edges are multiples of it, so both tiles of an edge have the same ones;
            metres, a power of two.
    """

    error: float
    step: float

    @classmethod
    def of(cls, error: float) -> Precision:
        return cls(error, min(1.0, 2.0 ** math.floor(math.log2(error / 8.0))))


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """The samples of a tile and one more on each side.

    Attributes:
        longitude: degrees, shape (n + 2,). It may jump from 180 to -180.
        latitude: degrees from south to north, shape (n + 2,).
        heights: above the ellipsoid, metres, shape (n + 2, n + 2), without holes.
    """

    longitude: Floats
    latitude: Floats
    heights: Floats


def mesh_tile(samples: Samples, precision: Precision, *, with_normals: bool) -> bytes:
    """Return the tile of some samples.

    Two tiles with an edge in common have the same vertices, heights and normals there.

    Args:
        samples: n is 2^k + 1.
        with_normals: whether the tile has the extension ``octvertexnormals``.
    """
    size = len(samples.longitude) - 2
    triangles = hierarchy(size)
    latitude, longitude = samples.latitude[1:-1], samples.longitude[1:-1]
    heights = samples.heights[1:-1, 1:-1].ravel()
    heights[triangles.edge] = _rounded(heights[triangles.edge], precision.step)
    bounds = errors(triangles, heights, _bend(samples))
    lowest, step = _quanta(heights, precision.step)
    # What rounding does not need, but a little where cliffs need all.
    rest = max(precision.error - step / 2, precision.error * _LEAST)
    most = min(rest, precision.error * _FOR_TRIANGLES)
    vertices = numbered(triangulate(triangles, bounds, most), size)

    row, column = np.divmod(vertices.samples, size)
    h = np.floor((heights[vertices.samples] - lowest) / step + 0.5).astype(np.intp)
    grid = np.floor(np.arange(size) * (HIGHEST / (size - 1)) + 0.5).astype(np.intp)
    place = SurfacePoints(longitude[column], latitude[row])
    points = place.positions(np.asarray(lowest + h * step, np.float64))
    centre, radius = sphere_around(points)
    header = Header(centre, radius, lowest, lowest + HIGHEST * step, horizon_point(points, centre))
    normals = None
    if with_normals:
        east, north = _slopes(samples)
        normals = oct_encoded(place.normals(east[row, column], north[row, column]))
    return encode(header, vertices, (grid[column], grid[row], h), normals)


def _rounded(heights: Floats, step: float) -> Floats:
    return np.floor(heights / step + 0.5) * step


def _quanta(heights: Floats, step: float) -> tuple[float, float]:
    """Return the height of code 0 and the step between two codes.

    The step is a power of two, so a height on an edge is the same in both tiles. Only in a tile
    whose relief is more than 32767 steps of edges it is larger, and heights on edges differ by up
    to half of it.
    """
    lowest = math.floor(float(heights.min()) / step) * step
    relief = float(heights.max()) - lowest
    quantum = min(step, _FINEST)
    while quantum * HIGHEST < relief:
        quantum *= 2.0
    return lowest, quantum


def _bend(samples: Samples) -> tuple[float, float]:
    """Return the curvature of the Earth where the tile is widest."""
    latitude = samples.latitude[1:-1]
    widest = np.abs(latitude).min() if latitude[0] * latitude[-1] > 0 else 0.0
    step = latitude[1] - latitude[0]
    cells = len(latitude) - 1
    degree = math.radians(1.0) * MAJOR
    width = step * cells * degree * math.cos(math.radians(widest))
    return bend_of(cells + 1, width, step * cells * degree, MAJOR)


def _slopes(samples: Samples) -> tuple[Floats, Floats]:
    """Return the slopes to the east and to the north, metres per metre, shape (n, n)."""
    heights, latitude = samples.heights, samples.latitude
    east_degree, north_degree = metres_per_degree(latitude[1:-1])
    run = latitude[2:] - latitude[:-2]
    # Steps to the east are as long as those to the north, in degrees.
    step = (latitude[-2] - latitude[1]) / (len(latitude) - 3)
    # At a pole there is no way to the east.
    is_pole = np.abs(latitude[1:-1]) > 90.0 - step / 4
    across = np.where(is_pole, np.inf, 2.0 * step * east_degree)
    east = (heights[1:-1, 2:] - heights[1:-1, :-2]) / across[:, np.newaxis]
    north = (heights[2:, 1:-1] - heights[:-2, 1:-1]) / (run * north_degree)[:, np.newaxis]
    return east, north
