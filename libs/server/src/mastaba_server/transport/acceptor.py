"""New connections of a process: accepted, or taken from a process that retires."""

from __future__ import annotations

import errno
import itertools
import math
import select
import socket
import threading
import time
from collections.abc import Callable, Sized
from contextlib import suppress

from mastaba_server.descriptors import DESCRIPTORS
from mastaba_server.processes.balance import Balance
from mastaba_server.processes.handover import Handover

# Exclusive: the kernel wakes one waiting process per new connection, not all of them.
_LISTEN = select.EPOLLIN | select.EPOLLEXCLUSIVE
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# Seconds in which a process with fewer connections must take a new one.
_PATIENCE = 0.01
_NAP = 0.0005
# Seconds without the end of a connection after which those that begin are expected to stay.
_SETTLED = 0.02
_MAX_UNCLAIMED = 64


class Acceptor:
    """Decides which new connections a process takes.

    Args:
        listener: the listening socket; accepting no longer blocks.
        epoll: announces new connections; see `sources`.
        connections: those that the process has.
        relieve: called with the reason if a connection cannot be accepted.
        handover, balance: see `Server`.

    Attributes:
        accepting: whether new connections are announced.
        sources: descriptors of the events for `arrived`.
    """

    def __init__(
        self,
        listener: socket.socket,
        epoll: select.epoll,
        connections: Sized,
        relieve: Callable[[str], None],
        handover: Handover | None,
        balance: Balance | None,
    ) -> None:
        self.accepting = False
        # Another process may be faster.
        listener.setblocking(False)
        self._listener = listener
        self._epoll = epoll
        self._connections = connections
        self._relieve = relieve
        self._balance = balance
        self._shared: list[socket.socket | Handover] = [listener]
        self._takers = [self._accepted]
        if handover is not None:
            self._shared.append(handover)
            self._takers.append(handover.take)
        self._bell = -1 if balance is None else balance.fileno()
        self.sources = {self._bell, *(source.fileno() for source in self._shared)} - {-1}
        DESCRIPTORS.raise_limit()
        self._most_connections = DESCRIPTORS.most_connections
        # When this process first left the present connection to an emptier one.
        self._left_at: float | None = None
        self._closed_at = -math.inf
        self._has_ended = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Have new connections announced, unless `end` was called."""
        with self._lock:
            if self._has_ended:
                return
            self.accepting = True
            self._count()
            for source in self._shared:
                self._epoll.register(source, _LISTEN)
            if self._bell >= 0:
                self._epoll.register(self._bell, select.EPOLLIN)

    def end(self) -> list[socket.socket]:
        """Leave new connections to other processes from now on.

        Returns:
            those that the kernel has announced only to this process: no other process would be
            woken for them. Nothing if it was called before.
        """
        with self._lock:
            if self._has_ended:
                return []
            self._has_ended = True
            if self.accepting:
                self.accepting = False
                for source in self.sources:
                    self._epoll.unregister(source)
            if self._balance is not None:
                self._balance.leave()
        claimed: list[socket.socket] = []
        for take in self._takers:
            # All, before the first is given back, which wakes another process.
            claimed += itertools.islice(iter(take, None), _MAX_UNCLAIMED)
        return claimed

    def shut(self) -> None:
        """Refuse connections in all processes, and reset those that wait."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)

    def arrived(self, source: int) -> socket.socket | None:
        """Handle an event; return the connection that it announces, if this process takes it."""
        if self._balance is not None and source == self._bell:
            self._balance.answer()
            if not self.accepting:
                return None
        return None if self._leaves_it() else self.take()

    def take(self) -> socket.socket | None:
        """Return a new connection, or one that another process gives away; None if none waits."""
        return next(filter(None, (take() for take in self._takers)), None)

    def opened(self) -> None:
        """Note that the process has one more connection, and let others take the next one.

        The kernel always wakes the first in the queue of processes that wait. Without this, one
        process would get all keep-alive connections that a front server opens one by one, or a
        retiring worker gives away.
        """
        self._count()
        with self._lock:
            if self.accepting:
                for source in self._shared:
                    self._epoll.unregister(source)
                    self._epoll.register(source, _LISTEN)

    def closed(self) -> None:
        """Note that the process has one connection less."""
        self._closed_at = time.monotonic()
        self._count()

    def _count(self) -> None:
        if self._balance is not None:
            self._balance.count(len(self._connections))

    def _accepted(self) -> socket.socket | None:
        """Return the next connection to the listening socket; None if there is none."""
        count = len(self._connections)
        if count >= self._most_connections:
            self._relieve("there are too many")
            return None
        if count >= DESCRIPTORS.room:
            DESCRIPTORS.leave_room(count)
        try:
            return self._listener.accept()[0]
        except (BlockingIOError, ConnectionAbortedError):
            return None
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None  # another process has closed the socket to connections
            if error.errno not in _EXHAUSTED:
                raise
            self._relieve(error.strerror or str(error))
            return None

    def _leaves_it(self) -> bool:
        """Leave a new connection to the process with the fewest, unless that does not take it.

        Only connections that stay are worth waiting for.
        """
        now = time.monotonic()
        if (
            self._balance is None
            or now - self._closed_at < _SETTLED
            or not self._balance.wake_emptier()
        ):
            self._left_at = None
            return False
        if self._left_at is None:
            self._left_at = now
        elif now - self._left_at > _PATIENCE:
            self._left_at = None
            return False
        # The connection is announced again until it is taken.
        time.sleep(_NAP)
        return True
