"""One HTTP GET with limits on time, size and redirects, for forwarded queries."""

from __future__ import annotations

import time
import zlib
from typing import Final
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from urllib3.util import make_headers

from mastaba_http.client import HTTPAnswer, HTTPClient
from mastaba_server.errors import NoResponseError
from mastaba_storage.environment import Environment
from mastaba_storage.errors import StorageUnavailableError
from mastaba_storage.managed import WaitingRoom

MAX_BODY: Final = 4 * 1024 * 1024
"""Bytes, after decompression."""

MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_SILENCE: Final = 10
"""Seconds without a byte after which the other server counts as gone, by default."""
_WHOLE: Final = 3
"""The whole exchange takes at most this many times as long."""
_AT_A_TIME: Final = 32
_PORTS: Final = {"http": 80, "https": 443}


class Fetcher:
    """Fetches documents over HTTP and HTTPS. Shared by all threads.

    Redirects are followed on the same host only.

    Args:
        environment: NETWORK_TIMEOUT (seconds of silence) and SSL_NO_VERIFY.
        user_agent: value of the User-Agent header.
    """

    def __init__(self, environment: Environment, user_agent: str) -> None:
        silence = environment.integer("NETWORK_TIMEOUT", 0)
        self._silence = silence if silence > 0 else _SILENCE
        self._verify = not environment.flag("SSL_NO_VERIFY")
        self._user_agent = user_agent
        self._room = WaitingRoom("other servers", _AT_A_TIME)

    def get(self, url: str) -> HTTPAnswer:
        """Return the response from a URL, whatever its status; its body is decompressed.

        Raises:
            NoResponseError: no response in time, one larger than `MAX_BODY`, a redirect to
                another host, too many redirects, or not HTTP.
        """
        deadline = time.monotonic() + _WHOLE * self._silence
        for _ in range(MAX_REDIRECTS + 1):
            try:
                answer = self._exchange(url, deadline - time.monotonic())
                target = redirect_of(url, answer)
                if target is None:
                    return HTTPAnswer(answer.status, answer.headers, _body(answer))
            except (NoResponseError, ValueError, zlib.error) as error:
                raise NoResponseError(f"{url}: {error}") from error
            url = target
        raise NoResponseError(f"{url}: too many redirects")

    def _exchange(self, url: str, seconds: float) -> HTTPAnswer:
        if not url.isprintable() or " " in url:
            raise ValueError("the URL contains spaces or control characters")
        if seconds <= 0:
            raise ValueError("no response in time")
        client = HTTPClient(url, self._silence, verify=self._verify, seconds=seconds)
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {"User-Agent": self._user_agent, "Accept-Encoding": "identity"}
        if parts.username is not None:
            credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers |= make_headers(basic_auth=credentials)
        try:
            with self._room.read(url):
                return client.request("GET", target, headers, MAX_BODY + 1)
        except StorageUnavailableError as error:
            raise NoResponseError("too many requests wait for other servers") from error
        finally:
            client.close()


def _body(answer: HTTPAnswer) -> bytes:
    """Return the body without a content coding, which the other server may use unasked."""
    body, coding = answer.body, answer.headers.get("Content-Encoding", "").lower()
    is_large = answer.size > MAX_BODY
    if body and not is_large and coding not in ("", "identity"):
        if coding not in ("gzip", "x-gzip", "deflate"):
            raise ValueError(f"unknown content coding {coding[:20]!r}")
        body = zlib.decompressobj(zlib.MAX_WBITS + 32).decompress(body, MAX_BODY + 1)
        is_large = len(body) > MAX_BODY
    if is_large:
        raise ValueError("the response is too large")
    return body


def redirect_of(url: str, answer: HTTPAnswer) -> str | None:
    """Return where the response from a URL redirects to; None if it does not.

    Raises:
        ValueError: to another host.
    """
    location = answer.headers.get("Location")
    if answer.status not in _REDIRECTS or not location:
        return None
    target = urljoin(url, location)
    if not _same_host(urlsplit(url), urlsplit(target)):
        raise ValueError("it redirects to another host")
    return target


def _same_host(one: SplitResult, other: SplitResult) -> bool:
    """Return whether a redirect stays on its host; it may change from http to https."""
    before, after = (
        (parts.scheme, parts.port or _PORTS.get(parts.scheme)) for parts in (one, other)
    )
    is_upgrade = (before, after) == (("http", 80), ("https", 443))
    return one.hostname == other.hostname and (before == after or is_upgrade)
