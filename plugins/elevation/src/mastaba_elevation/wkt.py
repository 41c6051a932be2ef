"""Well-known text of geometries, in linear time (elevation.md 2.3)."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mastaba.errors import InvalidParameterError
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.geometry import Geometry

_DEPTHS: Final = {
    "POINT": ("Point", 1),
    "MULTIPOINT": ("MultiPoint", 1),
    "LINESTRING": ("LineString", 1),
    "MULTILINESTRING": ("MultiLineString", 2),
    "POLYGON": ("Polygon", 2),
    "MULTIPOLYGON": ("MultiPolygon", 3),
}
_LONGEST_HEAD: Final = 64
_MOST_POINTS: Final = 100_000
_DIMENSIONS: Final = {"": (2, 3), "Z": (3,), "M": (3,), "ZM": (4,)}


def read_wkt(text: str, parameter: str = "coords") -> Geometry:
    """Return the geometry of a text such as ``LINESTRINGM(6 45 0, 7 46 10)``.

    Raises:
        InvalidParameterError: it is not well-known text of a supported geometry.
        TooMuchError: it has too many points.
    """

    def invalid(reason: str) -> InvalidParameterError:
        return InvalidParameterError(
            f"{parameter} is not valid well-known text: {reason}", parameter
        )

    if text.count(",") > _MOST_POINTS:
        raise TooMuchError(f"{parameter} has more than {_MOST_POINTS} points")
    start = text.find("(")
    words = text[:start].upper().split() if 0 < start <= _LONGEST_HEAD else []
    if len(words) not in (1, 2):
        raise invalid("it begins with no type of geometry and bracket")
    word, suffix = words[0], "".join(words[1:])
    if not suffix and word not in _DEPTHS:
        suffix = next((end for end in ("ZM", "Z", "M") if word.endswith(end)), "")
        word = word[: len(word) - len(suffix)]
    if word not in _DEPTHS or suffix not in _DIMENSIONS:
        raise invalid("the type of geometry is unknown")
    kind, deepest = _DEPTHS[word]
    parts: list[list[list[float]]] = []
    numbers: list[float] = []
    depth, before = 0, "("
    for piece in _pieces(text[start:]):
        if piece == "(":
            if before not in ("(", ",") or (depth == 0 and parts):
                raise invalid("misplaced bracket")
            depth += 1
            if depth > deepest + (kind == "MultiPoint"):
                raise invalid("too many brackets")
            if depth == deepest:
                parts.append([])
        elif piece in (")", ","):
            if depth == 0 or before in ("(", ",") or (depth < deepest and before not in (")",)):
                raise invalid("empty part or missing bracket")
            if before != ")":
                parts[-1].append(numbers)
                numbers = []
            depth -= piece == ")"
        else:
            value = _number(piece)
            if value is None or before == ")" or depth < deepest:
                raise invalid("a coordinate is not a number")
            numbers.append(value)
        before = piece
    if depth or not parts:
        raise invalid("a bracket is not closed")
    sizes = {len(point) for part in parts for point in part}
    if len(sizes) != 1 or sizes.pop() not in _DIMENSIONS[suffix]:
        raise invalid("wrong number of coordinates")
    arrays = [np.array(part, np.float64) for part in parts]
    return Geometry.of(kind, arrays, parameter, measures=suffix in ("M", "ZM"))


def _pieces(text: str) -> list[str]:
    """Return brackets, commas and what is between them."""
    for mark in "(),":
        text = text.replace(mark, f" {mark} ")
    return text.split()


def _number(piece: str) -> float | None:
    try:
        value = float(piece)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in piece else None
