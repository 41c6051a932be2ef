"""Things that must not be shared with a child process, such as connections."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_instances: weakref.WeakSet[PerProcess[Any]] = weakref.WeakSet()
_lock = threading.Lock()
_inherited: list[object] = []


class PerProcess(Generic[T]):
    """Makes something when it is first needed, and again in each process after a fork.

    The value is let go of *before* a fork, so that the child inherits nothing that it would
    have to clean up. Whoever uses it at that time keeps it alive by a reference of its own.

    Args:
        make: makes it; called by one thread at a time. What it raises is raised by `get`, and
            the next call tries again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._value: T | None = None
        self._lock = threading.Lock()
        with _lock:
            _instances.add(self)

    def get(self) -> T:
        value = self._value
        if value is not None:
            return value
        with self._lock:
            if self._value is None:
                self._value = self._make()
            return self._value

    def drop(self) -> T | None:
        """Forget the value, and return it, for example to be closed."""
        value, self._value = self._value, None
        return value

    def renew_lock(self) -> None:
        self._lock = threading.Lock()


def _before_fork() -> None:
    _lock.acquire()
    for instance in list(_instances):
        instance.drop()


def _in_child() -> None:
    for instance in list(_instances):
        # Made by another thread at the last moment: not ours to clean up, so it is kept.
        _inherited.append(instance.drop())
        # A lock may have been held by a thread that the child does not have.
        instance.renew_lock()
    _lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_lock.release, after_in_child=_in_child)
