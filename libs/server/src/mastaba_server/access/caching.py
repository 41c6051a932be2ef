"""Which caches may store an answer, and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from mastaba_server.access.door import Visit
from mastaba_server.web.response import Response

_OF_CACHES: Final = len("cache-control")
_OF_TYPE: Final = len("content-type")
_NEVER_PRIVATE: Final = ("public", "s-maxage", "stale-if-error", "private")


def secure(response: Response, visit: Visit, vary: Sequence[str], *, is_document: bool) -> None:
    """Set the headers of a response that say which caches may store it, and for whom.

    Args:
        vary: names of the headers that identify clients.
        is_document: whether it is a document, which contains addresses.
    """
    headers = response.headers
    given: str | None = None
    wanted: str | None = None
    is_page = False
    others = []
    # One pass, and few calls: this runs for each tile of a restricted view.
    for item in headers:
        size = len(item[0])
        if size == _OF_CACHES and item[0].lower() == "cache-control":
            given = item[1]
            continue
        others.append(item)
        if size == _OF_TYPE and item[0].lower() == "content-type":
            is_page = item[1].startswith("text/html")
    if response.status >= 400:
        wanted = "no-store"
    elif is_document and not visit.is_anonymous:
        wanted = "private, no-cache"
    elif visit.is_private:
        wanted = _private(given)
    if wanted is not None:
        headers[:] = [*others, ("Cache-Control", wanted)]
    if vary and (is_document or not visit.is_shared):
        headers.append(("Vary", ", ".join(vary)))
    if is_page:
        headers[:] = [one for one in headers if one[0].lower() != "referrer-policy"]
        headers.append(("Referrer-Policy", "no-referrer"))


@lru_cache(maxsize=64)
def _private(given: str | None) -> str:
    """Return the Cache-Control of an answer for one client, for that of others."""
    parts = [] if given is None else [part.strip() for part in given.split(",")]
    kept = [one for one in parts if not one.lower().startswith(_NEVER_PRIVATE)]
    return ", ".join(["private", *kept])
