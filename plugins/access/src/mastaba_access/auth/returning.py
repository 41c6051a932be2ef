"""Where a page may go after a session was started."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote, urlsplit

_LONGEST: Final = 2048


def safe_return(text: str, own: str, endpoints: Iterable[str]) -> str | None:
    """Return a path that is below one of our own addresses; None for anything else.

    Args:
        text: as requested: a path, perhaps with a query.
        own: address of this service; others are ours if they have the same origin.
        endpoints: addresses of the services.
    """
    if not text.startswith("/") or len(text) > _LONGEST or not text.isascii() or " " in text:
        return None
    decoded = unquote(text)
    for form in (text, decoded, unquote(decoded)):
        # Browsers read a backslash as a slash, and skip control characters.
        if form.startswith("//") or "\\" in form or not form.isprintable():
            return None
        if not {".", ".."}.isdisjoint(form.partition("?")[0].split("/")):
            return None
    origin = urlsplit(own)[:2]
    path = text.partition("?")[0].partition("#")[0]
    for endpoint in endpoints:
        parts = urlsplit(endpoint)
        below = parts.path.rstrip("/")
        if parts[:2] == origin and (path == below or path.startswith(f"{below}/")):
            return text
    return None
