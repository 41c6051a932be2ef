"""Positions and directions on the WGS 84 ellipsoid, Earth-centred (elevation.md 5.1)."""

from __future__ import annotations

from typing import Final

import numpy as np

from mastaba_elevation.queries.ground import Floats

MAJOR: Final = 6378137.0
"""Half axis at the equator, metres."""
_FLATTENING: Final = 1.0 / 298.257223563
MINOR: Final = MAJOR * (1.0 - _FLATTENING)
"""Half axis at the poles, metres."""
_ECCENTRICITY: Final = _FLATTENING * (2.0 - _FLATTENING)

_ALWAYS_VISIBLE: Final = 1e6
"""Distance of a horizon point, in radii, from which no horizon hides it."""


class SurfacePoints:
    """Points of n longitudes and latitudes, degrees, shape (n,) each."""

    def __init__(self, longitude: Floats, latitude: Floats) -> None:
        east, north = np.radians(longitude), np.radians(latitude)
        self._sin_east, self._cos_east = np.sin(east), np.cos(east)
        self._sin_north, self._cos_north = np.sin(north), np.cos(north)

    def positions(self, heights: Floats) -> Floats:
        """Return Earth-centred positions, metres, shape (n, 3).

        Args:
            heights: above the ellipsoid, metres, shape (n,).
        """
        radius = MAJOR / np.sqrt(1.0 - _ECCENTRICITY * self._sin_north**2)
        flat = (radius + heights) * self._cos_north
        result = np.empty((len(heights), 3))
        result[:, 0] = flat * self._cos_east
        result[:, 1] = flat * self._sin_east
        result[:, 2] = (radius * (1.0 - _ECCENTRICITY) + heights) * self._sin_north
        return result

    def normals(self, east: Floats, north: Floats) -> Floats:
        """Return unit normals of a surface, shape (n, 3).

        Args:
            east, north: its slopes, metres per metre, shape (n,).
        """
        # -east · E - north · N + U, with the axes of the place.
        length = np.sqrt(1.0 + east * east + north * north)
        outward = self._cos_north + north * self._sin_north
        result = np.empty((len(east), 3))
        result[:, 0] = (east * self._sin_east + outward * self._cos_east) / length
        result[:, 1] = (outward * self._sin_east - east * self._cos_east) / length
        result[:, 2] = (self._sin_north - north * self._cos_north) / length
        return result


def metres_per_degree(latitude: Floats) -> tuple[Floats, Floats]:
    """Return the length of a degree to the east and to the north, metres."""
    sine, cosine = np.sin(np.radians(latitude)), np.cos(np.radians(latitude))
    inner = 1.0 - _ECCENTRICITY * sine**2
    degree = np.pi / 180.0
    east = MAJOR / np.sqrt(inner) * cosine * degree
    return east, MAJOR * (1.0 - _ECCENTRICITY) / inner**1.5 * degree


def sphere_around(points: Floats) -> tuple[Floats, float]:
    """Return the centre, shape (3,), and the radius of a sphere that contains points, metres."""
    centre: Floats = (points.min(axis=0) + points.max(axis=0)) / 2
    return centre, float(np.sqrt(((points - centre) ** 2).sum(axis=1).max()))


def horizon_point(points: Floats, centre: Floats) -> Floats:
    """Return the point whose occlusion by the Earth means that all points are hidden.

    It lies on the ray to ``centre``, as far out as the most visible point needs.

    Args:
        points: Earth-centred, metres, shape (n, 3).
        centre: of the points, shape (3,).

    Returns:
        shape (3,), in the space where the ellipsoid is the unit sphere: each coordinate is
        divided by its half axis.
    """
    axes = np.array([MAJOR, MAJOR, MINOR])
    scaled = points / axes
    towards = centre / axes
    length = float(np.linalg.norm(towards))
    if length == 0.0:
        return np.array([0.0, 0.0, _ALWAYS_VISIBLE])
    towards = towards / length
    distance = np.sqrt((scaled**2).sum(axis=1))
    cos_alpha = scaled @ towards / distance
    sin_alpha = np.sqrt(np.maximum(0.0, 1.0 - cos_alpha**2))
    far = np.maximum(1.0, distance)
    cos_beta = 1.0 / far
    sin_beta = np.sqrt(far**2 - 1.0) * cos_beta
    below = cos_alpha * cos_beta - sin_alpha * sin_beta
    # At a quarter of a turn and beyond, no point of the ray hides with these points.
    if (below <= 1.0 / _ALWAYS_VISIBLE).any():
        return np.asarray(towards * _ALWAYS_VISIBLE, np.float64)
    return np.asarray(towards / below.min(), np.float64)


def oct_encoded(normals: Floats) -> bytes:
    """Return unit vectors as two bytes each, on the faces of an octahedron.

    Args:
        normals: shape (n, 3).
    """
    x, y, z = normals.T
    total = np.abs(x) + np.abs(y) + np.abs(z)
    x, y = x / total, y / total
    folded_x = (1.0 - np.abs(y)) * np.where(x < 0, -1.0, 1.0)
    folded_y = (1.0 - np.abs(x)) * np.where(y < 0, -1.0, 1.0)
    pairs = np.empty((len(normals), 2))
    pairs[:, 0] = np.where(z < 0, folded_x, x)
    pairs[:, 1] = np.where(z < 0, folded_y, y)
    return np.floor((pairs * 0.5 + 0.5) * 255.0 + 0.5).astype(np.uint8).tobytes()
