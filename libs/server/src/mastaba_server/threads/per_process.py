"""What must not be shared with a child process, such as connections and threads."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from mastaba_server.waiting import waiting

T = TypeVar("T")
R = TypeVar("R")

_instances: weakref.WeakSet[PerProcess[Any]] = weakref.WeakSet()
_lock = threading.Lock()
_inherited: list[object] = []


class PerProcess(Generic[T]):
    """A value that is created on first use, and again in each process after a fork.

    The value is released *before* a fork, so the child does not inherit it. A thread that is
    using the value at that time keeps it alive with its own reference.

    Args:
        make: creates the value; called by one thread at a time. `get` raises its errors, and the
            next call of `get` tries again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._value: T | None = None
        self._lock = threading.Lock()
        with _lock:
            _instances.add(self)

    def get(self) -> T:
        """Return the value of this process. Raises the errors of ``make``."""
        value = self._value
        if value is not None:
            return value
        with self._lock:
            if self._value is None:
                self._value = self._make()
            return self._value

    def drop(self) -> T | None:
        """Release the value and return it, for example to close it."""
        value, self._value = self._value, None
        return value


def _before_fork() -> None:
    _lock.acquire()
    for instance in list(_instances):
        instance.drop()


def _in_child() -> None:
    for instance in list(_instances):
        # Another thread may have created a value just before the fork. It belongs to the parent,
        # so it must not be cleaned up here: keep a reference.
        _inherited.append(instance.drop())
        # A thread that does not exist in the child may have held the lock.
        instance._lock = threading.Lock()
    _lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_lock.release, after_in_child=_in_child)


class ThreadPool:
    """Threads that are started on first use, and again in a child process after a fork."""

    def __init__(self, size: int, name: str) -> None:
        self._executor = PerProcess(lambda: ThreadPoolExecutor(size, name))

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the results for all items, in their order.

        The calling thread takes part: it processes the items that no other thread has started.
        A busy pool can therefore slow down a request, but not block it.

        Raises:
            the first error of ``function``, in the order of the items.
        """
        if len(items) < 2:
            return [function(item) for item in items]
        executor = self._executor.get()
        futures = [executor.submit(function, item) for item in items[1:]]
        try:
            results = [function(items[0])]
            for item, future in zip(items[1:], futures, strict=True):
                if future.cancel():
                    results.append(function(item))
                else:
                    with waiting():
                        results.append(future.result())
            return results
        finally:
            for future in futures:
                future.cancel()
