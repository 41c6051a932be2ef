"""Search of a place: coordinates, or a name of the list of places."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mastaba.api.web import Document

_NUMBER: Final = r"(-?\d{1,12}(?:\.\d{1,12})?)"
_COORDINATES: Final = re.compile(rf"\s*{_NUMBER}(?:\s*[,;]\s*|\s+){_NUMBER}\s*", re.ASCII)


def found_place(wanted: str, places: Sequence[Mapping[str, Any]]) -> Document:
    """Return the place that a text means.

    Args:
        wanted: latitude and longitude in degrees, coordinates of the CRS of the map, or the
            beginning of a name.
        places: the list, see `settings`.

    Returns:
        a JSON object: ``degrees`` with longitude and latitude, and ``name`` if it is in the list;
        ``coordinates`` with x and y in the CRS of the map; or nothing.
    """
    if numbers := _COORDINATES.fullmatch(wanted):
        one, other = map(float, numbers.groups())
        if abs(one) <= 90 and abs(other) <= 180:
            return _document({"degrees": [other, one]})
        return _document({"coordinates": [one, other]})
    start = wanted.strip().casefold()
    matching = [place for place in places if start and place["name"].casefold().startswith(start)]
    if not matching:
        return _document({})
    # The whole name comes before longer ones.
    place = min(matching, key=lambda place: len(place["name"]))
    degrees = [place["longitude"], place["latitude"]]
    return _document({"degrees": degrees, "name": place["name"]})


def _document(found: Mapping[str, Any]) -> Document:
    return Document(json.dumps(found, ensure_ascii=False), "application/json")
