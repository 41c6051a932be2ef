"""Feature info, shared by the protocols that offer it (WMS, WMTS)."""

from __future__ import annotations

from typing import Final

INFO_EXTENSIONS: Final = {
    "txt": "text/plain",
    "xml": "text/xml",
    "html": "text/html",
    "json": "application/json",
}
"""Media types that every queryable layer supports, by file extension, in document order."""

INFO_FORMATS: Final = tuple(INFO_EXTENSIONS.values())
"""Media types that every queryable layer supports, in document order."""
