"""HTTP statuses of errors, what protocols find for an error in tables, and problem details."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from mastaba_server.errors import (
    NotAcceptableError,
    OverloadedError,
    RequestError,
    RequestTooLargeError,
    UnknownPathError,
    UnsupportedOperationError,
)
from mastaba_server.messages import STATUS_LINES
from mastaba_server.web.response import Response, message

_T = TypeVar("_T")

SERVER_STATUSES: Final[Mapping[type[BaseException], int]] = {
    RequestError: 400,
    UnknownPathError: 404,
    NotAcceptableError: 406,
    RequestTooLargeError: 413,
    UnsupportedOperationError: 501,
    OverloadedError: 503,
    Exception: 500,
}
"""HTTP status by class of errors. An application adds its own classes to a copy."""

PROBLEM: Final = "application/problem+json"
"""Media type of problem details (RFC 9457)."""


def entry_of(error: Exception, table: Mapping[type[BaseException], _T]) -> _T:
    """Return the entry for the class of an error, or for the nearest of its base classes.

    Args:
        table: with an entry for ``Exception``, for all other errors.
    """
    return next(table[kind] for kind in type(error).__mro__ if kind in table)


def phrase(status: int) -> str:
    """Return the reason phrase of a status, such as ``Not Found``."""
    return STATUS_LINES[status].partition(" ")[2]


def problem(
    status: int,
    detail: str = "",
    *,
    kind: str = "about:blank",
    title: str = "",
    more: Mapping[str, Any] | None = None,
    media_type: str = PROBLEM,
) -> Response:
    """Return problem details (RFC 9457, clause 3).

    Args:
        status: HTTP status.
        detail: what is wrong, for the client; left out if empty.
        kind: type of the problem.
        title: of this type; by default, the reason phrase of the status (clause 4.2.1).
        more: further members.
        media_type: instead of that of RFC 9457, which JSON clients need not know.
    """
    document = {"type": kind, "title": title or phrase(status), "status": status}
    document |= ({"detail": detail} if detail else {}) | dict(more or {})
    # Texts of clients may contain lone surrogates.
    body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
    return message(status, body, media_type)
