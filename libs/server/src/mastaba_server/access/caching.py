"""Which caches may store an answer, and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mastaba_server.access.door import Visit
from mastaba_server.web.response import Response

_NEVER_PRIVATE: Final = ("public", "s-maxage", "stale-if-error", "private")


def secure(response: Response, visit: Visit, vary: Sequence[str], *, is_document: bool) -> None:
    """Set the headers of a response that say which caches may store it, and for whom.

    Args:
        vary: names of the headers that identify clients.
        is_document: whether it is a document, which contains addresses.
    """
    headers = response.headers
    fields = {name.lower(): value for name, value in headers}
    given = fields.get("cache-control")
    wanted: str | None = None
    if response.status >= 400:
        wanted = "no-store"
    elif is_document and not visit.is_anonymous:
        wanted = "private, no-cache"
    elif visit.is_private:
        parts = [] if given is None else [part.strip() for part in given.split(",")]
        kept = [one for one in parts if not one.lower().startswith(_NEVER_PRIVATE)]
        wanted = ", ".join(["private", *kept])
    if wanted is not None:
        headers[:] = [one for one in headers if one[0].lower() != "cache-control"]
        headers.append(("Cache-Control", wanted))
    if vary and (is_document or not visit.is_shared):
        headers.append(("Vary", ", ".join(vary)))
    if fields.get("content-type", "").startswith("text/html"):
        headers[:] = [one for one in headers if one[0].lower() != "referrer-policy"]
        headers.append(("Referrer-Policy", "no-referrer"))
