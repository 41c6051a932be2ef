"""A limit for the whole of an HTTP exchange: its connection is cut.

The timeout of a socket begins again with each byte, so it does not stop a slow trickle, neither of
the body, nor of the head, nor of a TLS handshake.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, Self

from mastaba_server.threads.per_process import PerProcess

_PERIOD: Final = 0.25
"""Seconds between two checks of the exchanges."""
_IDLE: Final = 40
"""Checks without an exchange after which the thread exits."""


class _Here(threading.local):
    exchange: Exchange | None = None


_here = _Here()


class Exchange:
    """The exchange of the calling thread, inside the context of this object.

    Args:
        seconds: limit; None for no limit.

    Raises:
        TimeoutError: at the end of the context, the limit is exceeded. A truncated response looks
            complete if it ends with the connection.
    """

    __slots__ = ("end", "seconds", "sock", "sock_is_ours", "watch")

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.end = 0.0
        self.sock: socket.socket | None = None
        self.sock_is_ours = False
        self.watch: _Watch | None = None

    def timeout(self, usual: float | None) -> float | None:
        """Return the timeout of the socket, from the usual one."""
        if self.seconds is None or usual is None:
            return usual if self.seconds is None else self.seconds
        return min(usual, self.seconds)

    def __enter__(self) -> Self:
        if self.seconds is not None:
            self.end = time.monotonic() + self.seconds
            _here.exchange = self
            self.watch = _watch.get()
            self.watch.add(self)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self.watch is None:
            return
        _here.exchange = None
        self.watch.remove(self)
        if self.sock_is_ours and self.sock is not None:
            self.sock.close()
        if time.monotonic() >= self.end and (error is None or isinstance(error, Exception)):
            raise TimeoutError


class _Watch:
    """Cuts the connections of exchanges that have reached their end. One for each process."""

    def __init__(self) -> None:
        self._exchanges: set[Exchange] = set()
        self._lock = threading.Lock()
        self._is_running = False

    def add(self, exchange: Exchange) -> None:
        with self._lock:
            self._exchanges.add(exchange)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="deadlines", daemon=True).start()

    def remove(self, exchange: Exchange) -> None:
        with self._lock:
            self._exchanges.discard(exchange)

    def _run(self) -> None:
        idle = 0
        while True:
            time.sleep(_PERIOD)
            now = time.monotonic()
            with self._lock:
                for exchange in self._exchanges:
                    if now >= exchange.end and exchange.sock is not None:
                        with suppress(OSError):
                            exchange.sock.shutdown(socket.SHUT_RDWR)
                idle = 0 if self._exchanges else idle + 1
                if idle == _IDLE:
                    self._is_running = False
                    return


_watch = PerProcess(_Watch)


@lru_cache(maxsize=4)
def with_deadlines(connection: type[Any]) -> type[Any]:
    """Return a class of connections of urllib3 that are cut at the end of an `Exchange`."""

    class Connection(connection):  # type: ignore[misc]
        # Another descriptor of the same socket. TLS takes the first one away during a handshake.
        _cut: socket.socket | None = None

        def _new_conn(self) -> socket.socket:
            sock: socket.socket = super()._new_conn()
            self._cut = sock.dup()
            self._note()
            return sock

        def request(self, *args: Any, **options: Any) -> None:
            self._note()
            super().request(*args, **options)

        def close(self) -> None:
            exchange, cut, self._cut = _here.exchange, self._cut, None
            if exchange is not None and exchange.sock is cut:
                # The response may still be read: it has the socket now.
                exchange.sock_is_ours = True
            elif cut is not None:
                cut.close()
            super().close()

        def _note(self) -> None:
            if _here.exchange is not None:
                _here.exchange.sock = self._cut

    return Connection
