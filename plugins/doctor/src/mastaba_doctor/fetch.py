"""One HTTP GET with a timeout, which follows no redirects."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from mastaba import __version__
from mastaba.api.storages import Environment
from mastaba_doctor.answer import SEEN, Answer, media_type
from mastaba_http import HTTPClient

_TIMEOUT: Final = 5.0
"""Seconds to connect, and between two pieces of the response."""
_MAX_SECONDS: Final = 60.0
_MAX_BODY: Final = 64 * 1024 * 1024


def get(url: str, environment: Environment) -> Answer:
    """Return the response to a GET, whatever its status.

    Proxies come from HTTP_PROXY, HTTPS_PROXY and NO_PROXY; SSL_NO_VERIFY accepts any certificate.

    Raises:
        NoResponseError: no response in time, or not an HTTP response.
    """
    client = HTTPClient(url, _TIMEOUT, verify=not environment.flag("SSL_NO_VERIFY"))
    parts = urlsplit(url)
    headers = {"User-Agent": f"Mastaba/{__version__} check", "Accept-Encoding": "identity"}
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    answer = client.request("GET", target, headers, _MAX_BODY, _MAX_SECONDS)
    return Answer(
        answer.status,
        media_type(answer.headers.get("Content-Type") or ""),
        answer.body[:SEEN],
        answer.headers.get("Location") or "",
    )
