"""JSON error reports of the administration API (admin.md section 2)."""

from __future__ import annotations

import json
from typing import Final

from mastaba.api.web import Response, message
from mastaba.errors import (
    ChangeRefusedError,
    RequestError,
    RequestTooLargeError,
    UnknownPathError,
    public_message,
)
from mastaba_admin.messages import without_paths


class NotAuthorizedError(RequestError):
    """The request does not contain the secret."""


class CrossSiteError(RequestError):
    """A page of another origin sends the request."""


class NotJSONError(RequestError):
    """The body is not declared as JSON."""


class MethodNotAllowedError(RequestError):
    """The path does not support the method.

    Args:
        allowed: the methods that the path supports.
    """

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__("the method is not allowed here")
        self.allowed = allowed


_REFUSALS: Final = {
    "exists": (409, "Configuration conflict"),
    "unknown": (404, "Not found"),
    "faulty": (400, "Configuration issue"),
    "unavailable": (503, "Service unavailable"),
}
_FAILURE: Final = (500, "Internal issue")
# The first matching class is used, so subclasses come first.
_STATUS: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (NotAuthorizedError, 403, "Operation forbidden"),
    (CrossSiteError, 403, "Operation forbidden"),
    (NotJSONError, 415, "Body not supported"),
    (MethodNotAllowedError, 405, "Operation not supported"),
    (UnknownPathError, 404, "Operation not supported"),
    (RequestTooLargeError, 413, "Body too large"),
    (RequestError, 400, "Configuration issue"),
)


def error_response(error: Exception) -> Response:
    """Return the report for an error; unexpected errors get a general message.

    A refused change is reported with its reason, because the client has sent the secret.
    """
    if isinstance(error, ChangeRefusedError):
        status, name = _REFUSALS.get(error.reason, _FAILURE)
        words = without_paths(str(error))
    else:
        known = ((status, name) for kind, status, name in _STATUS if isinstance(error, kind))
        status, name = next(known, _FAILURE)
        words = public_message(error)
    text = json.dumps({"error_status": name, "error_message": words}, ensure_ascii=False)
    response = message(status, text, "application/json")
    if isinstance(error, MethodNotAllowedError):
        response.headers.append(("Allow", ", ".join(("HEAD", "OPTIONS", *error.allowed))))
    return response
