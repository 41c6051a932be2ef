"""Answers that wait: whoever tries much gets little, and takes nothing meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from mastaba_server.transport.connection import Connection

_MOST: Final = 256
"""Answers that wait at a time: a front server has as many more connections to each process."""
_PART: Final = 4
"""No more than one in so many of the connections that a process may have."""
_LONGEST: Final = 1.0
"""Seconds."""
_AGAIN: Final = 0.01
"""Seconds after which another thread is woken if an answer that is due is still there."""


class DelayedAnswers:
    """Connections whose answer waits, in the order in which they are due.

    A connection that waits takes no thread, and the memory of an idle one and of its answer. An
    answer is never due before an earlier one: then it waits longer than it must.

    Args:
        wake: called while answers are due, until `due` has returned them; must not wait.
        most_connections: that the process may have.

    Attributes:
        waiting: when they are due (monotonic clock). Empty most of the time.
    """

    def __init__(self, wake: Callable[[], None], most_connections: int) -> None:
        self.waiting: dict[Connection, float] = {}
        self._wake = wake
        self._most = min(_MOST, most_connections // _PART)
        self._latest = 0.0
        self._changed = threading.Condition()
        self._watch: threading.Thread | None = None
        self._is_closed = False

    def add(self, connection: Connection, seconds: float) -> bool:
        """Let the next answer of a connection wait.

        Returns:
            False if it cannot: too many do, or the system has no thread to wake others.
        """
        with self._changed:
            self.waiting.pop(connection, None)
            if len(self.waiting) >= self._most:
                return False
            if self._watch is None:
                watch = threading.Thread(target=self._wake_in_time, name="delays", daemon=True)
                try:
                    watch.start()
                except RuntimeError:
                    # At a limit of processes or memory.
                    return False
                self._watch = watch
            self._latest = max(self._latest, monotonic() + min(seconds, _LONGEST))
            self.waiting[connection] = self._latest
            connection.is_delayed = True
            if len(self.waiting) == 1:
                self._changed.notify()
        return True

    def discard(self, connection: Connection) -> None:
        """Forget a connection, which is closed."""
        with self._changed:
            self.waiting.pop(connection, None)

    def due(self, *, at_once: bool) -> Connection | None:
        """Return a connection whose answer waits no longer; None if all still wait.

        Only one: a further request on it may take long, and the others must not wait for that.

        Args:
            at_once: answers are due now, however long they should wait.
        """
        with self._changed:
            connection, moment = next(iter(self.waiting.items()), (None, 0.0))
            if connection is None or not (at_once or moment <= monotonic()):
                return None
            del self.waiting[connection]
            connection.is_delayed = False
            return connection

    def close(self) -> None:
        """Wake no thread any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _wake_in_time(self) -> None:
        # All threads of the server may wait for events since before there were answers to send.
        with self._changed:
            while not self._is_closed:
                first = next(iter(self.waiting.values()), None)
                seconds = None if first is None else first - monotonic()
                if seconds is not None and seconds <= 0:
                    self._wake()
                    seconds = _AGAIN
                self._changed.wait(seconds)
