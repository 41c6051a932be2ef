"""Sizes and distances on the ground: WGS 84 geodesics and the scale of CRSs."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyproj

from mastaba.api.catalogue import CRS, CRS84, WGS84, BoundingBox, transform_points

Floats = npt.NDArray[np.float64]

GEOD: Final = pyproj.Geod(ellps="WGS84")

TURN: Final = 360.0

_EARTH: Final = 1e8
"""CRS units. No place has larger coordinates, in feet either; PROJ gives nonsense for them."""
_MOST_TURNS: Final = 10


@lru_cache(maxsize=256)
def _scale(code: str) -> tuple[bool, float]:
    """Return whether a projected CRS is a Mercator one with its equator true, and its unit."""
    proj = pyproj.CRS.from_user_input("OGC:CRS84" if code == CRS84 else code)
    operation = proj.coordinate_operation
    method = operation.method_name if operation is not None else ""
    cylindrical = "Mercator" in method and "Transverse" not in method and "Oblique" not in method
    return cylindrical, float(proj.axis_info[0].unit_conversion_factor)


def is_mercator(crs: CRS) -> bool:
    """Return whether distances in a CRS are 1 / cos φ too long."""
    return not crs.is_geographic and _scale(crs.code)[0]


def metres_per_unit(crs: CRS, latitude: Floats | float) -> Floats | float:
    """Return the length of a CRS unit along a meridian, in metres.

    Args:
        latitude: degrees.
    """
    if crs.is_geographic:
        return crs.metres_per_unit
    mercator, unit = _scale(crs.code)
    return unit * np.cos(np.radians(latitude)) if mercator else unit


def areas_of_rows(crs: CRS, x: float, y: Floats, side: float) -> Floats:
    """Return the area on the ground of a cell in each row of a grid, m² (elevation.md 1.6).

    On the ellipsoid, if the rows are parallel to the equator; otherwise in the plane of the CRS.

    Args:
        x: left side of a cell, CRS units.
        y: upper sides of the rows and lower side of the last one, shape (n + 1,).
        side: of a cell, CRS units.

    Returns:
        shape (n,).
    """
    if not (crs.is_geographic or is_mercator(crs)):
        return np.full(len(y) - 1, (side * float(metres_per_unit(crs, 0.0))) ** 2)
    longitude, _ = to_degrees(crs, np.array([x, x + side]), np.full(2, y[len(y) // 2]))
    across = math.radians(float(np.mod(longitude[1] - longitude[0], TURN)))
    _, latitude = to_degrees(crs, np.full(len(y), x), y)
    known = np.where(np.isfinite(latitude), np.clip(latitude, -90.0, 90.0), 0.0)
    return np.abs(np.diff(_area_to_equator(np.sin(np.radians(known))))) * across


def _area_to_equator(sine: Floats) -> Floats:
    """Return the area between the equator and a latitude, m² per radian of longitude."""
    e = math.sqrt(GEOD.es)
    authalic = sine / (1 - GEOD.es * sine**2) + np.arctanh(e * sine) / e
    return np.asarray(GEOD.b**2 / 2 * authalic)


def normalized(longitude: Floats) -> Floats:
    """Return longitudes in [-180, 180); both edges of the world give the same one."""
    inside = (longitude >= -TURN / 2) & (longitude < TURN / 2)
    if inside.all():
        return longitude
    # The others keep every bit.
    return np.where(inside, longitude, np.mod(longitude + TURN / 2, TURN) - TURN / 2)


def is_within(
    box: BoundingBox, margin: float, longitude: Floats, latitude: Floats
) -> npt.NDArray[np.bool_]:
    """Return which points are in a geographic box, or within a margin of it, degrees."""
    with np.errstate(invalid="ignore"):
        longitude = normalized(longitude)
    # PROJ returns finite nonsense far outside the area of use.
    inside = (latitude >= box.ymin - margin) & (latitude <= box.ymax + margin)
    across = (longitude >= box.xmin - margin) & (longitude <= box.xmax + margin)
    # The antimeridian is an edge of boxes, but not of the ground.
    across |= longitude + TURN <= box.xmax + margin
    across |= longitude - TURN >= box.xmin - margin
    inside &= across
    return inside


def on_earth(crs: CRS, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return points with longitudes in [-180, 180), and NaN for those that are no place."""
    across, up = (_MOST_TURNS * TURN, TURN / 4) if crs.is_geographic else (_EARTH, _EARTH)
    # In this form the condition also finds NaN.
    nowhere = ~((np.abs(x) <= across) & (np.abs(y) <= up))
    if nowhere.any():
        x, y = np.where(nowhere, np.nan, x), np.where(nowhere, np.nan, y)
    return (normalized(x) if crs.is_geographic else x), y


def to_degrees(crs: CRS, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return longitudes and latitudes; not finite where a point has none."""
    if crs.is_geographic and crs.code in (CRS84, "EPSG:4326"):
        return x, y
    return transform_points(crs, WGS84, x, y)


def is_geodesic(crs: CRS) -> bool:
    """Return whether distances in a CRS are measured on the ellipsoid by default."""
    return crs.is_geographic or is_mercator(crs)


def steps(crs: CRS, x: Floats, y: Floats, *, geodesic: bool) -> Floats:
    """Return the distances between successive points, shape (n - 1,).

    Args:
        geodesic: metres on the ellipsoid; otherwise in the plane, CRS units.

    Returns:
        0 where a point has no position on the ellipsoid.
    """
    if len(x) < 2:
        return np.zeros(0)
    if not geodesic:
        return np.hypot(np.diff(x), np.diff(y))
    longitude, latitude = to_degrees(crs, x, y)
    return np.nan_to_num(geodesics(longitude, latitude)[1], nan=0.0, posinf=0.0)


# Both functions pass lists: with some versions of NumPy, pyproj turns arrays of one element into
# numbers.


def geodesics(longitude: Floats, latitude: Floats) -> tuple[Floats, Floats]:
    """Return azimuths in degrees and lengths in metres between successive points.

    Returns:
        shape (n - 1,) each.
    """
    ends = longitude[:-1], latitude[:-1], longitude[1:], latitude[1:]
    azimuths, _, lengths = GEOD.inv(*(values.tolist() for values in ends))
    return np.asarray(azimuths, np.float64), np.asarray(lengths, np.float64)


def destinations(
    longitude: Floats, latitude: Floats, azimuth: Floats, length: Floats
) -> tuple[Floats, Floats]:
    """Return the places at an azimuth in degrees and a distance in metres, shape (n,) each."""
    given = longitude, latitude, azimuth, length
    x, y, _ = GEOD.fwd(*(values.tolist() for values in given))
    return np.asarray(x, np.float64), np.asarray(y, np.float64)


def circle(longitude: float, latitude: float, radius: float, count: int = 64) -> Floats:
    """Return a closed ring around a point, shape (count + 1, 2), degrees."""
    azimuths = np.linspace(0.0, TURN, count, endpoint=False)
    x, y = destinations(
        np.full(count, longitude), np.full(count, latitude), azimuths, np.full(count, radius)
    )
    # Across the antimeridian the ring goes on instead of jumping to the other side.
    ring = np.column_stack([np.unwrap(x, period=TURN), y])
    return np.concatenate([ring, ring[:1]])


def capsules(lines: Floats, radius: float, count: int) -> Floats:
    """Return a closed ring around each line: all places within a radius of it.

    The rings have the same direction. Longitudes may be beyond ±180°.

    Args:
        lines: longitude and latitude of their beginnings, then of their ends, shape (n, 4).
        radius: metres.
        count: points of a ring, even.

    Returns:
        shape (n, count + 1, 2), degrees.
    """
    azimuth, back, _ = GEOD.inv(*(values.tolist() for values in lines.T))
    half = np.linspace(90.0, 270.0, count // 2)
    # Behind the beginning, then, in the same direction, beyond the end.
    azimuths = np.hstack([np.asarray(side)[:, np.newaxis] + half for side in (azimuth, back)])
    centre, latitude = (np.repeat(lines[:, [n, n + 2]], count // 2, axis=1).ravel() for n in (0, 1))
    x, y = destinations(centre, latitude, azimuths.ravel(), np.full(azimuths.size, radius))
    # A ring goes on across the antimeridian instead of jumping to the other side.
    x += np.round((centre - x) / TURN) * TURN
    rings = np.stack([x.reshape(azimuths.shape), y.reshape(azimuths.shape)], axis=2)
    return np.concatenate([rings, rings[:, :1]], axis=1)
