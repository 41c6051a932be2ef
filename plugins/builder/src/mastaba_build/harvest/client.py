"""Requests to a service: few at a time, repeated after errors, and bounded in size and time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

from mastaba.errors import NoResponseError
from mastaba_build.errors import ServiceError, StoppedError
from mastaba_build.harvest.address import Address
from mastaba_http import HTTPAnswer, HTTPClient, failure_reason
from mastaba_http.fetch import MAX_REDIRECTS, redirect_of
from mastaba_server.web.parameters import whole_number
from mastaba_storage.environment import Environment

Result = TypeVar("Result")

_DENIED = frozenset({401, 403})
_DENIED_BY_PROXY = 407
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


class Client:
    """Asks one service, from any number of threads.

    Args:
        pause: seconds after a request before the next one of the same thread.
    """

    def __init__(self, address: Address, pause: float = 0.0) -> None:
        self._address = address
        self._pause = pause
        self._patience = PATIENCE
        self._stopped = threading.Event()
        self._threads = threading.local()
        self._lock = threading.Lock()
        self._not_before = 0.0
        # By scheme: redirects and templates stay on the host (`redirect_of`, `wmts._template`), but
        # may change to HTTPS.
        self._clients: dict[str, HTTPClient] = {}
        self._headers = {"Accept-Encoding": "identity", "User-Agent": _AGENT}
        if address.authorization:
            self._headers["Authorization"] = address.authorization

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
            except NoResponseError as error:
                reason = failure_reason(error)
            except ValueError as error:
                reason = str(error)
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

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()

    def _wait(self) -> None:
        """Wait for the pause between requests, and for the time that the service has requested."""
        ended = getattr(self._threads, "ended", None)
        until = self._not_before if ended is None else max(self._not_before, ended + self._pause)
        while (rest := until - time.monotonic()) > 0 and not self._stopped.wait(rest):
            until = max(until, self._not_before)

    def _ask(self, url: str, largest: int, absent: frozenset[int]) -> Answer | None:
        for _ in range(MAX_REDIRECTS + 1):
            parts = urlsplit(url)
            target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
            client = self._client_of(parts.scheme, url)
            answer = client.request("GET", target, self._headers, largest + 1)
            if answer.status in absent:
                return None
            location = redirect_of(url, answer)
            if location is None:
                return self._checked(answer, largest)
            url = location
        raise _FailedError(f"more than {MAX_REDIRECTS} redirects")

    def _client_of(self, scheme: str, url: str) -> HTTPClient:
        """Return the client of the service for a scheme, whose connections all threads share."""
        with self._lock:
            client = self._clients.get(scheme)
            if client is None:
                silence, seconds = self._patience.silence, self._patience.answer
                verify = not Environment().flag("SSL_NO_VERIFY")
                client = HTTPClient(url, silence, verify=verify, seconds=seconds)
                self._clients[scheme] = client
            return client

    def _checked(self, answer: HTTPAnswer, largest: int) -> Answer:
        if answer.status in _DENIED:
            raise StoppedError(f"{self._address.host} denies access (status {answer.status})")
        if answer.status == _DENIED_BY_PROXY:
            raise StoppedError(f"the proxy denies access (status {answer.status})")
        if answer.status != 200:
            wait = _wait_of(answer.headers.get("Retry-After"))
            raise _FailedError(f"answers with status {answer.status}", wait)
        encoding = answer.headers.get("Content-Encoding") or "identity"
        if encoding.lower() != "identity":
            raise _FailedError(
                f"answers with the encoding {encoding[:20]}, which was not requested"
            )
        if answer.size > largest:
            raise _FailedError(f"the answer has more than {largest} bytes")
        return Answer(answer.headers.get("Content-Type", "").strip().lower(), answer.body)


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
