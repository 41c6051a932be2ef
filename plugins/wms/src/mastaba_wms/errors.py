"""WMS exception reports for errors (OGC 06-042 clause 6.11 and annex E.2; wms.md section 5).

One table holds the HTTP status and exception code for each error.
"""

from __future__ import annotations

from typing import Final

from mastaba.errors import (
    InvalidParameterError,
    MissingParameterError,
    RequestError,
    RequestTooLargeError,
    StorageError,
    UnknownNameError,
    UnknownPathError,
    UnsupportedFormatError,
    UnsupportedOperationError,
    public_message,
)
from mastaba.services.featureinfo.external import UpstreamError
from mastaba.web.markup import DECLARATION, element, text
from mastaba.web.response import Response, message
from mastaba_wms.versions import Version

_MEDIA_TYPES: Final = {
    Version.V1_3_0: "text/xml",
    Version.V1_1_1: "application/vnd.ogc.se_xml",
}


class LayerNotDefinedError(UnknownNameError):
    """A layer that is not offered."""


class StyleNotDefinedError(UnknownNameError):
    """A style that the layer does not have."""


class UnsupportedCRSError(InvalidParameterError):
    """A CRS in which a layer is not offered."""


class LayerNotQueryableError(RequestError):
    """A layer without feature information."""


class InvalidPointError(InvalidParameterError):
    """A pixel outside the map."""


class BindingError(RequestError):
    """A request body of an unsupported media type."""


# The first matching class is used, so subclasses come first.
_TABLE: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (LayerNotDefinedError, 400, "LayerNotDefined"),
    (StyleNotDefinedError, 400, "StyleNotDefined"),
    (UnsupportedCRSError, 400, "InvalidCRS"),
    (UnsupportedFormatError, 400, "InvalidFormat"),
    (LayerNotQueryableError, 400, "LayerNotQueryable"),
    (InvalidPointError, 400, "InvalidPoint"),
    (MissingParameterError, 400, "MissingParameterValue"),
    (InvalidParameterError, 400, "InvalidParameterValue"),
    (UnsupportedOperationError, 400, "OperationNotSupported"),
    (UnknownPathError, 404, "NoApplicableCode"),
    (RequestTooLargeError, 413, "NoApplicableCode"),
    (BindingError, 415, "NoApplicableCode"),
    (UpstreamError, 502, "NoApplicableCode"),
    (RequestError, 400, "NoApplicableCode"),
    (StorageError, 503, "NoApplicableCode"),
    (Exception, 500, "NoApplicableCode"),
)


def error_response(error: Exception, version: Version) -> Response:
    """Return the exception report for an error; unexpected errors get a general message."""
    status, code = next((status, code) for kind, status, code in _TABLE if isinstance(error, kind))
    locator = error.parameter if isinstance(error, RequestError) else None
    write = _report_130 if version is Version.V1_3_0 else _report_111
    document = write(code, public_message(error), locator)
    return message(status, document, _MEDIA_TYPES[version])


def _report_130(code: str, words: str, locator: str | None) -> str:
    attributes = {"code": code} | ({"locator": locator} if locator else {})
    return DECLARATION + element(
        "ServiceExceptionReport",
        element("ServiceException", text(words), attributes=attributes),
        attributes={
            "version": "1.3.0",
            "xmlns": "http://www.opengis.net/ogc",
            "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
            "xsi:schemaLocation": "http://www.opengis.net/ogc "
            "http://schemas.opengis.net/wms/1.3.0/exceptions_1_3_0.xsd",
        },
    )


def _report_111(code: str, words: str, locator: str | None) -> str:
    del locator  # the DTD has no such attribute
    code = "InvalidSRS" if code == "InvalidCRS" else code
    doctype = (
        "<!DOCTYPE ServiceExceptionReport SYSTEM "
        '"http://schemas.opengis.net/wms/1.1.1/exception_1_1_1.dtd">\n'
    )
    return (
        DECLARATION
        + doctype
        + element(
            "ServiceExceptionReport",
            element("ServiceException", text(words), attributes={"code": code}),
            attributes={"version": "1.1.1"},
        )
    )
