"""Cache of decoded tiles, shared by neighbouring maps and by the processes that draw them."""

from __future__ import annotations

import fcntl
import mmap
import os
import random
import threading
import weakref
from collections.abc import Hashable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import zip_longest
from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

TileSlices = tuple[slice, slice]
"""Rows and columns of a tile."""
Target = tuple[TileSlices, npt.NDArray[Any]]
"""A part of a tile, and an array for its pixels."""

_HEADER: Final = Struct("16s3s3I")
"""In front of each tile: its name, type and shape."""
_ALIGNED: Final = 64


class TileCache:
    """Keeps the tiles decoded last, up to a number of bytes, in a ring of shared memory.

    Create it before the processes that share it are forked. Keys include the generation of the
    slab, so a tile is never out of date. A tile of which a map needs only a part is worth its
    place when it is needed again.

    Readers take no lock: they copy a tile, and then check that nothing has begun to overwrite it.
    Only one process writes at a time, and no process waits for another one, which may hang.

    Args:
        size: bytes; 0 keeps nothing.
    """

    def __init__(self, size: int) -> None:
        self._capacity = size // _ALIGNED * _ALIGNED
        slots = max(1024, size // 1024)
        table = 8 * (1 + 2 * slots)
        # Pages count when they are used.
        memory = memoryview(mmap.mmap(-1, table + self._capacity))
        words = memory[:table].cast("Q")
        # Positions count all bytes ever written, so an old one is recognised.
        self._end, self._starts, self._once = words[:1], words[1 : 1 + slots], words[1 + slots :]
        self._ring = memory[table:]
        self._lock = threading.Lock()
        # The lock of a process that dies is released.
        self._lock_file = os.memfd_create("decoded tiles")
        weakref.finalize(self, os.close, self._lock_file)
        self.hits = 0
        self.misses = 0

    @property
    def used(self) -> int:
        """Bytes of the cached tiles, of all processes."""
        return min(self._end[0], self._capacity)

    def get(
        self, keys: Sequence[Hashable], targets: Sequence[Target | None] = ()
    ) -> list[npt.NDArray[Any] | None]:
        """Return copies of tiles; None for each key without a tile.

        Args:
            targets: of each key, if only parts of some tiles are needed. Such a result is the
                array, which now has the pixels of the part. Without a result, its content is
                undefined.
        """
        found = [self._copy(_name(key), target) for key, target in zip_longest(keys, targets)]
        hits = sum(tile is not None for tile in found)
        with self._lock:
            self.hits += hits
            self.misses += len(found) - hits
        return found

    def _copy(self, name: bytes, target: Target | None) -> npt.NDArray[Any] | None:
        start = self._starts[self._slot(name)] - 1
        if not self._has(start):
            return None
        offset = start % self._capacity
        owner, dtype, *shape = _HEADER.unpack_from(self._ring, offset)
        if owner != name or not self._has(start):
            return None
        shape = [side for side in shape if side]
        tile = np.ndarray(shape, dtype.decode(), self._ring, offset + _HEADER.size)
        part, copy = target or ((slice(None),), np.empty_like(tile))
        copy[:] = tile[part]
        return copy if self._has(start) else None

    def _has(self, start: int) -> bool:
        return 0 <= start >= self._end[0] - self._capacity

    def put(self, key: Hashable, tile: npt.NDArray[np.generic]) -> None:
        """Cache a tile of at most three dimensions, replacing the oldest ones.

        A tile that is larger than the whole cache is not cached. Nor is one while another process
        writes.
        """
        name = _name(key)
        shape = (*tile.shape, 0, 0)[:3]
        size = -(-(_HEADER.size + tile.nbytes) // _ALIGNED) * _ALIGNED
        if size > self._capacity:
            return
        with self._lock:
            try:
                fcntl.lockf(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return
            try:
                start = self._end[0]
                rest = self._capacity - start % self._capacity
                if rest < size:
                    start += rest
                # In this order: what is about to be overwritten, the tile, where it is.
                self._end[0] = start + size
                offset = start % self._capacity
                _HEADER.pack_into(self._ring, offset, name, tile.dtype.str.encode(), *shape)
                begin = offset + _HEADER.size
                self._ring[begin : begin + tile.nbytes] = np.ascontiguousarray(tile).data.cast("B")
                self._starts[self._slot(name)] = start + 1
            finally:
                fcntl.lockf(self._lock_file, fcntl.LOCK_UN)

    def wants(self, key: Hashable, nbytes: int) -> bool:
        """Return whether a tile was needed before; from now on, it was.

        A tile is remembered about half as long as the cache would keep it. Otherwise, maps that
        together need more tiles than the cache holds displace tiles before they are needed again.
        """
        if nbytes > self._capacity:
            return False
        slots = min(len(self._once), max(1, self._capacity // (2 * nbytes)))
        number = int.from_bytes(_name(key)[:8], "little")
        places = number % slots, number // slots % slots
        for place in places:
            if self._once[place] == number:
                self._once[place] = 0
                return True
        # By chance: two tiles must not displace each other whenever a map needs both.
        self._once[random.choice(places)] = number  # noqa: S311 - no secret
        return False

    def _slot(self, name: bytes) -> int:
        return int.from_bytes(name[8:], "little") % len(self._starts)


@lru_cache(maxsize=4096)
def _name(key: Hashable) -> bytes:
    """Return 16 bytes that are the same in every process."""
    return blake2b(repr(key).encode(), digest_size=16).digest()
