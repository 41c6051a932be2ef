"""Values that are kept while they are used."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """The values that were used last, by key; shared by threads.

    Args:
        most: number of values.

    Attributes:
        added: how many have been added.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.added = 0
        self._kept: OrderedDict[Any, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any) -> T | None:
        """Return a value, or None."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def add(self, key: Any, value: T) -> T:
        """Keep a value, and return it; the one whose use is longest ago may be forgotten."""
        with self._lock:
            self.added += 1
            self._kept[key] = value
            self._kept.move_to_end(key)
            if len(self._kept) > self.most:
                self._kept.popitem(last=False)
        return value

    def values(self) -> list[T]:
        """Return all values."""
        with self._lock:
            return list(self._kept.values())
