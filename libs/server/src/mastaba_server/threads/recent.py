"""Values that are kept while they are used."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """The values that were used last, by key; shared by threads.

    Args:
        most: number of values.
        room: sum of their sizes.

    Attributes:
        added: how many have been added.
    """

    def __init__(self, most: int, room: float = math.inf) -> None:
        self.most = most
        self.added = 0
        self._room = room
        self._size = 0
        self._kept: OrderedDict[Any, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any) -> T | None:
        """Return a value, or None."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            self._kept.move_to_end(key)
            return kept[0]

    def add(self, key: Any, value: T, size: int = 0) -> T:
        """Keep a value, and return it; those whose use is longest ago may be forgotten."""
        with self._lock:
            self.added += 1
            before = self._kept.pop(key, None)
            self._kept[key] = value, size
            self._size += size - (0 if before is None else before[1])
            while len(self._kept) > self.most or self._size > self._room:
                _, (_, forgotten) = self._kept.popitem(last=False)
                self._size -= forgotten
        return value

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over all keys at present."""
        with self._lock:
            return iter(list(self._kept))

    def values(self) -> list[T]:
        """Return all values."""
        with self._lock:
            return [value for value, _ in self._kept.values()]
