"""WMS exception reports for errors (OGC 06-042 clause 6.11 and annex E.2; wms.md section 5)."""

from __future__ import annotations

from typing import Final

from mastaba.api.web import Response, entry_of, message
from mastaba.errors import (
    InvalidDimensionError,
    InvalidParameterError,
    MissingDimensionError,
    MissingParameterError,
    RequestError,
    UnknownNameError,
    UnsupportedFormatError,
    UnsupportedOperationError,
    public_message,
)
from mastaba_ows.errors import STATUSES
from mastaba_wms.versions import Version

_MEDIA_TYPES: Final = {
    Version.V1_3_0: "text/xml",
    Version.V1_1_1: "application/vnd.ogc.se_xml",
}
_OGC: Final = "http://www.opengis.net/ogc"
_SCHEMA_130: Final = "http://schemas.opengis.net/wms/1.3.0/exceptions_1_3_0.xsd"
_DOCTYPE_111: Final = (
    "<!DOCTYPE ServiceExceptionReport SYSTEM "
    '"http://schemas.opengis.net/wms/1.1.1/exception_1_1_1.dtd">'
)


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


_STATUSES: Final = {**STATUSES, UnknownNameError: 400, UnsupportedOperationError: 400}
_CODES: Final[dict[type[BaseException], str]] = {
    LayerNotDefinedError: "LayerNotDefined",
    StyleNotDefinedError: "StyleNotDefined",
    UnsupportedCRSError: "InvalidCRS",
    UnsupportedFormatError: "InvalidFormat",
    LayerNotQueryableError: "LayerNotQueryable",
    InvalidPointError: "InvalidPoint",
    MissingDimensionError: "MissingDimensionValue",
    InvalidDimensionError: "InvalidDimensionValue",
    MissingParameterError: "MissingParameterValue",
    InvalidParameterError: "InvalidParameterValue",
    UnsupportedOperationError: "OperationNotSupported",
    Exception: "NoApplicableCode",
}


def error_response(error: Exception, version: Version) -> Response:
    """Return the exception report for an error; unexpected errors get a general message."""
    # Loaded on first use: the plugin can be listed without it.
    from mastaba_ows.xml import XSI, add, root_element, serialized

    status, code = entry_of(error, _STATUSES), entry_of(error, _CODES)
    if version is Version.V1_3_0:
        namespaces = {None: _OGC, "xsi": XSI.strip("{}")}
        attributes = {"version": "1.3.0", f"{XSI}schemaLocation": f"{_OGC} {_SCHEMA_130}"}
        root = root_element(f"{{{_OGC}}}ServiceExceptionReport", attributes, namespaces)
        parameter = error.parameter if isinstance(error, RequestError) else None
        locator = {"locator": parameter} if parameter else {}
        exception = add(root, f"{{{_OGC}}}ServiceException", public_message(error), locator)
        doctype = ""
    else:
        root = root_element("ServiceExceptionReport", {"version": "1.1.1"})
        exception = add(root, "ServiceException", public_message(error))
        code = "InvalidSRS" if code == "InvalidCRS" else code
        doctype = _DOCTYPE_111
    exception.set("code", code)
    return message(status, serialized(root, doctype=doctype), _MEDIA_TYPES[version])
