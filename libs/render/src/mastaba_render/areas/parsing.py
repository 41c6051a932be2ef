"""Polygons from GeoJSON (RFC 7946) and well-known text (OGC 06-103r4 clause 7)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Ring = npt.NDArray[np.float64]
"""Shape (n, 2), x and y; closed: the last point equals the first."""
Polygon = tuple[Ring, ...]
"""Outer ring and holes; what is inside follows from the even-odd rule."""

MOST_VERTICES: Final = 100_000
"""Of all polygons of an area."""
_MOST_NESTED: Final = 8
"""Collections inside each other."""
_LONGEST: Final = 64 * MOST_VERTICES
"""Characters of a text."""
_LARGEST: Final = 1e12
"""Units of a CRS. In a comparison, integers of any length are no error."""
_TOKEN: Final = re.compile(r"\s*(?:([A-Za-z]+)|([-+]?[0-9.][-+0-9.eE]*)|([(),]))")


def polygons_of(
    document: Any, most: int = MOST_VERTICES, *, is_strict: bool = True
) -> tuple[Polygon, ...]:
    """Return the polygons of a GeoJSON object.

    Args:
        most: vertices of all polygons.
        is_strict: whether a member ``crs`` and rings that are not closed are refused. Otherwise the
            member is ignored, and the rings are closed.

    Raises:
        ValueError: it is not a valid geometry, feature or collection of polygons, or has too many
            vertices.
    """
    return _checked(list(_geometries(document, 0, is_strict)), most, is_strict)


def polygons_of_text(text: str) -> tuple[Polygon, ...]:
    """Return the polygons of a well-known text, POLYGON or MULTIPOLYGON; z and m are ignored.

    Raises:
        ValueError: it is something else, is invalid, or has too many vertices.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"the text is longer than {_LONGEST} characters")
    words = list(_tokens(text))
    kind = "".join(word for word in _leading(words) if word not in ("Z", "M", "ZM"))
    rest = words[len(_leading(words)) :]
    parsed, end = _parsed(rest, 0, 0)
    if kind not in ("POLYGON", "MULTIPOLYGON") or end != len(rest):
        raise ValueError("the text is not one POLYGON or MULTIPOLYGON")
    return _checked(parsed if kind == "MULTIPOLYGON" else [parsed], MOST_VERTICES, True)


def _geometries(value: Any, depth: int, is_strict: bool) -> Iterator[Any]:
    """Yield the coordinates of polygons."""
    if not isinstance(value, Mapping) or depth > _MOST_NESTED:
        raise ValueError("it is not a GeoJSON object")
    if is_strict and "crs" in value:
        raise ValueError("GeoJSON has no crs (RFC 7946 section 4); write the area as wkt and crs")
    match value.get("type"), value:
        case "Polygon", {"coordinates": coordinates}:
            yield coordinates
        case "MultiPolygon", {"coordinates": list(coordinates)}:
            yield from coordinates
        case "Feature", {"geometry": geometry}:
            yield from _geometries(geometry, depth + 1, is_strict)
        case ("FeatureCollection", {"features": list(members)}) | (
            "GeometryCollection",
            {"geometries": list(members)},
        ):
            for member in members:
                yield from _geometries(member, depth + 1, is_strict)
        case kind, _:
            raise ValueError(f"an area consists of polygons; {str(kind)[:40]!r} is not one")


def _checked(polygons: Sequence[Any], most: int, is_strict: bool) -> tuple[Polygon, ...]:
    count = 0
    found: list[Polygon] = []
    for polygon in polygons:
        if not isinstance(polygon, list) or not all(isinstance(ring, list) for ring in polygon):
            raise ValueError("the coordinates of a polygon are lists of rings")
        count += sum(map(len, polygon))
        if count > most:
            raise ValueError(f"the area has more than {most:,} vertices; simplify its polygons")
        if polygon:
            found.append(tuple(_ring(ring, is_strict) for ring in polygon))
    if not found:
        raise ValueError("the area has no polygon")
    return tuple(found)


def _ring(positions: list[Any], is_strict: bool) -> Ring:
    points = []
    for position in positions:
        if not isinstance(position, list) or len(position) < 2 or len(position) > 4:
            raise ValueError("a position is a list of two to four numbers")
        for number in position[:2]:
            is_number = isinstance(number, int | float) and not isinstance(number, bool)
            if not (is_number and -_LARGEST < number < _LARGEST):
                raise ValueError(f"{str(number)[:40]} is not a coordinate")
        points.append(position[:2])
    if not is_strict and len(points) > 2 and points[0] != points[-1]:
        points.append(points[0])
    if len(points) < 4 or points[0] != points[-1]:
        raise ValueError("a ring has at least four positions, and its last one equals its first")
    return np.array(points, np.float64)


def _tokens(text: str) -> Iterator[str]:
    end = 0
    text = text.rstrip()
    while end < len(text):
        found = _TOKEN.match(text, end)
        if found is None:
            raise ValueError(f"invalid well-known text at character {end}")
        end = found.end()
        yield found[0].strip().upper()


def _leading(words: Sequence[str]) -> list[str]:
    return words[: next((n for n, word in enumerate(words) if word == "("), len(words))]  # type: ignore[return-value]


def _parsed(words: Sequence[str], start: int, depth: int) -> tuple[list[Any], int]:
    """Return nested lists of the items in parentheses, and the number of the word after them."""
    if start >= len(words) or words[start] != "(" or depth > 2:
        raise ValueError("invalid parentheses in the well-known text")
    items: list[Any] = []
    place = start + 1
    while True:
        if place < len(words) and words[place] == "(":
            item, place = _parsed(words, place, depth + 1)
        else:
            item = []
            while place < len(words) and words[place] not in "(),":
                try:
                    item.append(float(words[place]))
                except ValueError:
                    raise ValueError(f"{words[place][:40]!r} is not a number") from None
                place += 1
        items.append(item)
        if place >= len(words) or words[place] not in (",", ")"):
            raise ValueError("invalid parentheses in the well-known text")
        place += 1
        if words[place - 1] == ")":
            return items, place
