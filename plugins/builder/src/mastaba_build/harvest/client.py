"""Requests to a service: few at a time, repeated after errors, and bounded in size and time."""

from __future__ import annotations

import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import NamedTuple, TypeVar
from urllib.parse import urljoin, urlsplit

from mastaba_build.errors import ServiceError, StoppedError
from mastaba_build.harvest.address import Address
from mastaba_server.web.parameters import whole_number

Result = TypeVar("Result")

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 5
_DENIED = frozenset({401, 403, 407})
_CHUNK = 1 << 16
_PORTS = {"http": 80, "https": 443}
_AGENT = "mastaba-build"


class Answer(NamedTuple):
    """The answer to a request.

    Attributes:
        media_type: in lower case, with its parameters.
    """

    media_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a service, in seconds.

    Attributes:
        silence: for a connection, and between two parts of an answer.
        answer: for a whole answer.
        pauses: before each attempt but the first.
        longest: if a service asks for a longer wait with Retry-After, the build stops.
    """

    silence: float = 60.0
    answer: float = 300.0
    pauses: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
    longest: float = 600.0


PATIENCE = Patience()


class _FailedError(Exception):
    """One attempt has failed; the service may have requested a wait in seconds."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class _Connected(NamedTuple):
    """A connection to a host, and whether it has been used before."""

    connection: HTTPConnection
    is_used: bool


class Client:
    """Asks one service. Each thread has its own connection.

    Args:
        pause: seconds between two requests of one thread.
    """

    def __init__(self, address: Address, pause: float = 0.0) -> None:
        self._address = address
        self._pause = pause
        self._patience = PATIENCE
        self._stopped = threading.Event()
        self._threads = threading.local()
        self._lock = threading.Lock()
        self._not_before = 0.0
        self._open: set[HTTPConnection] = set()
        # Its threads may end before they know that they are not needed any more.
        self.close = weakref.finalize(self, _close, self._open)

    def get(
        self,
        url: str,
        largest: int,
        read: Callable[[Answer], Result],
        *,
        absent: frozenset[int] = frozenset(),
    ) -> Result | None:
        """Return what is read from the answer to a request.

        Args:
            largest: bytes that the answer may have.
            read: raises ValueError if the answer is not what it must be; then it is asked again.
            absent: statuses that mean that there is nothing.

        Returns:
            None if there is nothing.

        Raises:
            ServiceError: all attempts have failed.
            StoppedError: the service denies access, or asks for a long wait.
        """
        pauses = self._patience.pauses
        for attempt in range(len(pauses) + 1):
            self._wait()
            wait = 0.0
            try:
                answer = self._ask(url, largest, absent)
                return None if answer is None else read(answer)
            except _FailedError as error:
                reason, wait = str(error), error.wait
            except (OSError, HTTPException, ValueError) as error:
                reason = str(error) or type(error).__name__
            finally:
                self._threads.ended = time.monotonic()
            reason = self._address.without_secrets(reason)
            if wait > self._patience.longest:
                raise StoppedError(
                    f"{self._address.host} asks to wait {wait:.0f} s ({reason}); run the same "
                    "command again then"
                )
            if attempt == len(pauses) or self._stopped.is_set():
                break
            with self._lock:
                self._not_before = max(self._not_before, time.monotonic() + wait)
            self._stopped.wait(pauses[attempt])
        raise ServiceError(f"{self._address.host}: {reason}, after {attempt + 1} attempts")

    def stop(self) -> None:
        """End all waits; requests that run are not repeated."""
        self._stopped.set()

    def _wait(self) -> None:
        """Wait for the pause between requests, and for the time that the service has requested."""
        ended = getattr(self._threads, "ended", None)
        until = self._not_before if ended is None else max(self._not_before, ended + self._pause)
        while (rest := until - time.monotonic()) > 0 and not self._stopped.wait(rest):
            until = max(until, self._not_before)

    def _ask(self, url: str, largest: int, absent: frozenset[int]) -> Answer | None:
        for _ in range(_MOST_REDIRECTS + 1):
            connected = self._connection(url)
            alarm = _Alarm(self._patience.answer)
            try:
                response = self._sent(connected, url, alarm)
                status = response.status
                if status in absent:
                    self._skip(response)
                    return None
                if status not in _REDIRECTS:
                    return self._answer(response, largest)
                url = self._redirected(url, response.getheader("Location") or "")
                self._skip(response)
            except BaseException:
                self._forget()
                if alarm.has_rung:
                    seconds = f"{self._patience.answer:.0f} s"
                    raise _FailedError(f"the answer took longer than {seconds}") from None
                raise
            finally:
                alarm.off()
        raise _FailedError(f"more than {_MOST_REDIRECTS} redirects")

    def _sent(self, connected: _Connected, url: str, alarm: _Alarm) -> HTTPResponse:
        """Send a request; again over a new connection if the server has closed the one used."""
        parts = urlsplit(url)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        headers = {"Accept-Encoding": "identity", "User-Agent": _AGENT}
        if self._address.authorization:
            headers["Authorization"] = self._address.authorization
        connection = connected.connection
        try:
            connection.request("GET", target, headers=headers)
            alarm.set(connection.sock)
            return connection.getresponse()
        except (ConnectionError, HTTPException):
            if not connected.is_used or alarm.has_rung:
                raise
            connection.close()
            connection.request("GET", target, headers=headers)
            alarm.set(connection.sock)
            return connection.getresponse()

    def _skip(self, response: HTTPResponse) -> None:
        """Read a body that is not needed; close the connection instead if it is long."""
        try:
            _body(response, _CHUNK)
        except _FailedError:
            self._forget()

    def _answer(self, response: HTTPResponse, largest: int) -> Answer:
        status = response.status
        if status in _DENIED:
            raise StoppedError(f"{self._address.host} denies access (status {status})")
        if status != 200:
            wait = _wait_of(response.getheader("Retry-After"))
            raise _FailedError(f"answers with status {status}", wait)
        encoding = response.getheader("Content-Encoding") or "identity"
        if encoding.lower() != "identity":
            raise _FailedError(
                f"answers with the encoding {encoding[:20]}, which was not requested"
            )
        body = _body(response, largest)
        return Answer((response.getheader("Content-Type") or "").strip().lower(), body)

    def _redirected(self, url: str, location: str) -> str:
        """Return the target of a redirect, which must be on the host of the service."""
        target = urljoin(url, location)
        old, new = urlsplit(url), urlsplit(target)
        allowed = {(old.scheme, old.hostname, _port(url))}
        if old.scheme == "http" and _port(url) == _PORTS["http"]:
            allowed.add(("https", old.hostname, _PORTS["https"]))
        if (new.scheme, new.hostname, _port(target)) not in allowed:
            raise _FailedError("redirects to another host, which is not followed")
        return target

    def _connection(self, url: str) -> _Connected:
        """Return the connection of this thread to the host of a URL."""
        parts = urlsplit(url)
        place = parts.scheme, parts.hostname or "", _port(url)
        kept = getattr(self._threads, "kept", None)
        if kept is not None and kept[0] == place:
            return _Connected(kept[1], is_used=kept[1].sock is not None)
        self._forget()
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(place[1], place[2], timeout=self._patience.silence)
        self._threads.kept = place, connection
        with self._lock:
            self._open.add(connection)
        return _Connected(connection, is_used=False)

    def _forget(self) -> None:
        """Close the connection of this thread: what follows an unread answer is unknown."""
        kept = getattr(self._threads, "kept", None)
        if kept is not None:
            kept[1].close()
            self._threads.kept = None
            with self._lock:
                self._open.discard(kept[1])


class _Alarm:
    """Shuts a connection down after a time, however slowly an answer comes."""

    def __init__(self, seconds: float) -> None:
        self.has_rung = False
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._ring)
        self._timer.daemon = True
        self._timer.start()

    def set(self, connected: socket.socket | None) -> None:
        self._socket = connected

    def off(self) -> None:
        self._timer.cancel()

    def _ring(self) -> None:
        self.has_rung = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def _close(connections: Iterable[HTTPConnection]) -> None:
    for connection in connections:
        connection.close()


def _body(response: HTTPResponse, largest: int) -> bytes:
    """Return the whole body of an answer.

    Raises:
        _FailedError: it is too large, or cut short.
    """
    too_large = f"the answer has more than {largest} bytes"
    length = response.length  # None if chunked, or until the end of the connection
    if length is not None and length > largest:
        raise _FailedError(too_large)
    parts, size = [], 0
    while part := response.read1(_CHUNK):
        size += len(part)
        if size > largest:
            raise _FailedError(too_large)
        parts.append(part)
    if length is not None and size < length:
        raise _FailedError(f"the answer ends after {size} of {length} bytes")
    response.close()  # read1 does not, and the connection would not be used again
    return b"".join(parts)


def _wait_of(header: str | None) -> float:
    """Return the seconds in Retry-After, which is a number or a date."""
    if header is None:
        return 0.0
    seconds = whole_number(header.strip())
    if seconds is not None:
        return float(seconds)
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return 0.0
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or _PORTS.get(parts.scheme, 0)
