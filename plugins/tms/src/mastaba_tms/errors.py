"""TMS error reports (TMS 1.0.0, "Errors"; tms.md section 2)."""

from __future__ import annotations

from mastaba.api.web import Response, message
from mastaba.errors import public_message
from mastaba_ows.errors import STATUSES, entry_of


def error_report(error: Exception) -> Response:
    """Return a ``TileMapServerError`` document without internal details."""
    # Loaded on first use, so that listing the plugins loads no lxml.
    from mastaba.api.xml import add, root_element, serialized

    report = root_element("TileMapServerError")
    add(report, "Message", public_message(error))
    return message(entry_of(error, STATUSES), serialized(report), "text/xml")
