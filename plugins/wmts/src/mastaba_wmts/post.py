"""POST bindings (wmts.md section 6): KVP requests from a form or an XML document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

from mastaba.errors import MissingParameterError, UnsupportedOperationError
from mastaba.web.request import Request, parse_query, printable
from mastaba.web.xml import Element, NotXMLError, read_elements

FORM: Final = "application/x-www-form-urlencoded"

_WMTS: Final = "http://www.opengis.net/wmts/1.0"
_OWS: Final = "http://www.opengis.net/ows/1.1"
_TILE_PARAMETERS: Final = (
    "Layer",
    "Style",
    "Format",
    "TileMatrixSet",
    "TileMatrix",
    "TileRow",
    "TileCol",
)
# Children of GetCapabilities, their list items, and the parameter for each list.
_LISTS: Final = (
    ("AcceptVersions", "Version", "acceptversions"),
    ("Sections", "Section", "sections"),
    ("AcceptFormats", "OutputFormat", "acceptformats"),
)


def as_kvp(request: Request) -> Request:
    """Return the GET request that is equivalent to a POST request.

    Parameters in the body override those in the URL.

    Raises:
        RequestTooLargeError: the body is larger than 1 MiB.
        MissingParameterError: the body is neither a form nor well-formed XML (REQUEST is reported
            as missing, as the conformance suite requires).
        UnsupportedOperationError: the XML requests neither GetCapabilities nor GetTile.
    """
    body = request.body()
    if request.media_type == FORM or not (body or request.media_type):
        # One character per byte, as in WSGI and the query string of a GET request.
        given = parse_query(body.decode("latin-1"))
    else:
        given = xml_parameters(body)
    return Request("GET", request.path, urlencode({**request.query, **given}), request.environ)


def xml_parameters(body: bytes) -> dict[str, str]:
    """Return the KVP parameters of an XML request, by lower-case name.

    Raises:
        MissingParameterError: not well-formed, with a DOCTYPE, or with too many elements.
        UnsupportedOperationError: not a GetCapabilities or GetTile request.
    """
    try:
        elements = read_elements(body)
    except NotXMLError:
        raise MissingParameterError("the body is not a WMTS request in XML", "request") from None
    root = elements[0]
    if root.name == "GetCapabilities" and root.namespace in (_WMTS, _OWS):
        parameters = _capabilities_parameters(elements)
    elif root.name == "GetTile" and root.namespace == _WMTS:
        parameters = _tile_parameters(elements)
    else:
        name = printable(root.name)
        raise UnsupportedOperationError(
            f"{name} is no request of WMTS that is offered in XML", name
        )
    parameters["request"] = root.name
    return parameters


def _capabilities_parameters(elements: Sequence[Element]) -> dict[str, str]:
    parameters = {"service": elements[0].attributes.get("service", "")}
    for parent, child, name in _LISTS:
        values = _texts(elements, parent, child)
        if values:
            parameters[name] = ",".join(values)
    return parameters


def _tile_parameters(elements: Sequence[Element]) -> dict[str, str]:
    root = elements[0]
    parameters = {name: root.attributes.get(name, "") for name in ("service", "version")}
    for child in _TILE_PARAMETERS:
        for value in _texts(elements, child)[:1]:
            parameters[child.lower()] = value
    for element in elements:
        name = element.attributes.get("name")
        if element.path == ("VendorOption",) and name:
            parameters.setdefault(name.lower(), element.text)
    return parameters


def _texts(elements: Sequence[Element], *path: str) -> list[str]:
    return [element.text for element in elements if element.path == path]
