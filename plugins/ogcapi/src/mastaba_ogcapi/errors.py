"""Problem details for errors (RFC 9457; ogcapi.md section 2).

One table holds the HTTP status and type for each error.
"""

from __future__ import annotations

import json
from typing import Final

from mastaba.api.web import Request, Response, message
from mastaba.errors import (
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
from mastaba_ogcapi.negotiation import JSON

PROBLEM: Final = "application/problem+json"


class NotAcceptableError(RequestError):
    """The client accepts none of the resource's media types."""


# The first matching class is used, so subclasses come first.
_TABLE: Final[tuple[tuple[type[Exception], int, str, str], ...]] = (
    (UnknownPathError, 404, "ResourceNotFound", "There is no such resource"),
    (UnknownNameError, 404, "ResourceNotFound", "There is no such resource"),
    (TileOutOfRangeError, 404, "ResourceNotFound", "There is no such tile"),
    (TileNotFoundError, 404, "ResourceNotFound", "There is no such tile"),
    (NotAcceptableError, 406, "NotAcceptable", "None of the accepted media types is offered"),
    (RequestTooLargeError, 413, "RequestTooLarge", "The request is too large"),
    (UnsupportedOperationError, 501, "NotImplemented", "This is not offered"),
    (RequestError, 400, "InvalidParameter", "A parameter is missing or has an invalid value"),
    (StorageError, 503, "ServiceUnavailable", "The data cannot be read"),
    (Exception, 500, "InternalError", "The request cannot be answered"),
)


def error_response(error: Exception, request: Request) -> Response:
    """Return the report for an error; unexpected errors get a general message.

    The media type is ``application/json`` for existing clients, or that of RFC 9457 if the
    request names it.
    """
    status, name, title = next(
        (status, name, title) for kind, status, name, title in _TABLE if isinstance(error, kind)
    )
    document = {"type": name, "title": title, "status": status, "detail": public_message(error)}
    media_type = PROBLEM if PROBLEM in (request.header("Accept") or "") else JSON
    response = message(status, json.dumps(document, ensure_ascii=False), media_type)
    if status == 406:
        response.headers.append(("Vary", "Accept"))
    return response
