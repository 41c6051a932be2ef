"""WMTS exception reports for errors (OGC 07-057r7 clause 8, OWS Common 06-121r3 clause 8).

One table holds the HTTP status and exception code for each error. A second one holds the statuses
for RESTful paths, where an invalid path is a resource that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from mastaba.errors import (
    InvalidParameterError,
    MissingParameterError,
    ObjectNotFoundError,
    RequestError,
    RequestTooLargeError,
    StorageError,
    TileNotFoundError,
    TileOutOfRangeError,
    UnknownPathError,
    UnsupportedOperationError,
    public_message,
)
from mastaba.web.markup import DECLARATION, element, leaf
from mastaba.web.response import Response, message

REPORT_MEDIA_TYPE: Final = "text/xml"


class VersionNegotiationError(RequestError):
    """The client accepts no version that the service supports."""


class NotAcceptableError(RequestError):
    """The client accepts none of the resource's media types (RESTful only)."""


class UpstreamError(RequestError):
    """Another server gave no usable answer to a forwarded request."""


class PointOutOfRangeError(RequestError):
    """A pixel outside its tile.

    Args:
        message: what is wrong.
        parameters: ``I`` and/or ``J``.
    """

    def __init__(self, message: str, parameters: Sequence[str]) -> None:
        super().__init__(message, parameters[0])
        self.parameters = tuple(parameters)


class BindingError(RequestError):
    """The resource does not support the method (RESTful only)."""


# The first matching class is used, so subclasses come first.
_KVP: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (MissingParameterError, 400, "MissingParameterValue"),
    (InvalidParameterError, 400, "InvalidParameterValue"),
    (TileOutOfRangeError, 400, "TileOutOfRange"),
    (PointOutOfRangeError, 400, "PointIJOutOfRange"),
    (UnsupportedOperationError, 501, "OperationNotSupported"),
    (VersionNegotiationError, 400, "VersionNegotiationFailed"),
    (TileNotFoundError, 404, "NoApplicableCode"),
    (UnknownPathError, 404, "NoApplicableCode"),
    (NotAcceptableError, 406, "NoApplicableCode"),
    (BindingError, 405, "NoApplicableCode"),
    (RequestTooLargeError, 413, "NoApplicableCode"),
    (UpstreamError, 502, "NoApplicableCode"),
    (RequestError, 400, "NoApplicableCode"),
    (ObjectNotFoundError, 404, "NoApplicableCode"),
    (StorageError, 503, "NoApplicableCode"),
    (Exception, 500, "NoApplicableCode"),
)
_RESTFUL_STATUS: Final[tuple[tuple[type[Exception], int], ...]] = (
    (MissingParameterError, 404),
    (InvalidParameterError, 404),
    (TileOutOfRangeError, 404),
    (PointOutOfRangeError, 404),
)

# Names of tile indices in the core, and in the protocol.
_LOCATORS: Final = {"row": "TileRow", "col": "TileCol"}


def error_response(error: Exception, *, restful: bool) -> Response:
    """Return the exception report for an error.

    Args:
        error: any error; unexpected errors get a general message.
        restful: whether the request used a RESTful path.
    """
    status, code = next((status, code) for kind, status, code in _KVP if isinstance(error, kind))
    if restful:
        status = next((s for kind, s in _RESTFUL_STATUS if isinstance(error, kind)), status)
    # The standard has a separate code for pixels; its conformance suite expects the tile code.
    codes = (code, "TileOutOfRange") if isinstance(error, PointOutOfRangeError) else (code,)
    response = message(
        status, report(codes, public_message(error), locators(error)), REPORT_MEDIA_TYPE
    )
    if status == 405:
        response.headers.append(("Allow", "GET, HEAD, OPTIONS"))
    return response


def locators(error: Exception) -> tuple[str, ...]:
    """Return the invalid parameters as the protocol spells them; rows come before columns."""
    if isinstance(error, TileOutOfRangeError):
        return tuple(_LOCATORS.get(name, name) for name in error.parameters)
    if isinstance(error, PointOutOfRangeError):
        return error.parameters
    if isinstance(error, RequestError) and error.parameter:
        return (error.parameter,)
    return ()


def report(codes: Iterable[str], words: str, locators: tuple[str, ...] = ()) -> str:
    """Return an exception report with one exception per code and locator, or per code."""
    exceptions = [
        element(
            "ows:Exception",
            leaf("ows:ExceptionText", words),
            attributes={"exceptionCode": code} | ({"locator": locator} if locator else {}),
        )
        for code in codes
        for locator in locators or ("",)
    ]
    return DECLARATION + element(
        "ows:ExceptionReport",
        *exceptions,
        attributes={
            "xmlns:ows": "http://www.opengis.net/ows/1.1",
            "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
            "version": "1.1.0",
            "xml:lang": "en",
            "xsi:schemaLocation": "http://www.opengis.net/ows/1.1 "
            "http://schemas.opengis.net/ows/1.1.0/owsExceptionReport.xsd",
        },
    )
