"""Answers that wait: whoever tries much gets little, and takes nothing meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from mastaba_server.transport.connection import Connection

_MOST: Final = 256
"""Answers that wait at a time: a front server has as many more connections to each process."""
_LONGEST: Final = 1.0
"""Seconds."""
_MOST_AT_ONCE: Final = 8
"""Answers sent before the process looks for requests again."""

_Events = list[tuple[int, int]]


class DelayedAnswers:
    """Connections whose answer waits, in the order in which they are due.

    A connection that waits takes no thread, and the memory of an idle one and of its answer. An
    answer is never due before an earlier one: then it waits longer than it must.

    Attributes:
        waiting: when they are due (monotonic clock). Empty most of the time.
    """

    def __init__(self) -> None:
        self.waiting: dict[Connection, float] = {}
        self._latest = 0.0
        self._lock = threading.Lock()
        self._watch = threading.Lock()

    def add(self, connection: Connection, seconds: float) -> bool:
        """Let the next answer of a connection wait; return False if too many do."""
        with self._lock:
            self.waiting.pop(connection, None)
            if len(self.waiting) >= _MOST:
                return False
            self._latest = max(self._latest, monotonic() + min(seconds, _LONGEST))
            self.waiting[connection] = self._latest
            connection.is_delayed = True
        return True

    def discard(self, connection: Connection) -> None:
        """Forget a connection, which is closed."""
        with self._lock:
            self.waiting.pop(connection, None)

    def due(self, *, all_of_them: bool) -> list[Connection]:
        """Return connections whose answers wait no longer: some of those that are due, or all."""
        with self._lock:
            now = monotonic()
            found: list[Connection] = []
            for connection, moment in self.waiting.items():
                if not all_of_them and (moment > now or len(found) == _MOST_AT_ONCE):
                    break
                found.append(connection)
            for connection in found:
                del self.waiting[connection]
                connection.is_delayed = False
        return found

    def poll(self, poll: Callable[[float, int], _Events], seconds: float, most: int) -> _Events:
        """Call ``epoll.poll``. One of the threads that do so returns when an answer is due."""
        if not self._watch.acquire(blocking=False):
            return poll(seconds, most)
        try:
            with self._lock:
                first = next(iter(self.waiting.values()), None)
            if first is not None:
                seconds = min(seconds, max(0.0, first - monotonic()))
            return poll(seconds, most)
        finally:
            self._watch.release()
