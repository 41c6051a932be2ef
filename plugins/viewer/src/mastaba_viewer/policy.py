"""The Content-Security-Policy: own files, and tiles and maps from the hosts of the services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from mastaba.api.services import Service

_SOURCES: Final = ("tms", "wmts", "wms", "ogcapi")


def content_security_policy(services: Mapping[str, Service]) -> str:
    """Return the value of the Content-Security-Policy header."""
    sources = " ".join(("'self'", *_origins(services)))
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; "
        f"img-src {sources}; connect-src {sources}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )


def _origins(services: Mapping[str, Service]) -> list[str]:
    """Return the sorted origins (scheme, host and port) of the services of tiles and maps."""
    found = set()
    for name in _SOURCES:
        if name in services:
            parts = urlsplit(services[name].settings.endpoint_uri)
            # Anything else could inject further expressions into the policy.
            if parts.scheme in ("http", "https") and _is_host(parts.netloc):
                found.add(f"{parts.scheme}://{parts.netloc}")
    return sorted(found)


def _is_host(text: str) -> bool:
    return bool(text) and all(c.isascii() and (c.isalnum() or c in ".-:[]_") for c in text)
