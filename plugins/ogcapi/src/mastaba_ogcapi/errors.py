"""From errors to problem details (RFC 9457; ogcapi.md section 2).

One table holds HTTP status and type of each error of the core.
"""

from __future__ import annotations

import json
from typing import Final

from mastaba.errors import (
    RequestError,
    RequestTooLargeError,
    StorageError,
    TileNotFoundError,
    TileOutOfRangeError,
    UnknownPathError,
    UnsupportedOperationError,
    public_message,
)
from mastaba.http.request import Request
from mastaba.http.response import Response, message
from mastaba_ogcapi.negotiation import JSON

PROBLEM: Final = "application/problem+json"


class NotAcceptableError(RequestError):
    """The client takes none of the media types of the resource."""


# The first class that an error is an instance of counts, so special ones come first.
_TABLE: Final[tuple[tuple[type[Exception], int, str, str], ...]] = (
    (UnknownPathError, 404, "ResourceNotFound", "There is no such resource"),
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
    """Return the report of an error; of an unexpected one only general words are said.

    Existing clients read it as ``application/json``; one that names the media type of
    RFC 9457 gets that.
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
