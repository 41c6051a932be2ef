"""Parameters of queries (19-086r6 clause 8.4; elevation.md 2.3)."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mastaba.api.catalogue import CRS, WGS84, BoundingBox
from mastaba.api.web import preferred_media_type, printable
from mastaba.errors import InvalidParameterError, MissingParameterError, NotAcceptableError
from mastaba_elevation.edr.names import (
    COVERAGE,
    DISTANCE,
    ELEVATION,
    MEDIA_TYPES,
    OUTPUT,
    PARAMETERS,
    TRAJECTORY,
    UNITS,
)
from mastaba_elevation.web.wkt import read_wkt
from mastaba_ows.crs import offered_crs
from mastaba_ows.parameters import decimal

if TYPE_CHECKING:
    from mastaba.api.web import Request
    from mastaba_elevation.queries.datasets import Dataset
    from mastaba_elevation.web.geometry import Geometry
    from mastaba_elevation.web.parameters import Parameters

_INSTANT: Final = re.compile(
    r"[0-9]{1,6}(-[0-9]{2}(-[0-9]{2}([Tt ][0-9:]{5,8}(\.[0-9]{1,9})?([Zz]|[+-][0-9:]{2,5})?)?)?)?"
)
_OPEN: Final = ("", "..")
_LONGEST: Final = 200
_WIDEST: Final = 10_000_000.0
"""Metres of a radius or width at most: a quarter of the way around the Earth."""
_ALIASES: Final = {
    "covjson": COVERAGE,
    "application/prs.coverage+json": COVERAGE,
    "application/json": COVERAGE,
    "json": COVERAGE,
}


def geometry_of(parameters: Parameters, kinds: Sequence[str], crs: CRS) -> Geometry:
    """Return the geometry of ``coords``, x before y.

    Raises:
        MissingParameterError, InvalidParameterError: it is missing, or not of these kinds.
    """
    geometry = read_wkt(parameters.text("coords"))
    if geometry.kind not in kinds:
        listed = " or ".join(kind.upper() for kind in kinds)
        raise InvalidParameterError(f"coords is not a {listed}", "coords")
    return geometry.swapped() if crs.northing_first else geometry


def crs_of(parameters: Parameters, dataset: Dataset) -> CRS:
    """Return the CRS of the coordinates of request and answer.

    Raises:
        InvalidParameterError: it is not offered.
    """
    text = parameters.text("crs", "")
    if text.upper() == "CRS84":
        text = ""
    return offered_crs(text, dataset.crs, "crs") if text else WGS84


def names_of(
    parameters: Parameters, query: str, known: Sequence[str] = PARAMETERS
) -> tuple[str, ...]:
    """Return the requested parameters.

    Args:
        known: those of the collection.

    Raises:
        InvalidParameterError: one of them is unknown.
    """
    value: Any = parameters.values.get("parameter-name")
    if value in (None, "", []):
        return (ELEVATION, DISTANCE) if query == TRAJECTORY else (ELEVATION,)
    words = value if isinstance(value, list) else parameters.text("parameter-name").split(",")
    names = [word.strip() if isinstance(word, str) else "" for word in words[: len(known) + 1]]
    for name in names:
        if name not in known:
            message = f"there is no parameter {printable(name)}"
            raise InvalidParameterError(message, "parameter-name")
    return tuple(dict.fromkeys(names))


def format_of(request: Request, parameters: Parameters, query: str) -> str:
    """Return the output format: that of ``f``, otherwise the one that Accept prefers.

    Raises:
        InvalidParameterError: ``f`` is not offered for this query.
        NotAcceptableError: the client accepts none.
    """
    offered = OUTPUT[query]
    text = parameters.text("f", "")
    if text:
        # A plus sign in a query means a blank.
        wanted = text.strip().lower().replace(" ", "+")
        for name in offered:
            if wanted in (name.lower(), MEDIA_TYPES[name]) or _ALIASES.get(wanted) == name:
                return name
        listed = ", ".join(offered)
        raise InvalidParameterError(f"f is {printable(text)}, not one of {listed}", "f")
    types = {MEDIA_TYPES[name]: name for name in offered}
    types |= {alias: name for alias, name in _ALIASES.items() if "/" in alias}
    chosen = preferred_media_type(request, types)
    if chosen is None:
        raise NotAcceptableError(f"the formats are {', '.join(offered)}")
    return types[chosen]


def values_of(parameters: Parameters, dimensions: Container[str]) -> dict[str, str]:
    """Return the values of dimensions that ``datetime`` and ``z`` name, by name."""
    found = {}
    for parameter, name in (("datetime", "time"), ("z", "elevation")):
        text = parameters.text(parameter, "")
        # Test suites send "null/null" and "null".
        if text and name in dimensions and "null" not in text:
            found[name] = "../.." if text == ".." else text
    return found


def check_ignored(parameters: Parameters, used: Container[str] = ()) -> None:
    """Refuse malformed values of parameters that have no effect here.

    Args:
        used: dimensions, whose parameters have an effect.

    Raises:
        InvalidParameterError: ``datetime`` or ``z`` is malformed.
    """
    time = "" if "time" in used else parameters.text("datetime", "")
    # Test suites send "null/null" and "null" to collections without times.
    ends = [part for part in time.split("/") if part != "null"]
    if len(time) > _LONGEST or time.count("/") > 1:
        raise InvalidParameterError("datetime is not an instant or interval", "datetime")
    if time and not all(end in _OPEN or _INSTANT.fullmatch(end) for end in ends):
        raise InvalidParameterError("datetime is not an instant or interval", "datetime")
    height = "" if "elevation" in used else parameters.text("z", "")
    if not height or height == "null":
        return
    body = height[1:] if height[:1] in "Rr" else height
    parts = body.replace(",", "/").split("/")
    if len(parts) > _LONGEST or any(decimal(part) is None for part in parts):
        raise InvalidParameterError("z is not a number, list or interval", "z")


def is_in_time(parameters: Parameters, first: str, last: str) -> bool:
    """Return whether an interval of RFC 3339 meets ``datetime``, which `check_ignored` accepts.

    Times with a lower precision, such as a year, are periods.
    """
    time = parameters.text("datetime", "")
    start, joint, end = time.partition("/")
    if not joint:
        end = start
    start, end = ("" if part in (*_OPEN, "null") else part.upper() for part in (start, end))
    return (not start or last[: len(start)] >= start) and (not end or first[: len(end)] <= end)


def length_of(parameters: Parameters, name: str, unit_name: str) -> float:
    """Return a length on the ground in metres, more than 0.

    Args:
        name, unit_name: parameters of its number and of its unit.

    Raises:
        MissingParameterError, InvalidParameterError: one of them is missing or invalid.
    """
    value = parameters.number(name)
    unit = UNITS.get(parameters.text(unit_name))
    if unit is None:
        raise InvalidParameterError(f"{unit_name} is not one of {', '.join(UNITS)}", unit_name)
    if not 0 < value * unit <= _WIDEST:
        raise InvalidParameterError(f"{name} is not a length on the Earth", name)
    return value * unit


def box_of(parameters: Parameters, crs: CRS) -> BoundingBox:
    """Return the box of ``bbox``, x before y; across the antimeridian it goes beyond 180°.

    Raises:
        MissingParameterError, InvalidParameterError: it is missing or invalid.
    """
    if not parameters.values.get("bbox"):
        raise MissingParameterError("the parameter bbox is missing", "bbox")
    edges = parameters.numbers("bbox", (), 6)
    if len(edges) not in (4, 6):
        raise InvalidParameterError("bbox has neither 4 nor 6 numbers", "bbox")
    half = len(edges) // 2
    low, high = edges[:2], edges[half : half + 2]
    if crs.northing_first:
        low, high = low[::-1], high[::-1]
    if crs.is_geographic and low[0] > high[0]:
        high[0] += 360.0
    if not (np.abs([*low, *high]) <= 1e10).all() or not (low[0] < high[0] and low[1] < high[1]):
        raise InvalidParameterError("bbox is not a box: the lower corner is first", "bbox")
    return BoundingBox(low[0], low[1], high[0], high[1])


def positions_of(parameters: Parameters, name: str, most: int) -> int:
    """Return the number of positions along an axis; 0 for the stored resolution.

    Raises:
        InvalidParameterError: it is not an integer from 0 to ``most``.
    """
    return parameters.integer(name, 0, 0, most)
