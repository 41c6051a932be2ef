"""The Content-Security-Policy: own files, and tiles and maps from the hosts of the services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from mastaba.api.services import Service

_SOURCES: Final = (
    *("tms", "wmts", "wms", "ogcapi", "elevation", "terrain", "export", "stylesheets"),
    *("usage", "provenance"),
)


def content_security_policy(services: Mapping[str, Service], basemap: str | None) -> str:
    """Return the value of the Content-Security-Policy header.

    Args:
        services: enabled services by name.
        basemap: template of the URLs of tiles from another server.
    """
    uris = [services[name].settings.endpoint_uri for name in _SOURCES if name in services]
    sources = " ".join(("'self'", *_origins(uris)))
    images = " ".join(("'self'", *_origins([*uris, basemap] if basemap else uris)))
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; worker-src 'self'; "
        "font-src 'self'; "
        f"img-src {images}; connect-src {sources}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )


def _origins(uris: Iterable[str]) -> list[str]:
    """Return the sorted origins (scheme, host and port) of URLs."""
    found = set()
    for uri in uris:
        parts = urlsplit(uri)
        # Anything else could inject further expressions into the policy.
        if parts.scheme in ("http", "https") and _is_host(parts.netloc):
            found.add(f"{parts.scheme}://{parts.netloc}")
    return sorted(found)


def _is_host(text: str) -> bool:
    return bool(text) and all(c.isascii() and (c.isalnum() or c in ".-:[]_") for c in text)
