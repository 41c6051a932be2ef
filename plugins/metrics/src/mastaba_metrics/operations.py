"""The operation of a request, one of a few: a label must have few values."""

from __future__ import annotations

from typing import Final

OPERATIONS: Final = (
    "other",
    "getcapabilities",
    "getmap",
    "gettile",
    "getfeatureinfo",
    "getlegendgraphic",
)
"""Operation names of WMS and WMTS; operations of other protocols count under the same names."""

PAIR: Final = 37
"""Number of cells of one service and operation in the table."""

_NUMBERS: Final = {name: number * PAIR for number, name in enumerate(OPERATIONS)}
# The spelling that nearly all clients use; any other takes the slower path.
_SPELLED: Final = {
    "GetCapabilities": _NUMBERS["getcapabilities"],
    "GetMap": _NUMBERS["getmap"],
    "GetTile": _NUMBERS["gettile"],
    "GetFeatureInfo": _NUMBERS["getfeatureinfo"],
    "GetLegendGraphic": _NUMBERS["getlegendgraphic"],
}
GET_TILE: Final = _NUMBERS["gettile"]
"""Offset of the cells of a tile."""
_TMS_TILE: Final = 5
_WMTS_TILE: Final = 7
_WMTS_POINT: Final = 9


def operation(service: str, below: str, query: str) -> int:
    """Return the offset of the cells of an operation within the cells of its service.

    Args:
        service: name of the service.
        below: path below its root path.
        query: encoded query string.
    """
    if not query:
        return _by_path(service, below)
    _, named, rest = query.partition("REQUEST=")
    if not named:
        _, named, rest = query.upper().partition("REQUEST=")
        if not named:
            return _by_path(service, below)
    value = rest.partition("&")[0]
    number = _SPELLED.get(value)
    return _NUMBERS.get(value.lower(), 0) if number is None else number


def _by_path(service: str, below: str) -> int:
    depth = below.rstrip("/").count("/")
    if service == "tms":
        return _NUMBERS["gettile" if depth == _TMS_TILE else "getcapabilities"]
    if service == "wmts":
        if depth == _WMTS_TILE:
            return _NUMBERS["gettile"]
        return _NUMBERS["getfeatureinfo" if depth == _WMTS_POINT else "getcapabilities"]
    if service == "ogcapi":
        # …/tiles/{tile matrix set}/{tile matrix}/{row}/{column}
        _, tiles, address = below.partition("/tiles/")
        if tiles and address.count("/") >= 3:
            return _NUMBERS["gettile"]
        return _NUMBERS["getmap" if below.endswith("/map") else "getcapabilities"]
    return 0
