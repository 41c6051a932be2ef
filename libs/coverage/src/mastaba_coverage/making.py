"""Making pieces of long answers so that requests for tiles hardly notice it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from mastaba.api.storages import PerProcess

NICE: Final = 10
"""What is added to the nice value of the thread that makes pieces."""

_TURN: Final = 0.0005
"""Seconds that a thread holds the interpreter while others wait for it."""


class _ShortTurns:
    """A context in which threads of this process take shorter turns than usual.

    A thread that makes pieces would otherwise hold the interpreter for 5 ms while tiles, which take
    less, wait. Threads may enter it side by side.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._usual = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._count:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(_TURN, self._usual))
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                sys.setswitchinterval(self._usual)


_SHORT_TURNS: Final = _ShortTurns()


def _be_modest() -> None:
    """Give the calling thread a lower priority: of Linux threads, each has its own."""
    number = threading.get_native_id()
    with suppress(OSError):
        nice = os.getpriority(os.PRIO_PROCESS, number)
        os.setpriority(os.PRIO_PROCESS, number, min(19, nice + NICE))


# One thread, so that downloads of a process never take more than one core. A thread of the server
# could lower its priority, but without privileges not raise it again.
_THREAD: Final = PerProcess(lambda: ThreadPoolExecutor(1, "coverage", _be_modest))


def made_modestly(pieces: Iterator[bytes]) -> bytes | None:
    """Return the next piece, made by a thread of low priority; None after the last one.

    Where the cores are busy, threads that answer requests for tiles go first.

    Raises:
        the errors of iterating over ``pieces``.
    """
    with _SHORT_TURNS:
        return _THREAD.get().submit(next, pieces, None).result()
