"""Problem details for errors (RFC 9457; 18-062r2 clauses 7.5, 7.11 to 7.13)."""

from __future__ import annotations

from typing import Any, Final

from mastaba.api.web import Response, entry_of, problem, status_of
from mastaba.errors import (
    AccessError,
    InvalidParameterError,
    OverloadedError,
    RequestError,
    RequestTooLargeError,
    StorageError,
    UnknownPathError,
    UnsupportedOperationError,
    public_message,
)
from mastaba_export.jobs.refusals import FullError, QueueError, TooLargeError, TooManyError
from mastaba_ows.errors import REFUSALS, STATUSES, MediaTypeError, MethodNotAllowedError

_OGC: Final = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0"


class UnknownProcessError(RequestError):
    """There is no process with this identifier."""


class UnknownJobError(RequestError):
    """There is no job with this identifier, or no longer."""


class NotReadyError(RequestError):
    """The job has no result yet."""


class DismissedError(RequestError):
    """The job has been dismissed."""


class WrongMethodError(MethodNotAllowedError):
    """The resource does not support the method.

    Args:
        allowed: the methods that it supports.
    """

    def __init__(self, allowed: str) -> None:
        super().__init__(f"this resource supports {allowed}")
        self.allowed = allowed


_STATUSES: Final = {
    **STATUSES,
    UnknownProcessError: 404,
    UnknownJobError: 404,
    NotReadyError: 404,
    DismissedError: 410,
    TooLargeError: 413,
    TooManyError: 429,
    FullError: 507,
    QueueError: 503,
}
# Types and titles.
_PROBLEMS: Final[dict[type[BaseException], tuple[str, str]]] = {
    UnknownProcessError: (f"{_OGC}/no-such-process", "There is no such process"),
    UnknownJobError: (f"{_OGC}/no-such-job", "There is no such job"),
    NotReadyError: (f"{_OGC}/result-not-ready", "The job has no result yet"),
    DismissedError: ("Gone", "The job has been dismissed"),
    UnknownPathError: ("ResourceNotFound", "There is no such resource"),
    MethodNotAllowedError: ("MethodNotAllowed", "The resource does not support the method"),
    MediaTypeError: ("UnsupportedMediaType", "The body has another media type"),
    RequestTooLargeError: ("RequestTooLarge", "The request is too large"),
    TooLargeError: ("ContentTooLarge", "The result would exceed a limit"),
    TooManyError: ("TooManyRequests", "Too many requests or jobs"),
    FullError: ("InsufficientStorage", "There is no room for the result"),
    UnsupportedOperationError: ("NotImplemented", "This is not offered"),
    RequestError: (
        "InvalidParameter",
        "A parameter is missing or has an invalid value",
    ),
    StorageError: ("ServiceUnavailable", "The data cannot be read"),
    OverloadedError: ("ServiceUnavailable", "The server is busy"),
    QueueError: ("ServiceUnavailable", "The queue of jobs cannot be used"),
    Exception: ("InternalError", "The request cannot be answered"),
}
_CONDITIONS: Final = {
    412: ("PreconditionFailed", "The file is another one"),
    416: ("RangeNotSatisfiable", "The file has no such bytes"),
}


def error_response(error: Exception) -> Response:
    """Return the report for an error; unexpected errors get a general message."""
    status, (kind, title) = status_of(error, _STATUSES), entry_of(error, _PROBLEMS)
    if isinstance(error, AccessError):
        kind, title = REFUSALS.get(status, (kind, title))
    text = str(error) if isinstance(error, FullError) else public_message(error)
    more: dict[str, Any] = dict(getattr(error, "details", {}))
    if isinstance(error, InvalidParameterError) and error.parameter:
        more["parameter"] = error.parameter
    response = problem(status, text, kind=kind, title=title, more=more)
    if isinstance(error, TooManyError | FullError):
        response.headers.append(("Retry-After", str(error.retry_after)))
    if isinstance(error, WrongMethodError):
        response.headers.append(("Allow", error.allowed))
    return response


def unmet(response: Response) -> Response:
    """Return the report for a condition or a range that a request states: 412 or 416."""
    kind, title = _CONDITIONS[response.status]
    report = problem(response.status, kind=kind, title=title)
    report.headers += response.headers
    return report


def failed(status: int, detail: str) -> Response:
    """Return the answer to a request for the result of a job that failed."""
    return problem(status, detail, kind="JobFailed", title="The job failed")
