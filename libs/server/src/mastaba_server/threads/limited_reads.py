"""A bound for the reads that wait for one other machine."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from mastaba_server.errors import ServerError
from mastaba_server.waiting import waiting

_SLOW: Final = 1.0
"""Seconds after which a read is slow. While one is, no further read waits for a place."""


class LimitedReads(ABC):
    """The reads from one other machine that run at a time.

    While they run, other threads answer requests. If all places are taken, a read waits for one,
    but only if the machine answers quickly: if it hangs, the read is refused at once.

    Args:
        name: of the machine, for messages.
        places: number of reads at a time; 0 for any number.

    Attributes:
        name: as given.
    """

    def __init__(self, name: str, places: int) -> None:
        self.name = name
        self._places = places
        self._changed = threading.Condition()
        # In the order of their beginning.
        self._running: dict[object, float] = {}

    @contextmanager
    def read(self, key: str) -> Iterator[None]:
        """Read inside this context.

        Raises:
            ServerError: too many reads wait for the machine; see `refusal`.
        """
        read = object()
        # Before another thread takes the place of this one: their number must be limited too.
        self._enter(read, key)
        try:
            with waiting():
                yield
        finally:
            with self._changed:
                del self._running[read]
                self._changed.notify()

    def _enter(self, read: object, key: str) -> None:
        with self._changed:
            while 0 < self._places <= len(self._running):
                left = next(iter(self._running.values())) + _SLOW - monotonic()
                if left <= 0:
                    raise self.refusal(key, f"{self._places} reads already wait for it")
                self._changed.wait(left)
            self._running[read] = monotonic()

    @abstractmethod
    def refusal(self, key: str, reason: str) -> ServerError:
        """Return the error for a read that is not sent.

        Args:
            key: what was to be read.
            reason: the end of a sentence about the machine.
        """
