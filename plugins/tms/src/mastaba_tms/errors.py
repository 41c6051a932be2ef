"""TMS error reports (TMS 1.0.0, "Errors"; tms.md section 2)."""

from __future__ import annotations

from typing import Final

from mastaba.api.web import Response, entry_of, message
from mastaba.errors import RendererMissingError, UnsupportedOperationError, public_message
from mastaba_ows.errors import STATUSES

# A layer that GDAL cannot read is an error of the request (tms.md section 2).
_STATUSES: Final = {**STATUSES, UnsupportedOperationError: 400, RendererMissingError: 501}


def error_report(error: Exception) -> Response:
    """Return a ``TileMapServerError`` document without internal details."""
    # Loaded on first use, so that listing the plugins loads no lxml.
    from mastaba_ows.xml import add, root_element, serialized

    report = root_element("TileMapServerError")
    add(report, "Message", public_message(error))
    return message(entry_of(error, _STATUSES), serialized(report), "text/xml")
