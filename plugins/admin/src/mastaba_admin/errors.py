"""JSON error reports of the administration API (admin.md section 2)."""

from __future__ import annotations

import json
from typing import Final

from mastaba.api.web import Response, entry_of, message
from mastaba.errors import (
    ChangeRefusedError,
    OverloadedError,
    RequestError,
    RequestTooLargeError,
    StorageError,
    UnknownPathError,
    public_message,
)
from mastaba_admin.messages import without_paths
from mastaba_ows.errors import STATUSES, MediaTypeError, MethodNotAllowedError


class NotAuthorizedError(RequestError):
    """The request does not contain the secret."""


class CrossSiteError(RequestError):
    """A page of another origin sends the request."""


class UnsupportedMethodError(MethodNotAllowedError):
    """The path does not support the method.

    Args:
        allowed: the methods that the path supports.
    """

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__("the method is not allowed here")
        self.allowed = allowed


_UNAVAILABLE: Final = (503, "Service unavailable")
_REFUSALS: Final = {
    "exists": (409, "Configuration conflict"),
    "unknown": (404, "Not found"),
    "faulty": (400, "Configuration issue"),
    "unavailable": _UNAVAILABLE,
}
_FAILURE: Final = (500, "Internal issue")
_STATUSES: Final = {**STATUSES, NotAuthorizedError: 403, CrossSiteError: 403}
_NAMES: Final[dict[type[BaseException], str]] = {
    NotAuthorizedError: "Operation forbidden",
    CrossSiteError: "Operation forbidden",
    MediaTypeError: "Body not supported",
    MethodNotAllowedError: "Operation not supported",
    UnknownPathError: "Operation not supported",
    RequestTooLargeError: "Body too large",
    RequestError: "Configuration issue",
    OverloadedError: _UNAVAILABLE[1],
    StorageError: _UNAVAILABLE[1],
    Exception: _FAILURE[1],
}


def error_response(error: Exception) -> Response:
    """Return the report for an error; unexpected errors get a general message.

    A refused change is reported with its reason, because the client has sent the secret.
    """
    if isinstance(error, ChangeRefusedError):
        status, name = _REFUSALS.get(error.reason, _FAILURE)
        words = without_paths(str(error))
    else:
        status, name = entry_of(error, _STATUSES), entry_of(error, _NAMES)
        words = public_message(error)
    text = json.dumps({"error_status": name, "error_message": words}, ensure_ascii=False)
    response = message(status, text, "application/json")
    if isinstance(error, UnsupportedMethodError):
        response.headers.append(("Allow", ", ".join(("HEAD", "OPTIONS", *error.allowed))))
    return response
