"""Well-known text of geometries, in linear time (elevation.md 2.3)."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from mastaba.errors import InvalidParameterError
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.queries.ground import Floats
from mastaba_elevation.web.geometry import MOST_PARTS, Geometry

_DEPTHS: Final = {
    "POINT": ("Point", 1),
    "MULTIPOINT": ("MultiPoint", 1),
    "LINESTRING": ("LineString", 1),
    "MULTILINESTRING": ("MultiLineString", 2),
    "POLYGON": ("Polygon", 2),
    "MULTIPOLYGON": ("MultiPolygon", 3),
}
_LONGEST_HEAD: Final = 64
_BRACKETS: Final = re.compile(r"([()])")
_BRACKETED: Final = re.compile(r"\(\s*\([^()]*\)(?:\s*,\s*\([^()]*\))*\s*\)\s*")
"""Points of a MULTIPOINT with brackets of their own."""
_MOST_POINTS: Final = 100_000
_DIMENSIONS: Final = {"": (2, 3), "Z": (3,), "M": (3,), "ZM": (4,)}


def read_wkt(text: str, parameter: str = "coords") -> Geometry:  # noqa: C901, PLR0912
    """Return the geometry of a text such as ``LINESTRINGM(6 45 0, 7 46 10)``.

    Raises:
        InvalidParameterError: it is not well-known text of a supported geometry.
        TooMuchError: it has too many points or parts.
    """

    def invalid(reason: str) -> InvalidParameterError:
        return InvalidParameterError(
            f"{parameter} is not valid well-known text: {reason}", parameter
        )

    # Each comma is followed by a point.
    if text.count(",") >= _MOST_POINTS:
        raise TooMuchError(f"{parameter} has more than {_MOST_POINTS} points")
    start = text.find("(")
    words = text[:start].upper().split() if 0 < start <= _LONGEST_HEAD else []
    if len(words) not in (1, 2):
        raise invalid("it begins with no type of geometry and bracket")
    word, suffix = words[0], "".join(words[1:])
    if not suffix and word not in _DEPTHS:
        suffix = next((end for end in ("ZM", "Z", "M") if word.endswith(end)), "")
        word = word[: len(word) - len(suffix)]
    if "_" in text:
        raise invalid("a coordinate is not a number")
    if word not in _DEPTHS or suffix not in _DIMENSIONS:
        raise invalid("the type of geometry is unknown")
    kind, deepest = _DEPTHS[word]
    # Before the text is divided. Each ring may have a polygon of its own; the text has one more.
    too_many = f"{parameter} has more than {MOST_PARTS} lines or rings"
    text = text[start:]
    if kind == "MultiPoint" and text.count("(") > 1:
        if not _BRACKETED.fullmatch(text):
            raise invalid("misplaced or missing bracket")
        # All points are read at once, like those without brackets.
        text = f"({text.replace('(', '').replace(')', '')})"
    if text.count("(") > 2 * MOST_PARTS + 1:
        raise TooMuchError(too_many)
    groups: list[Floats] = []
    depth, before = 0, "("
    for piece in _pieces(text):
        if piece == "(":
            depth += 1
            if before not in ("(", ",") or (depth == 1 and groups):
                raise invalid("misplaced bracket")
            if depth > deepest:
                raise invalid("too many brackets")
        elif piece == ")":
            if depth == 0 or before in ("(", ","):
                raise invalid("empty part or missing bracket")
            depth -= 1
        elif piece == ",":
            if depth == 0 or before != ")":
                raise invalid("empty part or missing bracket")
        else:
            points = _points(piece)
            if points is None or before != "(" or depth < deepest:
                raise invalid("a coordinate is not a number")
            groups.append(points)
            if len(groups) > MOST_PARTS:
                raise TooMuchError(too_many)
        before = piece
    if depth or not groups:
        raise invalid("a bracket is not closed")
    sizes = {points.shape[1] for points in groups}
    if len(sizes) != 1 or sizes.pop() not in _DIMENSIONS[suffix]:
        raise invalid("wrong number of coordinates")
    return Geometry.of(kind, groups, parameter, measures=suffix in ("M", "ZM"))


def _pieces(text: str) -> list[str]:
    """Return brackets, and what is between them."""
    return [piece for piece in map(str.strip, _BRACKETS.split(text)) if piece]


def _points(text: str) -> Floats | None:
    """Return the points of a list, shape (n, size); None if it is not one."""
    sizes = {len(point.split()) for point in text.split(",")}
    if len(sizes) != 1 or sizes == {0}:
        return None
    try:
        values = list(map(float, text.replace(",", " ").split()))
    except ValueError:
        return None
    return np.array(values).reshape(-1, sizes.pop())
