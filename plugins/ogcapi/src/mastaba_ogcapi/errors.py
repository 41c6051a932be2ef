"""Problem details for errors (RFC 9457; ogcapi.md section 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mastaba.api.web import PROBLEM, Request, Response, entry_of, problem, status_of
from mastaba.errors import (
    AccessError,
    NotAcceptableError,
    RequestError,
    RequestTooLargeError,
    StorageError,
    TileNotFoundError,
    TileOutOfRangeError,
    UnknownNameError,
    UnknownPathError,
    UnsupportedOperationError,
    public_message,
)
from mastaba_ows.errors import REFUSALS, STATUSES
from mastaba_ows.links import JSON


class TooLargeError(RequestError):
    """The answer would exceed a limit.

    Args:
        text: what is too large, for the client.
        size: what the answer has.
        limit: the most that is allowed.
        unit: of both, such as ``bytes`` or ``tiles``.
        job: address of the process that makes larger ones; None if there is none.
        parts: address of the list of parts that are small enough; None if there is none.
    """

    def __init__(
        self,
        text: str,
        size: int,
        limit: int,
        unit: str,
        job: str | None = None,
        parts: str | None = None,
    ) -> None:
        super().__init__(text)
        self.details: dict[str, Any] = {unit: size, "limit": limit}
        self.details |= {name: value for name, value in (("job", job), ("parts", parts)) if value}


class OutsideCoverageError(RequestError):
    """No cell of a coverage is in the requested area."""


_STATUSES: Final = {**STATUSES, TooLargeError: 413, OutsideCoverageError: 404}

_NO_RESOURCE: Final = "ResourceNotFound", "There is no such resource"
_NO_TILE: Final = "ResourceNotFound", "There is no such tile"
# Types and titles.
_PROBLEMS: Final[dict[type[BaseException], tuple[str, str]]] = {
    UnknownPathError: _NO_RESOURCE,
    UnknownNameError: _NO_RESOURCE,
    TileOutOfRangeError: _NO_TILE,
    TileNotFoundError: _NO_TILE,
    TooLargeError: ("ContentTooLarge", "The answer would exceed a limit"),
    OutsideCoverageError: ("OutsideCoverage", "The area is outside the data"),
    NotAcceptableError: ("NotAcceptable", "None of the accepted forms is offered"),
    RequestTooLargeError: ("RequestTooLarge", "The request is too large"),
    UnsupportedOperationError: ("NotImplemented", "This is not offered"),
    RequestError: ("InvalidParameter", "A parameter is missing or has an invalid value"),
    StorageError: ("ServiceUnavailable", "The data cannot be read"),
    Exception: ("InternalError", "The request cannot be answered"),
}


def error_response(error: Exception, request: Request) -> Response:
    """Return the report for an error; unexpected errors get a general message.

    The media type is ``application/json`` for existing clients, or that of RFC 9457 if the
    request names it or is for a coverage.
    """
    status, (kind, title) = status_of(error, _STATUSES), entry_of(error, _PROBLEMS)
    if isinstance(error, AccessError):
        kind, title = REFUSALS.get(status, (kind, title))
    more = error.details if isinstance(error, TooLargeError) else {}
    response = _report(status, (kind, title), request, public_message(error), more)
    if status == 406:
        response.headers.append(("Vary", "Accept"))
    return response


def unmet(status: int, request: Request, headers: list[tuple[str, str]]) -> Response:
    """Return the report for a condition or a range that a request states: 412 or 416.

    Args:
        headers: of the answer, in addition to those of the report.
    """
    response = _report(status, _CONDITIONS[status], request)
    response.headers += headers
    return response


_CONDITIONS: Final = {
    412: ("PreconditionFailed", "The data has another version"),
    416: ("RangeNotSatisfiable", "The file has no such bytes"),
}


def _report(
    status: int,
    named: tuple[str, str],
    request: Request,
    detail: str = "",
    more: Mapping[str, Any] | None = None,
) -> Response:
    is_problem = request.path.endswith("/coverage") or PROBLEM in (request.header("Accept") or "")
    media_type = PROBLEM if is_problem else JSON
    kind, title = named
    return problem(status, detail, kind=kind, title=title, more=more, media_type=media_type)
