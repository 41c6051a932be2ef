"""Exception reports of both versions (OGC 09-110r4 clause 8.5, 03-065r6 annex A)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mastaba.api.web import Response, entry_of, message, printable
from mastaba.errors import (
    InvalidParameterError,
    MissingParameterError,
    RequestError,
    UnsupportedFormatError,
    UnsupportedOperationError,
    public_message,
)
from mastaba_ows.errors import STATUSES
from mastaba_wcs.versions import Version, VersionNegotiationError


class NoSuchCoverageError(InvalidParameterError):
    """A coverage that is not offered."""


class EmptyCoverageListError(RequestError):
    """A list of coverages without any."""


class InvalidAxisLabelError(InvalidParameterError):
    """An axis that the coverage does not have."""


class InvalidSubsettingError(InvalidParameterError):
    """A subset that is outside the coverage, or that has its limits in the wrong order."""


class SubsettingCRSError(InvalidParameterError):
    """A CRS of coordinates that is not offered."""


class OutputCRSError(InvalidParameterError):
    """A CRS of the answer that is not offered."""


class InvalidScaleFactorError(InvalidParameterError):
    """A scale factor or size that is not a positive number, or that is too large."""


class InvalidExtentError(InvalidParameterError):
    """A target extent whose limits are in the wrong order."""


class ScaleAxisUndefinedError(InvalidParameterError):
    """A scaled axis that the coverage does not have."""


class NoSuchFieldError(InvalidParameterError):
    """A field that the coverage does not have."""


class IllegalFieldSequenceError(InvalidParameterError):
    """An interval of fields whose ends are in the wrong order."""


class InterpolationError(InvalidParameterError):
    """An interpolation method that is not offered."""


class EncodingSyntaxError(InvalidParameterError):
    """A document that is not a request of WCS."""


class TooLargeError(RequestError):
    """The answer would exceed a limit."""


class PreconditionError(RequestError):
    """The coverage has not the version that the request is for."""


class RangeError(RequestError):
    """The file has no such bytes."""


_NOT_FOUND: Final = (
    *(NoSuchCoverageError, EmptyCoverageListError, InvalidAxisLabelError, InvalidSubsettingError),
    *(SubsettingCRSError, OutputCRSError, InterpolationError, NoSuchFieldError),
    *(InvalidScaleFactorError, InvalidExtentError, ScaleAxisUndefinedError),
)
_STATUSES: Final[Mapping[type[BaseException], int]] = {
    **STATUSES,
    **dict.fromkeys(_NOT_FOUND, 404),
    PreconditionError: 412,
    TooLargeError: 413,
    RangeError: 416,
}
_CODES: Final[dict[type[BaseException], str]] = {
    NoSuchCoverageError: "NoSuchCoverage",
    EmptyCoverageListError: "emptyCoverageIdList",
    InvalidAxisLabelError: "InvalidAxisLabel",
    InvalidSubsettingError: "InvalidSubsetting",
    SubsettingCRSError: "SubsettingCrs-NotSupported",
    OutputCRSError: "OutputCrs-NotSupported",
    InvalidScaleFactorError: "InvalidScaleFactor",
    InvalidExtentError: "InvalidExtent",
    ScaleAxisUndefinedError: "ScaleAxisUndefined",
    NoSuchFieldError: "NoSuchField",
    IllegalFieldSequenceError: "IllegalFieldSequence",
    InterpolationError: "InterpolationMethodNotSupported",
    EncodingSyntaxError: "InvalidEncodingSyntax",
    MissingParameterError: "MissingParameterValue",
    InvalidParameterError: "InvalidParameterValue",
    UnsupportedOperationError: "OperationNotSupported",
    VersionNegotiationError: "VersionNegotiationFailed",
    Exception: "NoApplicableCode",
}
# Version 1.0.0 knows only these beside the general ones.
_CODES_100: Final[dict[type[BaseException], str]] = {
    NoSuchCoverageError: "CoverageNotDefined",
    UnsupportedFormatError: "InvalidFormat",
    MissingParameterError: "MissingParameterValue",
    InvalidParameterError: "InvalidParameterValue",
    Exception: "",
}

_OWS: Final = "http://www.opengis.net/ows/2.0"
_SCHEMA: Final = f"{_OWS} http://schemas.opengis.net/ows/2.0/owsExceptionReport.xsd"
_LANGUAGE: Final = "{http://www.w3.org/XML/1998/namespace}lang"
_OGC: Final = "http://www.opengis.net/ogc"
_SCHEMA_100: Final = f"{_OGC} http://schemas.opengis.net/wcs/1.0.0/OGC-exception.xsd"


def error_response(error: Exception, version: Version) -> Response:
    """Return the exception report for an error; unexpected errors get a general message."""
    # Loaded on first use, so that listing the plugins loads no lxml.
    from mastaba_ows.xml import XSI, add, root_element, serialized

    locator = printable(error.parameter or "") if isinstance(error, RequestError) else ""
    text = public_message(error)
    if version is Version.V1_0_0:
        namespaces = {None: _OGC, "xsi": XSI.strip("{}")}
        attributes = {"version": "1.2.0", f"{XSI}schemaLocation": _SCHEMA_100}
        root = root_element(f"{{{_OGC}}}ServiceExceptionReport", attributes, namespaces)
        exception = add(root, f"{{{_OGC}}}ServiceException", text)
        code, media_type = entry_of(error, _CODES_100), "application/vnd.ogc.se_xml"
        if code:
            exception.set("code", code)
    else:
        namespaces = {"ows": _OWS, "xsi": XSI.strip("{}")}
        attributes = {"version": "2.0.0", _LANGUAGE: "en", f"{XSI}schemaLocation": _SCHEMA}
        root = root_element(f"{{{_OWS}}}ExceptionReport", attributes, namespaces)
        media_type = "text/xml"
        exception = add(root, f"{{{_OWS}}}Exception")
        exception.set("exceptionCode", entry_of(error, _CODES))
        add(exception, f"{{{_OWS}}}ExceptionText", text)
    if locator:
        exception.set("locator", locator)
    return message(entry_of(error, _STATUSES), serialized(root), media_type)
