"""WMTS exception reports for errors (OGC 07-057r7 clause 8, OWS Common 06-121r3 clause 8)."""

from __future__ import annotations

from typing import Final

from mastaba.api.web import Response, entry_of, message
from mastaba.errors import (
    InvalidDimensionError,
    InvalidParameterError,
    MissingDimensionError,
    MissingParameterError,
    NoSuchValueError,
    RequestError,
    TileOutOfRangeError,
    UnknownNameError,
    UnsupportedOperationError,
    public_message,
)
from mastaba_ows.errors import STATUSES, GoneError


class VersionNegotiationError(RequestError):
    """The client accepts no version that the service supports."""


class PointOutOfRangeError(TileOutOfRangeError):
    """A pixel outside its tile; ``parameters`` are ``I`` and/or ``J``."""


_STATUSES: Final = {**STATUSES, UnknownNameError: 400, TileOutOfRangeError: 400}
_CODES: Final[dict[type[BaseException], str]] = {
    MissingParameterError: "MissingParameterValue",
    InvalidParameterError: "InvalidParameterValue",
    PointOutOfRangeError: "PointIJOutOfRange",
    TileOutOfRangeError: "TileOutOfRange",
    UnsupportedOperationError: "OperationNotSupported",
    VersionNegotiationError: "VersionNegotiationFailed",
    Exception: "NoApplicableCode",
}
# In a RESTful path these mean that the resource does not exist: status 404.
_IN_PATHS: Final = (MissingParameterError, InvalidParameterError, TileOutOfRangeError)
# But not these, unless the value is well-formed; versions that are gone have a status of their own.
_OTHERS: Final = (MissingDimensionError, InvalidDimensionError, GoneError)

# Names of parameters in the core, and in the protocol.
_LOCATORS: Final = {
    "layer": "Layer",
    "tile_matrix_set": "TileMatrixSet",
    "tile_matrix": "TileMatrix",
    "row": "TileRow",
    "col": "TileCol",
    "style": "Style",
    "time": "Time",
    "elevation": "Elevation",
}

_OWS: Final = "http://www.opengis.net/ows/1.1"
_SCHEMA: Final = f"{_OWS} http://schemas.opengis.net/ows/1.1.0/owsExceptionReport.xsd"
_LANGUAGE: Final = "{http://www.w3.org/XML/1998/namespace}lang"


def error_response(error: Exception, *, restful: bool) -> Response:
    """Return the exception report for an error: one exception per code and locator.

    Args:
        error: any error; unexpected errors get a general message.
        restful: whether the request used a RESTful path.
    """
    # Loaded on first use, so that listing the plugins loads no lxml.
    from mastaba_ows.xml import XSI, add, root_element, serialized

    status, code = entry_of(error, _STATUSES), entry_of(error, _CODES)
    if restful and isinstance(error, _IN_PATHS) and not isinstance(error, _OTHERS):
        status = 404
    if restful and isinstance(error, NoSuchValueError):
        status = 404
    # The standard has a separate code for pixels; its conformance suite expects the tile code.
    codes = (code, "TileOutOfRange") if isinstance(error, PointOutOfRangeError) else (code,)
    attributes = {"version": "1.1.0", _LANGUAGE: "en", f"{XSI}schemaLocation": _SCHEMA}
    namespaces = {"ows": _OWS, "xsi": XSI.strip("{}")}
    root = root_element(f"{{{_OWS}}}ExceptionReport", attributes, namespaces)
    for code in codes:
        for locator in _locators(error):
            attributes = {"exceptionCode": code} | ({"locator": locator} if locator else {})
            exception = add(root, f"{{{_OWS}}}Exception", attributes=attributes)
            add(exception, f"{{{_OWS}}}ExceptionText", public_message(error))
    response = message(status, serialized(root), "text/xml")
    if status == 405:
        response.headers.append(("Allow", "GET, HEAD, OPTIONS"))
    return response


def _locators(error: Exception) -> list[str | None]:
    """Return the invalid parameters as the protocol spells them; rows come before columns."""
    if isinstance(error, TileOutOfRangeError):
        return [_LOCATORS.get(name, name) for name in error.parameters]
    if not (isinstance(error, RequestError) and error.parameter):
        return [None]
    return [_LOCATORS.get(error.parameter, error.parameter)]
