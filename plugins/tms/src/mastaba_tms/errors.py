"""TMS error reports (TMS 1.0.0, "Errors"; tms.md section 2)."""

from __future__ import annotations

from typing import Final

from mastaba.api.web import Response, message
from mastaba.errors import (
    RendererMissingError,
    RequestError,
    RequestTooLargeError,
    StorageError,
    TileNotFoundError,
    TileOutOfRangeError,
    UnknownNameError,
    UnknownPathError,
    public_message,
)

# The first matching class is used.
_STATUS: Final[tuple[tuple[type[Exception], int], ...]] = (
    (TileOutOfRangeError, 404),
    (TileNotFoundError, 404),
    (UnknownNameError, 404),
    (UnknownPathError, 404),
    (RequestTooLargeError, 413),
    (RendererMissingError, 501),
    (RequestError, 400),
    (StorageError, 503),
)


def error_report(error: Exception) -> Response:
    """Return a ``TileMapServerError`` document without internal details."""
    # Loaded on first use, so that listing the plugins loads no lxml.
    from mastaba.api.xml import add, root_element, serialized

    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    report = root_element("TileMapServerError")
    add(report, "Message", public_message(error))
    return message(status, serialized(report), "text/xml")
