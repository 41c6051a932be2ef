"""Cache of decoded tiles, shared by neighbouring maps."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache


class TileCache:
    """Keeps the most recently used decoded tiles, up to a number of bytes.

    Keys include the generation of the slab, so a tile is never out of date. A tile of which a map
    needs only a part is worth its place when it is needed again.

    Args:
        size: bytes; 0 keeps nothing.
    """

    def __init__(self, size: int) -> None:
        self._tiles: LRUCache[Hashable, npt.NDArray[Any]] = LRUCache(size, lambda tile: tile.nbytes)
        # Tiles that were needed once, as far back as the cache would reach.
        self._once: LRUCache[Hashable, int] = LRUCache(size, lambda nbytes: nbytes)
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    @property
    def used(self) -> int:
        """Bytes of the cached tiles."""
        return int(self._tiles.currsize)

    def get(self, keys: Sequence[Hashable]) -> list[npt.NDArray[Any] | None]:
        """Return read-only tiles; None for each key without one."""
        with self._lock:
            found = [self._tiles.get(key) for key in keys]
            hits = sum(tile is not None for tile in found)
            self.hits += hits
            self.misses += len(found) - hits
            return found

    def put(self, key: Hashable, tile: npt.NDArray[np.generic]) -> None:
        """Cache a tile, replacing the least recently used ones."""
        # A tile that is larger than the whole cache is not cached.
        with self._lock, contextlib.suppress(ValueError):
            self._tiles[key] = tile

    def wants(self, key: Hashable, nbytes: int) -> bool:
        """Return whether a tile was needed before; from now on, it was."""
        with self._lock, contextlib.suppress(ValueError):
            if self._once.pop(key, None) is not None:
                return True
            self._once[key] = nbytes
        return False
