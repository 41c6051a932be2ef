"""Problem details for errors (RFC 9457; ogcapi.md section 2)."""

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
from mastaba_ows.errors import STATUSES, NotAcceptableError, entry_of

PROBLEM: Final = "application/problem+json"


_NO_RESOURCE: Final = "ResourceNotFound", "There is no such resource"
_NO_TILE: Final = "ResourceNotFound", "There is no such tile"
# Types and titles.
_PROBLEMS: Final[dict[type[BaseException], tuple[str, str]]] = {
    UnknownPathError: _NO_RESOURCE,
    UnknownNameError: _NO_RESOURCE,
    TileOutOfRangeError: _NO_TILE,
    TileNotFoundError: _NO_TILE,
    NotAcceptableError: ("NotAcceptable", "None of the accepted media types is offered"),
    RequestTooLargeError: ("RequestTooLarge", "The request is too large"),
    UnsupportedOperationError: ("NotImplemented", "This is not offered"),
    RequestError: ("InvalidParameter", "A parameter is missing or has an invalid value"),
    StorageError: ("ServiceUnavailable", "The data cannot be read"),
    Exception: ("InternalError", "The request cannot be answered"),
}


def error_response(error: Exception, request: Request) -> Response:
    """Return the report for an error; unexpected errors get a general message.

    The media type is ``application/json`` for existing clients, or that of RFC 9457 if the
    request names it.
    """
    status, (name, title) = entry_of(error, STATUSES), entry_of(error, _PROBLEMS)
    document = {"type": name, "title": title, "status": status, "detail": public_message(error)}
    media_type = PROBLEM if PROBLEM in (request.header("Accept") or "") else JSON
    response = message(status, json.dumps(document, ensure_ascii=False), media_type)
    if status == 406:
        response.headers.append(("Vary", "Accept"))
    return response
