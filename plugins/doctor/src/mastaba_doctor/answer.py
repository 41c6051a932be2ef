"""Responses of a service, received from outside or inside, and their comparison."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from werkzeug.test import EnvironBuilder, run_wsgi_app

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

SEEN: Final = 256 * 1024
"""Number of bytes of a body that are examined."""

_BEGINNING: Final = 12
_ROOT_ELEMENT: Final = re.compile(rb"<(?![?!])(?:[\w.-]+:)?([\w.-]+)")


@dataclass(frozen=True, slots=True)
class Answer:
    """One response.

    Attributes:
        media_type: in lower case, without parameters.
        body: its first `SEEN` bytes.
        location: target of a redirect; empty if there is none.
    """

    status: int
    media_type: str
    body: bytes
    location: str = ""

    def resembles(self, other: Answer) -> bool:
        """Return whether both have the same status, media type and kind of body.

        The kind is its JSON members, its outermost element, or else its first characters.
        """
        return (self.status, self.media_type, self._kind) == (
            other.status,
            other.media_type,
            other._kind,
        )

    @property
    def _kind(self) -> object:
        if self.media_type.endswith("json"):
            return _json_kind(self.body)
        if self.media_type.endswith(("xml", "html")):
            found = _ROOT_ELEMENT.search(self.body)
            return found and found[1].lower()
        # The rest may change, such as the metrics and their values.
        return self.body[:_BEGINNING]


def _json_kind(body: bytes) -> object:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        # Truncated, or not JSON: the first key distinguishes kinds of documents.
        return body[:_BEGINNING]
    if not isinstance(document, dict):
        return type(document)
    if set(document) == {"error", "error_description"}:
        return document["error_description"]
    return tuple(sorted(document))


def ask_inside(application: WSGIApplication, path: str, query: str = "") -> Answer:
    """Send a request to the application in this process.

    Args:
        path: decoded path, starting with a slash.
    """
    environ: dict[str, Any] = EnvironBuilder(path="/", query_string=query).get_environ()
    environ["PATH_INFO"] = path.encode("utf-8").decode("latin-1")
    iterable, status, headers = run_wsgi_app(application, environ, buffered=True)
    body = b"".join(iterable)[:SEEN]
    return Answer(int(status.split()[0]), media_type(headers.get("Content-Type", "")), body)


def media_type(content_type: str) -> str:
    """Return a Content-Type in lower case without its parameters."""
    return content_type.partition(";")[0].strip().lower()
