"""Bodies of which any part can be made on its own: ranges of them (RFC 9110, section 14)."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, Final

from werkzeug.http import parse_etags

from mastaba_server.access.clients import client_of
from mastaba_server.body import CutShortError, SizedBody
from mastaba_server.errors import OverloadedError, ServerError
from mastaba_server.messages import CLIENT, Client
from mastaba_server.web.conditional import byte_range, is_known
from mastaba_server.web.request import Request
from mastaba_server.web.response import Headers, Response

LARGEST_PIECE: Final = 1024 * 1024
"""Bytes. A part of at most this size is not counted by `Streams`."""
_OF_CACHES: Final = frozenset(
    ("Cache-Control", "Content-Location", "Expires", "Surrogate-Key", "Vary")
)
"""Headers of 200 that 304 has too (RFC 9110, 15.4.5), beside ETag."""


class AddressableBody(ABC):
    """A body whose size is known before it is made, and of which any part can be made.

    Args:
        size: bytes of the whole body.
        version: text that changes with the bytes, without quotes: the ETag. None if the bytes may
            change without notice; no ranges are served then.
    """

    def __init__(self, size: int, version: str | None) -> None:
        self.size = size
        self.version = version

    @abstractmethod
    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes from ``start`` to before ``end`` in pieces of at most `LARGEST_PIECE`.

        A piece is made when the one before has been sent. An error ends the connection, so that
        the client sees that its answer is incomplete.

        Raises:
            ServerError: a piece cannot be made, or the bytes no longer have the version.
        """


class Streams:
    """Counts the long bodies that a process is sending.

    Args:
        most: bodies at a time.
        of_client: bodies at a time for one client; see `mastaba_server.access.clients.client_of`.
            Where that is unknown, only ``most`` holds.
    """

    def __init__(self, most: int = 2, of_client: int = 1) -> None:
        self._most = most
        self._of_client = of_client
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    def take(self, client: str) -> None:
        """Count one more body for a client; empty for an unknown one.

        Raises:
            OverloadedError: there are as many as there may be.
        """
        with self._lock:
            is_many = self._running.total() >= self._most
            if is_many or (client and self._running[client] >= self._of_client):
                raise OverloadedError("too many downloads are running", retry_after=30)
            self._running[client] += 1

    def release(self, client: str) -> None:
        """Count one body less."""
        with self._lock:
            self._running[client] -= 1
            if self._running[client] <= 0:
                del self._running[client]


def addressable_response(
    request: Request, headers: Headers, body: AddressableBody, streams: Streams
) -> Response:
    """Return the answer to a request for a body: 200, 206, 304, 412 or 416.

    One range is served. A request for several gets the whole body, which is always allowed.

    Args:
        headers: of a complete answer. ETag, Accept-Ranges and Content-Range are added.
        streams: counts the bodies of more than one piece.

    Raises:
        OverloadedError: too many long bodies are being sent.
    """
    sent = request.environ
    etag = None if body.version is None else f'"{body.version}"'
    if not _if_match(sent, etag):
        return Response(412, [])
    of_all = [("ETag", etag)] if etag else []
    of_all.append(("Accept-Ranges", "bytes" if etag else "none"))
    if etag and is_known(sent, etag):
        return Response(304, [*of_all, *(item for item in headers if item[0] in _OF_CACHES)])
    headers = headers + of_all
    method = sent["REQUEST_METHOD"]
    start, end, status = 0, body.size, 200
    # Range is defined for GET alone.
    if etag and method == "GET" and sent.get("HTTP_IF_RANGE", etag).strip() == etag:
        part = byte_range(sent.get("HTTP_RANGE", ""), body.size)
        if part is not None:
            start, end = part
            if start >= end:
                return Response(416, [*of_all, ("Content-Range", f"bytes */{body.size}")])
            status = 206
            headers.append(("Content-Range", f"bytes {start}-{end - 1}/{body.size}"))
    counted = None
    if method != "HEAD" and end - start > LARGEST_PIECE:
        counted = streams, client_of(sent)
    return Response(status, headers, _Part(body, start, end, sent.get(CLIENT), counted))


class _Part(SizedBody):
    """Part of an addressable body, made while it is sent."""

    def __init__(
        self,
        body: AddressableBody,
        start: int,
        end: int,
        client: Client | None,
        counted: tuple[Streams, str] | None,
    ) -> None:
        self._counted: tuple[Streams, str] | None = None
        self._body = body
        self._start, self._end = start, end
        self._client = client
        self._ended: list[Callable[[int], None]] = []
        self._sent = 0
        if counted is not None:
            streams, whose = counted
            streams.take(whose)
            self._counted = counted

    def __len__(self) -> int:
        return self._end - self._start

    def __iter__(self) -> Iterator[bytes]:
        pieces = self._body.pieces(self._start, self._end)
        try:
            while True:
                # Another thread answers requests while this one reads.
                with nullcontext() if self._client is None else self._client.aside():
                    try:
                        piece = next(pieces, None)
                    except ServerError as error:
                        raise CutShortError(str(error)) from error
                if piece is None:
                    return
                yield piece
                self._sent += len(piece)
        finally:
            self.close()

    def report(self, ended: Callable[[int], None]) -> bool:
        self._ended.append(ended)
        return True

    def close(self) -> None:
        while self._ended:
            self._ended.pop()(self._sent)
        counted, self._counted = self._counted, None
        if counted is not None:
            streams, whose = counted
            streams.release(whose)

    def __del__(self) -> None:
        # A response that is not sent is not closed either.
        self.close()


def _if_match(sent: Mapping[str, Any], etag: str | None) -> bool:
    """Return whether If-Match, which compares strongly, allows an answer."""
    text: str | None = sent.get("HTTP_IF_MATCH")
    if not text:
        return True
    wanted = parse_etags(text)
    return wanted.star_tag or (etag is not None and wanted.is_strong(etag.strip('"')))
