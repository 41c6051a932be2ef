"""One connection to a client, whatever its protocol: bytes in and out, never waiting for input."""

from __future__ import annotations

import logging
import math
import select
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from wsgiref.types import WSGIApplication

from mastaba_server.messages import Answer

logger = logging.getLogger(__name__)

# Large enough for many requests without a body, and for bodies in few calls.
_RECEIVE_SIZE = 0x10000
# Bytes that a Unix socket holds of a response that does not fit into a usual one.
_SEND_BUFFER = 1 << 20
_DONTWAIT = socket.MSG_DONTWAIT
# For data before the end of a connection: TCP on Linux sends both at once, so that a client which
# has read the response also knows that it must not send another request.
_BEFORE_END = _DONTWAIT | getattr(socket, "MSG_MORE", 0)
# Far below the kernel's limit on buffers per call, far above what one call can send.
_MAX_BUFFERS = 512
# Seconds in which a client must close its side after the last response.
_LINGER = 5.0

Buffers = list[bytes | memoryview]
Pieces = Sequence[bytes | memoryview]
"""What is sent, in order. At most the last one is part of a file."""

NEVER = math.inf
"""A deadline that is not reached."""


class DisconnectedError(Exception):
    """The connection to the client is gone."""


class MalformedError(ValueError):
    """Bytes that are not valid in the protocol. The connection cannot be used any further."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a connection. Sizes are in bytes, durations in seconds.

    Attributes:
        params: parameters of a FastCGI request; a request with more is refused.
        body: part of a request body that the application sees. The rest is received and dropped,
            so the application can answer 413. Must exceed the application's limit.
        head_time: time in which request line and header fields (HTTP) must arrive.
        body_time: time in which the body of an HTTP request must arrive.
        send_time: a client that receives nothing of its response for as long is dropped.
    """

    params: int = 1 << 20
    body: int = 2 << 20
    head_time: float = 30.0
    body_time: float = 30.0
    send_time: float = 60.0


class Owner(Protocol):
    """What a connection uses of the server that owns it."""

    application: WSGIApplication
    environ: dict[str, Any]
    """WSGI keys with the same value in all requests."""
    limits: Limits
    stored_tile: Callable[[str, str, Mapping[str, Any]], Answer | None] | None
    """Answers a GET request from path, query and headers without a WSGI call; None for the others.

    What it raises is in the environ of the call that follows, as `FAILURE`.
    """
    retiring: bool
    """Whether other processes serve the next request of each connection."""
    reading: set[Connection]
    """Connections that may be about to read; those that start to do so see ``retiring``."""

    @property
    def closing(self) -> bool:
        """Whether connections are closed after their response, because the server stops."""

    def forget(self, connection: Connection) -> None:
        """Forget a connection that is about to close its socket."""

    def delay(self, connection: Connection, seconds: float) -> bool:
        """Let the next answer of a connection wait: it sets ``is_delayed`` until that is over.

        Returns:
            False if too many answers wait: it is sent at once.
        """

    def aside(self, connection: Connection) -> AbstractContextManager[None]:
        """Serve without the calling thread meanwhile: its request takes long."""


class Resumable(Protocol):
    """A response that is sent in pieces."""

    def resume(self) -> None:
        """Send more, once everything before is sent.

        Raises:
            DisconnectedError: the connection broke, or must be closed.
        """

    def release(self) -> None:
        """Release the response, sent or not."""


class Connection(ABC):
    """A connection that keeps its state between arrivals of data.

    `run` is called whenever the socket may be readable or writable, by one thread at a time (the
    one that holds ``owned``). A connection waits for room in the socket only when an application
    calls ``write``. Data that does not fit into the socket stays in ``output``: at most one piece
    of a streamed response. The next piece is fetched once it is sent.

    Attributes:
        owned: held by the thread that runs the connection.
        again: set when an event arrives while another thread runs the connection.
        hangup: the end of the input was announced and must still be read.
        is_lost: nothing can be sent either.
        registered: the events for which the server has registered the connection.
        answered: it has answered at least one request.
        output: data that does not fit into the socket.
        deadline: time (monotonic clock) at which `expire` must be called.
        closing: the connection is closed after the present response.
        is_delayed: the present answer waits, and nothing is read meanwhile.
        ending: input is discarded from now on; after the present response, the connection is
            closed as soon as the client has closed its side.
    """

    def __init__(self, sock: socket.socket, owner: Owner) -> None:
        self.socket = sock
        self.owner = owner
        self.descriptor = sock.fileno()
        self.owned = threading.Lock()
        self.again = False
        self.hangup = False
        self.is_lost = False
        self.registered = 0
        self.open = True
        self.answered = False
        self.output: Pieces = []
        self.deadline = NEVER
        self.closing = False
        self.is_delayed = False
        self.ending = False
        self._unfinished: Resumable | None = None
        self._is_wide = False

    @property
    def is_local(self) -> bool:
        """Whether the client is on this machine, behind a Unix socket."""
        return self.socket.family == socket.AF_UNIX

    @staticmethod
    @abstractmethod
    def environ(listener: socket.socket) -> dict[str, Any]:
        """Return the WSGI keys that the protocol adds to every request."""

    @property
    @abstractmethod
    def idle(self) -> bool:
        """Whether the connection waits for a new request."""

    @abstractmethod
    def receive(self, data: bytes) -> None:
        """Process data, and answer the requests that are complete.

        Stops when ``output`` is not empty; is called without data once that is sent.

        Raises:
            MalformedError: the data is not valid in the protocol.
            DisconnectedError: the connection broke, or must be closed.
        """

    def run(self) -> None:
        """Do all that can be done now. Connection errors close it and do not propagate."""
        try:
            if self.output:
                if self.is_delayed:
                    # A client that has sent its end may still read.
                    if self.is_lost:
                        self.close()
                    return
                self._flush()
            reading = self.owner.reading
            while self.open and not self.output:
                reading.add(self)
                try:
                    if self.owner.retiring and self.idle:
                        return
                    data = self.socket.recv(_RECEIVE_SIZE, _DONTWAIT)
                finally:
                    reading.discard(self)
                if not data:
                    self.close()
                    return
                if not self.ending:
                    self.receive(data)
                if len(data) < _RECEIVE_SIZE and not self.hangup:
                    # Nothing is left; new data raises a new event.
                    return
        except BlockingIOError:
            pass
        except MalformedError as error:
            logger.warning("connection closed: %s", error)
            self.close()
        except (DisconnectedError, OSError) as error:
            logger.debug("connection lost: %s", error)
            self.close()
        except Exception:
            logger.exception("a connection failed")
            self.close()

    def expire(self) -> None:
        """Give up a client that has not sent or received in time."""
        logger.debug("connection closed: the client does not send or receive in time")
        self.close()

    def close(self) -> None:
        """Close the socket immediately."""
        if self.open:
            self.open = False
            self.output = []
            self.owner.forget(self)
            self.socket.close()
            if self._unfinished is not None:
                self._unfinished.release()

    def linger(self) -> None:
        """Shut down our side, and discard what the client still sends until it closes its own.

        Closing at once would reset the connection before the client has read the response.
        """
        self.ending = True
        self.deadline = time.monotonic() + _LINGER
        self.socket.shutdown(socket.SHUT_WR)

    def send_last(self, buffers: Pieces) -> None:
        """Send the end of a response, and keep what the socket does not accept.

        Raises:
            DisconnectedError: the connection broke.
        """
        self._unfinished = None
        if self._is_kept(buffers):
            return
        self._send(buffers, _BEFORE_END if self.closing or self.ending else _DONTWAIT)
        if self.output:
            self._expect_progress()
        else:
            self._complete()

    def send_part(self, buffers: Buffers, response: Resumable) -> None:
        """Send part of a response, and keep what the socket does not accept.

        The response is resumed once that is sent.

        Raises:
            DisconnectedError: the connection broke.
        """
        self._unfinished = response
        if self._is_kept(buffers):
            return
        self._send(buffers)
        if self.output:
            self._expect_progress()

    def send_now(self, buffers: Buffers) -> None:
        """Send data, waiting for a slow receiver that makes progress.

        Raises:
            DisconnectedError: the connection broke, or the receiver stalled for too long.
        """
        self.is_delayed = False
        self._send(buffers)
        if not self.output:
            return
        poll = select.poll()
        poll.register(self.socket, select.POLLOUT)
        while self.output:
            if not poll.poll(self.owner.limits.send_time * 1000):
                raise DisconnectedError("the client does not receive its response")
            output, self.output = self.output, []
            self._send(output)

    def is_gone(self) -> bool:
        """Return whether the client of the request that is being answered has hung up."""
        return self.hangup

    def hear_hangup(self) -> None:
        """Note that the client has hung up, if the kernel confirms it.

        Another thread may have closed the connection for which the event was raised, and this
        one has its descriptor. All other events are harmless then: reading finds nothing.
        """
        poll = select.poll()
        poll.register(self.descriptor, select.POLLRDHUP)
        for _, events in poll.poll(0):
            self.hangup = True
            if events & (select.POLLHUP | select.POLLERR):
                self.is_lost = True

    def _is_kept(self, buffers: Pieces) -> bool:
        """Keep the beginning of an answer that waits; return whether it does."""
        if self.is_delayed:
            self.output = buffers
            self.deadline = NEVER
            return True
        return False

    def _send(self, buffers: Pieces, flags: int = _DONTWAIT) -> bool:
        """Send what the socket accepts, keep the rest; return whether it accepted anything."""
        try:
            sent = self.socket.sendmsg(buffers[:_MAX_BUFFERS], (), flags)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise DisconnectedError(str(error)) from error
        accepted = sent > 0
        for index, buffer in enumerate(buffers):
            if sent < len(buffer):
                self.output = [memoryview(buffer)[sent:], *buffers[index + 1 :]]
                self._widen()
                break
            sent -= len(buffer)
        return accepted

    def _widen(self) -> None:
        """Let the kernel take more of a document at a time: a round takes longer than the copy.

        TCP sockets do this by themselves. A response in pieces need not be in the kernel.
        """
        if self._unfinished is None and not self._is_wide:
            self._is_wide = True
            if self.is_local:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)

    def _flush(self) -> None:
        """Send what was kept; then process the input received meanwhile."""
        self.is_delayed = False
        if self.deadline == NEVER:
            # The answer has waited: the time of the client begins now, also if the socket is full.
            self._expect_progress()
        while self.output:
            output, self.output = self.output, []
            if not self._send(output):
                return
            self._expect_progress()
            if not self.output:
                if self._unfinished is None:
                    self._complete()
                else:
                    self._unfinished.resume()
        if self.open and not self.ending:
            self.receive(b"")

    def _expect_progress(self) -> None:
        self.deadline = time.monotonic() + self.owner.limits.send_time

    def _complete(self) -> None:
        """Note that a response is sent completely."""
        self.answered = True
        self.deadline = NEVER
        if self.ending:
            self.linger()
        elif self.closing:
            self.close()
