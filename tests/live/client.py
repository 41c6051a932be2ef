"""An HTTP client that shows everything, and can misbehave."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.live.processes import PATIENCE

_FORM = {"Content-Type": "application/x-www-form-urlencoded"}

_PAUSE = 0.01
"""Seconds between the requests of a client that never stops asking."""


@dataclass(frozen=True)
class Answer:
    """One answer; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]


class BrokenAnswerError(Exception):
    """The connection ended before or within the answer."""


def ask(
    url: str,
    path: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | Iterable[bytes] | None = None,
) -> Answer:
    """Make one request on a connection of its own. A body in pieces is sent chunked.

    Raises:
        BrokenAnswerError: no complete answer came.
    """
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    try:
        connection.request(method, path, body=body, headers=dict(headers or {}))
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, response.read())
    except (OSError, http.client.HTTPException) as error:
        raise BrokenAnswerError(repr(error)) from error
    finally:
        connection.close()


def ask_many(url: str, paths: Iterable[str], clients: int) -> list[Answer]:
    """Make requests by several clients at a time; answers in the order of the paths."""
    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(lambda path: ask(url, path), paths))


def abort(url: str, path: str, *, after: int = 0) -> None:
    """Ask, read some bytes of the answer, and reset the connection."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port or 80), PATIENCE) as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        if after:
            sock.recv(after)
        # A linger time of zero makes the close a reset.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def ask_raw(url: str, target: bytes, headers: bytes = b"") -> bytes:
    """Ask with a request target as it is, however wrong; returns the whole answer.

    Args:
        headers: further lines, each with its end.
    """
    parts = urlsplit(url)
    received = []
    with socket.create_connection((parts.hostname, parts.port or 80), PATIENCE) as sock:
        host = parts.netloc.encode()
        start = b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n" % (target, host)
        sock.sendall(start + headers + b"\r\n")
        while piece := sock.recv(65536):
            received.append(piece)
    return b"".join(received)


@dataclass
class Load:
    """What clients that never stop asking got so far."""

    answers: list[Answer] = field(default_factory=list)
    broken: list[BrokenAnswerError] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, url: str, path: str, form: bytes | None, pause: float) -> None:
        method, headers = ("GET", None) if form is None else ("POST", _FORM)
        # A client that does not pause takes the processors from the servers that start meanwhile.
        while not self.stop.wait(pause):
            try:
                self.answers.append(ask(url, path, method=method, headers=headers, body=form))
            except BrokenAnswerError as error:
                self.broken.append(error)

    @property
    def statuses(self) -> set[int]:
        return {answer.status for answer in self.answers}


@contextmanager
def load(
    url: str, path: str, clients: int = 4, form: bytes | None = None, pause: float = _PAUSE
) -> Iterator[Load]:
    """Keep asking while the block runs, by POST if there is a form, with pauses in seconds."""
    state = Load()
    arguments = url, path, form, pause
    threads = [threading.Thread(target=state.run, args=arguments) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield state
    finally:
        state.stop.set()
        for thread in threads:
            thread.join()
