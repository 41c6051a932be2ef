"""Shared thread pools of limited size for storage reads, created again in each process."""

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
    """Threads that are started on first use, and again in a child process after a fork.

    Args:
        size: maximum number of threads.
        name: prefix of thread names.
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

        The calling thread takes part: it processes the items that no other thread has started.
        A busy pool can therefore slow down a request, but not block it.

        Raises:
            the first error of ``function``, in the order of the items.
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
        # Threads do not survive a fork, and one of them may have held the lock.
        self._lock = threading.Lock()
        self._executor = None


READS: Final = ThreadPool(32, "mastaba-read")
"""Runs the reads of one request in parallel."""
