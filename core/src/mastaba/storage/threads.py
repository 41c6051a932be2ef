"""Threads that wait for storages: bounded, shared, and anew in each process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class ThreadPool:
    """Threads made when they are first needed, and made again in a child process after a fork.

    Args:
        size: the most that run at a time.
        name: beginning of their names.
    """

    def __init__(self, size: int, name: str) -> None:
        self.size = size
        self._name = name
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        os.register_at_fork(after_in_child=self._forget)

    def submit(self, function: Callable[[], R]) -> Future[R]:
        """Call a function in one of the threads."""
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self.size, self._name)
            return self._executor.submit(function)

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the results for all items, in their order.

        The calling thread takes part, and does itself what no other thread has begun: a pool
        that is busy with other requests slows this one down, but cannot block it.

        Raises:
            what ``function`` raises first, in the order of the items.
        """
        if len(items) < 2:
            return [function(item) for item in items]
        futures = [self.submit(partial(function, item)) for item in items[1:]]
        try:
            results = [function(items[0])]
            for item, future in zip(items[1:], futures, strict=True):
                results.append(function(item) if future.cancel() else future.result())
            return results
        finally:
            for future in futures:
                future.cancel()

    def _forget(self) -> None:
        # Threads do not survive a fork, and a lock may have been held by one of them.
        self._lock = threading.Lock()
        self._executor = None


READS: Final = ThreadPool(32, "mastaba-read")
"""Where the reads of one request run in parallel."""
