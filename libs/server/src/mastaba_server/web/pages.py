"""Pages for browsers that contain no scripts."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from mastaba_server.web.response import preferred_media_type

if TYPE_CHECKING:
    from mastaba_server.web.request import Request

HTML: Final = "text/html"


def page_headers(style: str) -> tuple[tuple[str, str], ...]:
    """Return the headers of a page without scripts that has one style sheet, in itself."""
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        f"style-src 'sha256-{digest}'"
    )
    return (
        ("Content-Security-Policy", policy),
        ("X-Content-Type-Options", "nosniff"),
        # The address may contain a key.
        ("Referrer-Policy", "no-referrer"),
    )


def base_path(uri: str) -> str:
    """Return the path of a public address, percent-encoded, without a slash at its end.

    Without scheme and host, the links in pages also work under another host name.
    """
    return quote(urlsplit(uri).path.rstrip("/"), safe="/%:@!$&'()*+,;=~-._")


def wants_page(request: Request, media_type: str = "application/json") -> bool:
    """Return whether a client prefers a page to a document, by ``f`` or else ``Accept``.

    Only browsers name HTML; others accept anything.
    """
    if form := request.query.get("f", "").lower():
        return form in ("html", HTML)
    accepted = (request.header("Accept") or "").lower()
    return HTML in accepted and preferred_media_type(request, (media_type, HTML)) == HTML
