"""The threads that run the reads of one request in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from mastaba.storage.per_process import PerProcess

T = TypeVar("T")
R = TypeVar("R")


class ThreadPool:
    """Threads that are started on first use, and again in a child process after a fork."""

    def __init__(self, size: int, name: str) -> None:
        self._executor = PerProcess(lambda: ThreadPoolExecutor(size, name))

    def submit(self, function: Callable[[], R]) -> Future[R]:
        """Call a function in one of the threads."""
        return self._executor.get().submit(function)

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


READS: Final = ThreadPool(32, "mastaba-read")
