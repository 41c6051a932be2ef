"""One HTTP GET with limits on time, size and redirects, for forwarded responses."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Final
from urllib.parse import SplitResult, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from mastaba.environment import Environment

MAX_BODY: Final = 4 * 1024 * 1024
"""Bytes, after decompression."""

_MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_SILENCE: Final = 10
"""Seconds without a byte after which the other server counts as gone, by default."""
_WHOLE: Final = 3
"""The whole exchange takes at most this many times as long."""
_PART: Final = 65536
_PORTS: Final = {"http": 80, "https": 443}


class FetchError(Exception):
    """There is no usable response; the message is for the log."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A complete response.

    Attributes:
        content_type: as received; empty if absent.
    """

    status: int
    content_type: str
    body: bytes


class Fetcher:
    """Client that fetches documents over HTTP and HTTPS.

    Proxies come from HTTP_PROXY, HTTPS_PROXY and NO_PROXY. Redirects are followed on the same
    host only. Shared by all threads.

    Args:
        environment: NETWORK_TIMEOUT (seconds of silence) and SSL_NO_VERIFY.
        user_agent: value of the User-Agent header.
    """

    def __init__(self, environment: Environment, user_agent: str) -> None:
        self._silence = environment.integer("NETWORK_TIMEOUT", 0)
        if self._silence <= 0:
            self._silence = _SILENCE
        self._verify = not environment.flag("SSL_NO_VERIFY")
        self._user_agent = user_agent

    def get(self, url: str) -> Fetched:
        """Return the response from a URL, whatever its status.

        Raises:
            FetchError: no response in time, one larger than `MAX_BODY`, a redirect to another
                host, too many redirects, or not HTTP.
        """
        deadline = time.monotonic() + _WHOLE * self._silence
        for _ in range(_MAX_REDIRECTS + 1):
            try:
                fetched, location = self._exchange(url, deadline)
                if location is None:
                    return fetched
                target = urljoin(url, location)
                if not _same_host(urlsplit(url), urlsplit(target)):
                    raise ValueError("it redirects to another host")
            except (OSError, HTTPException, ValueError, zlib.error) as error:
                raise FetchError(f"{url}: {error or type(error).__name__}") from error
            url = target
        raise FetchError(f"{url}: redirects again and again")

    def _exchange(self, url: str, deadline: float) -> tuple[Fetched, str | None]:
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError("not an HTTP address")
        connection, target, headers = self._connection(parts)
        headers |= {"User-Agent": self._user_agent, "Accept-Encoding": "identity"}
        try:
            connection.connect()
            with _Watchdog(connection.sock, deadline):
                connection.request("GET", target, headers=headers)
                with connection.getresponse() as response:
                    return _answer(response)
        finally:
            connection.close()

    def _connection(self, parts: SplitResult) -> tuple[HTTPConnection, str, dict[str, str]]:
        """Return an unopened connection, the request target and headers."""
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = _authorization("Authorization", parts)
        proxy = "" if proxy_bypass(host) else getproxies().get(parts.scheme, "")
        if not proxy:
            return self._open(parts.scheme, host, port), target, headers
        via = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        credentials = _authorization("Proxy-Authorization", via)
        connection = self._open(parts.scheme, via.hostname or "", via.port or _PORTS["http"])
        if parts.scheme == "https":
            connection.set_tunnel(host, port, credentials)
            return connection, target, headers
        netloc = parts.netloc.rpartition("@")[2]
        return connection, f"http://{netloc}{target}", headers | credentials

    def _open(self, scheme: str, host: str, port: int) -> HTTPConnection:
        if scheme == "http":
            return HTTPConnection(host, port, timeout=self._silence)
        return HTTPSConnection(host, port, timeout=self._silence, context=self._context)

    @cached_property
    def _context(self) -> ssl.SSLContext:
        # Loading all CA certificates takes longer than many responses.
        context = ssl.create_default_context()
        if not self._verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class _Watchdog:
    """Shuts down a connection at a deadline.

    The timeout of a socket restarts with each byte, so it does not stop a slow trickle.
    """

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._fired = False
        self._timer = threading.Timer(max(0.0, deadline - time.monotonic()), self._cut)
        self._timer.daemon = True

    def _cut(self) -> None:
        self._fired = True
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *raised: object) -> None:
        self._timer.cancel()
        # A truncated response looks complete if it ends with the connection.
        if self._fired:
            raise TimeoutError("the answer takes too long")


def _answer(response: HTTPResponse) -> tuple[Fetched, str | None]:
    """Return the response, and the target of a redirect or None."""
    location = response.getheader("Location")
    if response.status in _REDIRECTS and location:
        return Fetched(response.status, "", b""), location
    body = _decoded(_read(response), response.getheader("Content-Encoding"))
    return Fetched(response.status, response.getheader("Content-Type") or "", body), None


def _read(response: HTTPResponse) -> bytes:
    """Return the whole body.

    Raises:
        ValueError: it is too large.
        OSError: it is truncated.
    """
    if response.length is not None and response.length > MAX_BODY:
        raise ValueError("the answer is too large")
    parts = []
    size = 0
    while part := response.read1(_PART):
        size += len(part)
        if size > MAX_BODY:
            raise ValueError("the answer is too large")
        parts.append(part)
    if response.length:
        raise OSError("the answer was cut short")
    return b"".join(parts)


def _decoded(body: bytes, coding: str | None) -> bytes:
    """Undo a content coding that the other server used without being asked."""
    if not body or not coding or coding.lower() == "identity":
        return body
    if coding.lower() not in ("gzip", "x-gzip", "deflate"):
        raise ValueError(f"unknown content coding {coding[:20]!r}")
    plain = zlib.decompressobj(zlib.MAX_WBITS + 32).decompress(body, MAX_BODY + 1)
    if len(plain) > MAX_BODY:
        raise ValueError("the answer is too large")
    return plain


def _authorization(header: str, parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {header: "Basic " + base64.b64encode(credentials.encode()).decode()}


def _same_host(one: SplitResult, other: SplitResult) -> bool:
    """Return whether a redirect stays on its host; it may change from http to https."""
    if one.hostname != other.hostname:
        return False
    ports = [parts.port or _PORTS.get(parts.scheme) for parts in (one, other)]
    if one.scheme == other.scheme:
        return ports[0] == ports[1]
    return (one.scheme, other.scheme) == ("http", "https") and ports == [80, 443]
