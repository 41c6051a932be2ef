"""TMS error reports (TMS 1.0.0, "Errors"; tms.md section 2)."""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape

from mastaba.errors import (
    RequestError,
    StorageUnavailableError,
    TileNotFoundError,
    TileOutOfRangeError,
    UnknownNameError,
    UnknownPathError,
    public_message,
)
from mastaba.web.response import Response, message
from mastaba_tms.xml import printable_xml

# The first matching class is used.
_STATUS: Final[tuple[tuple[type[Exception], int], ...]] = (
    (TileOutOfRangeError, 404),
    (TileNotFoundError, 404),
    (UnknownNameError, 404),
    (UnknownPathError, 404),
    (RequestError, 400),
    (StorageUnavailableError, 503),
)


def error_report(error: Exception) -> Response:
    """Return a ``TileMapServerError`` document without internal details."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    text = escape(printable_xml(public_message(error)))
    return message(
        status,
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<TileMapServerError><Message>{text}</Message></TileMapServerError>\n",
        "text/xml",
    )
