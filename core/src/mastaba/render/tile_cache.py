"""Cache of decoded tiles, shared by neighbouring maps."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt


class TileCache:
    """Keeps the most recently used decoded tiles, up to a number of bytes.

    Keys include the generation of the slab, so a tile is never out of date.

    Args:
        size: bytes; 0 keeps nothing.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._used = 0
        self._tiles: OrderedDict[Hashable, npt.NDArray[Any]] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    @property
    def used(self) -> int:
        """Bytes of the cached tiles."""
        return self._used

    def get(self, key: Hashable) -> npt.NDArray[Any] | None:
        """Return a read-only tile, or None."""
        with self._lock:
            tile = self._tiles.get(key)
            if tile is None:
                self.misses += 1
                return None
            self._tiles.move_to_end(key)
            self.hits += 1
            return tile

    def put(self, key: Hashable, tile: npt.NDArray[np.generic]) -> None:
        """Cache a tile, replacing the least recently used ones."""
        if tile.nbytes > self._size:
            return
        with self._lock:
            old = self._tiles.pop(key, None)
            if old is not None:
                self._used -= old.nbytes
            self._tiles[key] = tile
            self._used += tile.nbytes
            while self._used > self._size:
                _, dropped = self._tiles.popitem(last=False)
                self._used -= dropped.nbytes
