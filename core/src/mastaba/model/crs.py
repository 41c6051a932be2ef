"""Coordinate reference systems by code, based on PROJ (tilematrixset.md section 4)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

import pyproj
from pyproj.database import get_authorities, get_codes
from pyproj.enums import PJType
from pyproj.exceptions import CRSError as ProjCRSError
from pyproj.exceptions import ProjError

from mastaba.model.bbox import WORLD, BoundingBox

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

CRS84: Final = "CRS:84"
"""Code of longitude and latitude on WGS 84."""

_CODE = re.compile(r"[A-Za-z]{1,16}:[A-Za-z0-9_.]{1,64}")
# Codes of the same coordinates with different axis order.
_TWINS: Final = {CRS84: "EPSG:4326", "EPSG:4326": CRS84}
_METRES_PER_DEGREE: Final = 6378137.0 * math.pi / 180.0
_POINTS_PER_EDGE: Final = 256
_STEP: Final = 1.0 / (_POINTS_PER_EDGE - 1)
_STEPS: Final = (*(index * _STEP for index in range(_POINTS_PER_EDGE - 1)), 1.0)
# Other kinds cannot be used for maps: vertical and geocentric CRSs.
_MAP_KINDS: Final = (
    PJType.GEOGRAPHIC_2D_CRS,
    PJType.GEOGRAPHIC_3D_CRS,
    PJType.PROJECTED_CRS,
    PJType.COMPOUND_CRS,
)
# Rounding errors of PROJ in degrees. A box that reaches the edge of the world must still do so
# after a transformation, and an edge on the equator is 0, not 4.35e-13.
_DEGREE_NOISE: Final = 1e-9
# Of longitudes: 4 cm on the equator. Clients round the edges of Mercator.
_ROUNDING: Final = 3.6e-7
# Degrees. From here on, the longitude of a point means nothing.
_POLE: Final = 90.0 - 1e-9
# CRS units. A pole is on the border of a box if it is no further from it.
_ON_BORDER: Final = 1e-6


class UnknownCRSError(ValueError):
    """The text is not a code of the form ``AUTHORITY:CODE``, or PROJ does not know it."""


@dataclass(frozen=True, slots=True)
class CRS:
    """One coordinate reference system.

    Attributes:
        code: ``AUTHORITY:CODE``, authority in upper case, for example ``EPSG:3857``.
        is_geographic: whether the axes are degrees of longitude and latitude.
        northing_first: whether documents and requests that follow the CRS definition write y
            before x. Only EPSG codes can; ``CRS:84`` and IGNF are always x, y.
        metres_per_unit: of the CRS axes, for scale denominators: as in existing servers, degrees
            on the equator of WGS 84 for geographic CRSs and 1 for all others.
        area_of_use: degrees; the whole world if PROJ has none. An area across the antimeridian
            spans the whole Earth here.
        areas_of_use: the same as one box, or as two on both sides of the antimeridian.
    """

    code: str
    is_geographic: bool
    northing_first: bool
    metres_per_unit: float
    area_of_use: BoundingBox
    areas_of_use: tuple[BoundingBox, ...] = field(repr=False, compare=False)

    @property
    def urn(self) -> str:
        """The identifier in the documents of OWS (OGC 06-121r3 table 22)."""
        authority, _, code = self.code.partition(":")
        if self.code == CRS84:
            return "urn:ogc:def:crs:OGC:1.3:CRS84"
        return f"urn:ogc:def:crs:{authority}::{code}"

    @classmethod
    def from_code(cls, code: str) -> CRS:
        """Return the CRS of a code; the same code gives the same object.

        Raises:
            UnknownCRSError: the code is invalid or unknown to PROJ. It is not cached.
        """
        if not _CODE.fullmatch(code):
            raise UnknownCRSError(f"{code[:80]!r} is not a CRS code of the form AUTHORITY:CODE")
        return _load(code.upper())

    def transform_bbox(self, bbox: BoundingBox, target: CRS) -> BoundingBox:
        """Return the box around ``bbox`` in another CRS, computed from 256 points on each edge.

        Raises:
            ValueError: the box cannot be transformed completely to the target CRS.
        """
        if self == target:
            return bbox
        tx, ty = _positions(self, target, *_ring(bbox))
        if not all(map(math.isfinite, (*tx, *ty))):
            raise ValueError(f"the box cannot be transformed to {target.code}")
        return BoundingBox(min(tx), min(ty), max(tx), max(ty))


def is_known_crs(code: str) -> bool:
    """Return whether PROJ lists a code, without loading its definition."""
    authority, _, number = code.upper().partition(":")
    is_code = _CODE.fullmatch(code) is not None
    return is_code and (code.upper() == CRS84 or number in _codes(authority))


@lru_cache(maxsize=8)
def _codes(authority: str) -> frozenset[str]:
    if authority not in get_authorities():
        return frozenset()
    return frozenset(
        code for kind in _MAP_KINDS for code in get_codes(authority, kind, allow_deprecated=True)
    )


# Many layers have the same extent, and transformations are slow.
@lru_cache(maxsize=1024)
def geographic_bbox(bbox: BoundingBox, crs: CRS) -> BoundingBox:
    """Return the WGS 84 longitude/latitude box around ``bbox``, clipped to ±180 and ±90 degrees.

    Raises:
        ValueError: the box cannot be transformed to WGS 84, or lies outside the globe.
    """
    box = _with_poles(crs.transform_bbox(bbox, WGS84), bbox, crs)
    low = (_snap(box.xmin, -180.0), _snap(box.ymin, -90.0))
    cut = BoundingBox(*low, _snap(box.xmax, 180.0), _snap(box.ymax, 90.0)).intersection(WORLD)
    if cut is None:
        raise ValueError("the box lies outside the globe")
    return cut


def _with_poles(geographic: BoundingBox, bbox: BoundingBox, crs: CRS) -> BoundingBox:
    """Return a geographic box extended to the poles in ``bbox``, which its edges miss."""
    poles = poles_in(bbox, crs)
    if poles and not any(poles.values()):
        # PROJ gives a pole on the border the central meridian, perhaps far from the box.
        geographic = bbox_in_degrees(bbox, crs) or geographic
        if geographic.xmax > 180.0:
            geographic = BoundingBox(-180.0, geographic.ymin, 180.0, geographic.ymax)
    for latitude, is_inside in poles.items():
        west, east = (-180.0, 180.0) if is_inside else (geographic.xmin, geographic.xmax)
        geographic = geographic.union(BoundingBox(west, latitude, east, latitude))
    return geographic


def bbox_in_degrees(bbox: BoundingBox, crs: CRS) -> BoundingBox | None:
    """Return the box of longitudes and latitudes around a box without a pole inside.

    Its east is beyond 180 degrees if the antimeridian divides the box. None if that has no place at
    a point of its edges, or if all these are so near to a pole that they have no longitude.
    """
    longitudes, latitudes = _positions(crs, WGS84, *_ring(bbox))
    if not all(map(math.isfinite, (*longitudes, *latitudes))):
        return None
    points = zip(longitudes, latitudes, strict=True)
    # A side of degrees along a pole leads from one longitude to another.
    ring = [x for x, y in points if abs(y) < _POLE or crs.is_geographic]
    if not ring:
        return None
    steps = [abs(math.remainder(x - before, 360.0)) for before, x in pairwise([ring[-1], *ring])]
    # The ring begins after its largest step: the one through a pole goes either way.
    start = steps.index(max(steps))
    around = list(accumulate(ring[start:] + ring[:start], _unwrapped))
    west, east = _on_antimeridian(min(around)), _on_antimeridian(max(around))
    shift = 360.0 * math.floor((west + 180.0) / 360.0)
    is_turn = east > west + 360.0 - _ROUNDING
    west, east = (-180.0, 180.0) if is_turn else (west - shift, east - shift)
    latitudes = [*poles_in(bbox, crs), *latitudes]
    return BoundingBox(west, min(latitudes), east, max(latitudes))


def _unwrapped(before: float, longitude: float) -> float:
    """Return a longitude, which may be beyond the antimeridian, as the next one of a ring."""
    return longitude + 360.0 * round((before - longitude) / 360.0)


def _on_antimeridian(longitude: float) -> float:
    """Return a longitude; the antimeridian if the difference is a rounding error."""
    antimeridian = 360.0 * round(longitude / 360.0 - 0.5) + 180.0
    return antimeridian if abs(longitude - antimeridian) <= _ROUNDING else longitude


def _ring(bbox: BoundingBox) -> tuple[list[float], list[float]]:
    """Return x and y of points around a box, counterclockwise from its lower left corner."""
    across = [bbox.xmin + step * (bbox.xmax - bbox.xmin) for step in _STEPS]
    up = [bbox.ymin + step * (bbox.ymax - bbox.ymin) for step in _STEPS]
    left, right = [bbox.xmin] * _POINTS_PER_EDGE, [bbox.xmax] * _POINTS_PER_EDGE
    lower, upper = [bbox.ymin] * _POINTS_PER_EDGE, [bbox.ymax] * _POINTS_PER_EDGE
    return [*across, *right, *across[::-1], *left], [*lower, *up, *upper, *up[::-1]]


def poles_in(bbox: BoundingBox, crs: CRS) -> dict[float, bool]:
    """Return the latitudes of the poles in a box, and whether they are inside, not on its border.

    Only poles that are points of the CRS are found, as in stereographic projections.
    """
    found = {}
    for latitude, x, y in () if crs.is_geographic else _poles(crs):
        depth = min(x - bbox.xmin, bbox.xmax - x, y - bbox.ymin, bbox.ymax - y)
        if depth >= -_ON_BORDER:
            found[latitude] = depth > _ON_BORDER
    return found


@lru_cache(maxsize=64)
def _poles(crs: CRS) -> list[tuple[float, float, float]]:
    """Return latitude and position of the poles that are points."""
    found = []
    for latitude in (-90.0, 90.0):
        # If a pole is not a point, as in Mercator, each longitude has its own position there.
        x, y = _positions(WGS84, crs, [0.0, 120.0, 240.0], [latitude] * 3)
        is_point = all(map(math.isfinite, (*x, *y))) and all(
            max(values) - min(values) < 1.0 for values in (x, y)
        )
        if is_point:
            found.append((latitude, x[0], y[0]))
    return found


def _snap(value: float, limit: float) -> float:
    return next((edge for edge in (limit, 0.0) if abs(value - edge) < _DEGREE_NOISE), value)


def transform_points(source: CRS, target: CRS, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Transform points to another CRS, x before y on both sides.

    Args:
        source: CRS of the points.
        target: CRS of the result.
        x: float64, any shape; not modified.
        y: like x.

    Returns:
        Arrays of the same shape; not finite where a point cannot be transformed.
    """
    # Imported here: the process that opens a configuration and draws nothing needs no arrays.
    import numpy as np

    # With some versions of NumPy, pyproj turns arrays of one element into numbers itself.
    points = (x.item(), y.item()) if x.size == 1 else (x, y)
    try:
        tx, ty = _transformer(source.code, target.code).transform(*points)
    except ProjError:
        nowhere = np.full_like(x, np.nan)
        return nowhere, nowhere
    return np.reshape(tx, x.shape), np.reshape(ty, x.shape)


def _positions(
    source: CRS, target: CRS, x: list[float], y: list[float]
) -> tuple[list[float], list[float]]:
    """Return points in another CRS, as `transform_points` does."""
    try:
        tx, ty = _transformer(source.code, target.code).transform(x, y)
    except ProjError:
        return [math.nan] * len(x), [math.nan] * len(x)
    return tx, ty


# pyproj creates one object of PROJ for each thread. With the grids of its datum shifts, it may take
# a megabyte.
@lru_cache(maxsize=32)
def _transformer(source: str, target: str) -> pyproj.Transformer:
    return pyproj.Transformer.from_crs(_proj_name(source), _proj_name(target), always_xy=True)


def _proj_name(code: str) -> str:
    return "OGC:CRS84" if code == CRS84 else code


@lru_cache(maxsize=1024)
def _load(code: str) -> CRS:
    # lru_cache does not cache exceptions, so unknown codes use no memory.
    try:
        proj = pyproj.CRS.from_user_input(_proj_name(code))
    except ProjCRSError:
        raise UnknownCRSError(f"the CRS {code} is unknown") from None
    if not (proj.is_geographic or proj.is_projected):
        raise UnknownCRSError(f"the CRS {code} cannot be used for maps")
    area = proj.area_of_use
    areas = _areas(area.west, area.south, area.east, area.north) if area else (WORLD,)
    return CRS(
        code=code,
        is_geographic=proj.is_geographic,
        northing_first=code.startswith("EPSG:") and _northing_first(proj),
        metres_per_unit=_METRES_PER_DEGREE if proj.is_geographic else 1.0,
        area_of_use=reduce(BoundingBox.union, areas),
        areas_of_use=areas,
    )


def _northing_first(proj: pyproj.CRS) -> bool:
    directions = [axis.direction.lower() for axis in proj.axis_info[:2]]
    if directions[0] in ("north", "south") and directions[1] in ("east", "west"):
        return True
    # Polar CRSs call both axes "north" or "south"; the abbreviations distinguish them.
    abbreviations = [axis.abbrev.upper() for axis in proj.axis_info[:2]]
    return directions[0] == directions[1] and abbreviations[:1] in (["N"], ["Y"])


def _areas(west: float, south: float, east: float, north: float) -> tuple[BoundingBox, ...]:
    if west <= east:
        return (BoundingBox(west, south, east, north),)
    return BoundingBox(west, south, 180.0, north), BoundingBox(-180.0, south, east, north)


class Equivalences:
    """CRS codes that denote the same coordinates (services-config.md section 4).

    Two codes are equivalent if they differ only in letter case, if one is listed under the other,
    or if they differ only in axis order (``CRS:84`` and ``EPSG:4326``). Equivalence is not
    transitive.
    """

    def __init__(self, equivalents: Mapping[str, Iterable[str]] | None = None) -> None:
        self._equal: dict[str, set[str]] = {}
        for code, others in (equivalents or {}).items():
            one = code.upper()
            for other in map(str.upper, others):
                self._equal.setdefault(one, set()).add(other)
                self._equal.setdefault(other, set()).add(one)

    def __repr__(self) -> str:
        return f"Equivalences({sorted((one, sorted(all)) for one, all in self._equal.items())})"

    def equal(self, one: str, other: str) -> bool:
        """Return whether two codes denote the same coordinates in x, y order."""
        one, other = one.upper(), other.upper()
        return one == other or other in self._equal.get(one, ()) or _TWINS.get(one) == other

    def declared(self, code: str) -> list[str]:
        """Return the other codes declared equivalent to ``code``, sorted."""
        code = code.upper()
        return sorted(self._equal.get(code, set()) - {code})

    def equivalents(self, code: str) -> list[str]:
        """Return all other codes equivalent to ``code``, the one with other axis order first."""
        code = code.upper()
        twin = [_TWINS[code]] if code in _TWINS else []
        return list(dict.fromkeys((*twin, *self.declared(code))))


WGS84: Final = CRS.from_code(CRS84)
"""Longitude and latitude, in this order, in degrees."""
