"""The POST bindings (wmts.md section 6): a form or an XML document becomes a KVP request.

The XML reader keeps no tree. It refuses a DOCTYPE when it begins, before anything that is
declared in it is read, and stops where a document is larger than any request can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import urlencode

from lxml import etree

from mastaba.errors import MissingParameterError, UnsupportedOperationError
from mastaba.http.request import Request, parse_query, printable

FORM: Final = "application/x-www-form-urlencoded"

_WMTS: Final = "http://www.opengis.net/wmts/1.0"
_OWS: Final = "http://www.opengis.net/ows/1.1"
_MAX_ELEMENTS: Final = 1000
_TILE_PARAMETERS: Final = (
    "Layer",
    "Style",
    "Format",
    "TileMatrixSet",
    "TileMatrix",
    "TileRow",
    "TileCol",
)
# Children of GetCapabilities, what they list, and the parameter that takes the list.
_LISTS: Final = (
    ("AcceptVersions", "Version", "acceptversions"),
    ("Sections", "Section", "sections"),
    ("AcceptFormats", "OutputFormat", "acceptformats"),
)


def as_kvp(request: Request) -> Request:
    """Return the GET request that asks for the same as a POST request.

    Parameters in the URL stand behind those of the body.

    Raises:
        RequestTooLargeError: the body is larger than 1 MiB.
        MissingParameterError: the body is neither a form nor well-formed XML (as the conformance
            suite wants it, REQUEST is reported as missing).
        UnsupportedOperationError: the XML asks for something else than GetCapabilities or GetTile.
    """
    body = request.body()
    if request.media_type == FORM or not (body or request.media_type):
        # Of WSGI's kind, one character for each byte, as the query string of a GET request is.
        given = parse_query(body.decode("latin-1"))
    else:
        given = xml_parameters(body)
    return Request("GET", request.path, urlencode({**request.query, **given}), request.environ)


def xml_parameters(body: bytes) -> dict[str, str]:
    """Return the KVP parameters, by lower-case name, of a request in XML.

    Raises:
        MissingParameterError: not well-formed, with a DOCTYPE, or far too many elements.
        UnsupportedOperationError: not a request for GetCapabilities or GetTile.
    """
    outline = _read(body)
    namespace, _, operation = outline.root.rpartition("}")
    namespace = namespace.removeprefix("{")
    if operation == "GetCapabilities" and namespace in (_WMTS, _OWS):
        parameters = outline.capabilities_parameters()
    elif operation == "GetTile" and namespace == _WMTS:
        parameters = outline.tile_parameters()
    else:
        name = printable(operation)
        raise UnsupportedOperationError(
            f"{name} is no request of WMTS that is offered in XML", name
        )
    parameters["request"] = operation
    return parameters


class _Refused(Exception):  # noqa: N818 - a signal from inside the parser, never seen outside
    pass


class _Outline:
    """What a request document holds, seen as it is parsed: an lxml parser target.

    Attributes:
        root: tag of the root element, ``{namespace}name``.
        items: local names from below the root, attributes and text parts of each element.
    """

    def __init__(self) -> None:
        self.root = ""
        self.attributes: dict[str, str] = {}
        self.items: list[tuple[tuple[str, ...], dict[str, str], list[str]]] = []
        self._open: list[list[str]] = []
        self._path: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(self.items) == _MAX_ELEMENTS:
            raise _Refused
        parts: list[str] = []
        self._open.append(parts)
        if not self.root:
            self.root, self.attributes = tag, dict(attributes)
            return
        self._path.append(tag.rpartition("}")[2])
        self.items.append((tuple(self._path), dict(attributes), parts))

    def data(self, text: str) -> None:
        self._open[-1].append(text)

    def end(self, tag: str) -> None:
        self._open.pop()
        if self._path:
            self._path.pop()

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        raise _Refused

    def close(self) -> None:
        pass

    def texts(self, *path: str) -> list[str]:
        """Return the texts, without blanks around, of all elements at a path below the root."""
        return ["".join(parts).strip() for names, _, parts in self.items if names == path]

    def capabilities_parameters(self) -> dict[str, str]:
        parameters = {"service": self.attributes.get("service", "")}
        for parent, child, name in _LISTS:
            values = self.texts(parent, child)
            if values:
                parameters[name] = ",".join(values)
        return parameters

    def tile_parameters(self) -> dict[str, str]:
        parameters = {name: self.attributes.get(name, "") for name in ("service", "version")}
        for child in _TILE_PARAMETERS:
            for value in self.texts(child)[:1]:
                parameters[child.lower()] = value
        for names, attributes, parts in self.items:
            if names == ("VendorOption",) and attributes.get("name"):
                parameters.setdefault(attributes["name"].lower(), "".join(parts).strip())
        return parameters


def _read(body: bytes) -> _Outline:
    outline = _Outline()
    parser = etree.XMLParser(
        target=cast("Any", outline),
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
    )
    try:
        etree.fromstring(body, parser)
    except (_Refused, etree.XMLSyntaxError):
        raise MissingParameterError("the body is not a WMTS request in XML", "request") from None
    return outline
