"""Parameters and bodies of requests; limits are checked before any work."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mastaba.api.catalogue import CRS, WGS84, BoundingBox
from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError, MissingParameterError
from mastaba_ows.crs import crs_code
from mastaba_ows.parameters import decimal, integer
from mastaba_provenance.dates import Span, requested
from mastaba_provenance.numbers import MOST_POINTS, Floats

if TYPE_CHECKING:
    from mastaba.api.web import Request

MOST_ROWS: Final = 10_000
_ROWS: Final = 1000
_FAR: Final = 1e10


def point(request: Request) -> tuple[Floats, Floats]:
    """Return the point of ``lon`` and ``lat``, degrees.

    Raises:
        MissingParameterError, InvalidParameterError: it is absent or out of range.
    """
    found = []
    for name, most in (("lon", 540.0), ("lat", 90.0)):
        text = request.query.get(name)
        if not text:
            raise MissingParameterError(f"the parameter {name} is missing", name)
        found.append(np.array([_number(text, name, most)]))
    return found[0], found[1]


def points(request: Request, offered: frozenset[str]) -> tuple[Floats, Floats, CRS]:
    """Return the points of a body: GeoJSON, in CRS84 or in the member ``crs``.

    Args:
        offered: codes of the CRSs that ``crs`` may name.

    Returns:
        x, y, and their CRS; in the order of the body.

    Raises:
        InvalidParameterError: it is not GeoJSON of points, or has more than 5000.
        RequestTooLargeError: it has more than 1 MiB.
    """
    try:
        document = json.loads(request.body())
    except (ValueError, RecursionError):
        raise _invalid("is not JSON") from None
    if not isinstance(document, dict):
        raise _invalid("is not GeoJSON")
    code = document.get("crs")
    crs = WGS84
    if code is not None:
        named = crs_code(code) if isinstance(code, str) else None
        if named not in offered:
            raise InvalidParameterError(f"there is no CRS {printable(str(code)[:100])}", "crs")
        crs = CRS.from_code(named or "")
    positions = _positions(document)
    if not positions:
        raise _invalid("has no points")
    if len(positions) > MOST_POINTS:
        raise _invalid(f"has more than {MOST_POINTS} points")
    rows = [_position(one) for one in positions]
    array = np.array(rows, float)
    if not (np.abs(array) <= _FAR).all() or (crs is WGS84 and (np.abs(array[:, 1]) > 90).any()):
        raise _invalid("has a coordinate out of range")
    return array[:, 0], array[:, 1], crs


def bbox(request: Request) -> tuple[BoundingBox, ...] | None:
    """Return ``bbox`` in degrees, longitude first; two boxes across the antimeridian.

    Raises:
        InvalidParameterError: it is not a box.
    """
    text = request.query.get("bbox")
    if text is None:
        return None
    parts = text.split(",", 4)
    if len(parts) != 4:
        raise InvalidParameterError("bbox is not west,south,east,north", "bbox")
    west, south, east, north = (_number(one, "bbox", 360.0) for one in parts)
    if not -90 <= south < north <= 90 or west == east or max(abs(west), abs(east)) > 180:
        raise InvalidParameterError("bbox is not a box in degrees", "bbox")
    if west < east:
        return (BoundingBox(west, south, east, north),)
    halves = (west, 180.0), (-180.0, east)
    return tuple(BoundingBox(one, south, two, north) for one, two in halves if one < two)


def instants(request: Request) -> Span | None:
    """Return ``datetime``.

    Raises:
        InvalidParameterError: it is malformed.
    """
    text = request.query.get("datetime")
    if text is None:
        return None
    try:
        return requested(text)
    except (ValueError, OverflowError):
        raise InvalidParameterError("datetime is not a date or an interval", "datetime") from None


def limit(request: Request) -> int:
    """Return ``limit``: 1 to 10,000, 1000 by default.

    Raises:
        InvalidParameterError: it is anything else.
    """
    text = request.query.get("limit")
    return _ROWS if text is None else integer(text, "limit", 1, MOST_ROWS)


def check_size(request: Request) -> None:
    """Check ``zoom``, ``width`` and ``height``, which clients send with a view.

    Raises:
        InvalidParameterError: one of them is not a number.
    """
    for name in ("zoom", "width", "height"):
        text = request.query.get(name)
        if text is not None and _number(text, name, 100_000.0) < 0:
            raise InvalidParameterError(f"{name} is negative", name)


def _positions(document: Mapping[str, Any]) -> Sequence[Any]:
    kind = document.get("type")
    if kind == "FeatureCollection":
        features = document.get("features")
        if not isinstance(features, list) or len(features) > MOST_POINTS:
            raise _invalid(f"is not a FeatureCollection of at most {MOST_POINTS} points")
        found: list[Any] = []
        for feature in features:
            geometry = feature.get("geometry") if isinstance(feature, dict) else None
            if not isinstance(geometry, dict) or geometry.get("type") not in (
                "Point",
                "MultiPoint",
            ):
                raise _invalid("has a feature that is not a point")
            found += _positions(geometry)
            if len(found) > MOST_POINTS:
                break
        return found
    coordinates = document.get("coordinates")
    if kind == "Point":
        return [coordinates]
    if kind == "MultiPoint" and isinstance(coordinates, list):
        return coordinates
    raise _invalid("is not a Point, a MultiPoint or a FeatureCollection of points")


def _position(value: Any) -> tuple[float, float]:
    is_position = isinstance(value, list) and 2 <= len(value) <= 4
    if not is_position or any(type(one) not in (int, float) for one in value[:2]):
        raise _invalid("has a position that is not a pair of numbers")
    try:
        return float(value[0]), float(value[1])
    except OverflowError:
        raise _invalid("has a coordinate out of range") from None


def _number(text: str, name: str, most: float) -> float:
    number = decimal(text)
    if number is None or abs(number) > most:
        raise InvalidParameterError(f"{name} must be a number from {-most:g} to {most:g}", name)
    return number


def _invalid(reason: str) -> InvalidParameterError:
    return InvalidParameterError(f"the body {reason}", "body")
