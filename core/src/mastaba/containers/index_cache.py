"""Cache of the indices of slabs and containers, shared by all layers (storage.md section 9)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from time import perf_counter
from typing import Any, Final

from mastaba.containers.tile_index import TileIndex
from mastaba_server import trace

MAX_INDEX_BYTES: Final = 64 * 1024 * 1024
"""Maximum for all cached indices: the index of a slab of a million tiles has 8 MB."""

UNVERSIONED_VALIDITY: Final = 60.0
"""Seconds for which an index without a version is cached at most."""

_PARTS: Final = 256
"""Of a full cache, one of so many parts is removed at a time."""

_CROWDED: Final = 0.75
"""Share of a cache that is used, with one index more, when the order of use begins to count."""


class IndexCache:
    """Caches the most recently used indices.

    Absent and damaged objects are not cached. Concurrent misses for one index cause one read. Hits
    and misses are recorded in the trace of the request.
    `cachetools.TTLCache` has no second bound, and a hit takes 2.6 us instead of 0.5 us.

    Args:
        size: maximum number of indices, at least 1; fewer if they are large.
        validity: seconds after which an index is read again; at most 60 for one without a version,
            since nothing else shows that its object was replaced.
        clock: returns monotonic seconds; replaced in tests.
        store: indices that the node keeps, which may be outdated (`mastaba.api.slabs.IndexStore`);
            None for no store.
        most_bytes: maximum for all indices.
        containers: cache of the indices of containers beside this one of slabs, cleared with it.

    Attributes:
        store, containers: as given.
        hits: indices found in the cache.
        misses: indices not found in the cache.
    """

    def __init__(
        self,
        size: int,
        validity: float,
        clock: Callable[[], float] = time.monotonic,
        store: Any = None,
        most_bytes: int = MAX_INDEX_BYTES,
        containers: IndexCache | None = None,
    ) -> None:
        self.store = store
        self.containers = containers
        self._most_bytes = most_bytes
        self._size = size
        self._validity = validity
        self._clock = clock
        self._lock = threading.Lock()
        # By their use, the earliest first. An OrderedDict takes 85 bytes more for each.
        self._entries: dict[Hashable, TileIndex] = {}
        self._used = self._largest = 0
        self._is_crowded = False
        self._flights: dict[Hashable, Future[TileIndex]] = {}
        self.hits = 0
        self.misses = 0

    def get(
        self,
        key: Hashable,
        load: Callable[[], TileIndex],
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> TileIndex:
        """Return the index for a key; if it is unknown or too old, call ``load``.

        Args:
            waiting: returns a context in which a thread waits while another one calls ``load``.

        Raises:
            the errors of ``load``, in every thread that waits for it; those of ``waiting``.
        """
        begun = perf_counter()
        with self._lock:
            index = self._fresh(key)
            if index is not None:
                return index
            self.misses += 1
            flight = self._flights.get(key)
            leads = flight is None
            if flight is None:
                flight = self._flights[key] = Future()
        try:
            if leads:
                return self._lead(key, load, flight)
            with waiting():
                return flight.result()
        finally:
            notes = trace.local.trace
            if notes is not None:
                notes.misses += leads
                notes.hits += not leads
                notes.add("index", perf_counter() - begun)

    def peek(self, key: Hashable) -> TileIndex | None:
        """Return the index for a key if it is known and not too old."""
        with self._lock:
            return self._fresh(key)

    def count_hit(self) -> None:
        """Count an index that was found without reading its slab."""
        self.hits += 1
        notes = trace.local.trace
        if notes is not None:
            notes.hits += 1

    def put(self, key: Hashable, index: TileIndex) -> None:
        """Cache an index, instead of the one cached for the key."""
        with self._lock:
            self._put(key, index)

    def drop(self, key: Hashable, index: TileIndex) -> None:
        """Remove an index that proved to be outdated, unless a newer one has replaced it."""
        with self._lock:
            if self._entries.get(key) is index:
                self._remove(key)

    def clear(self) -> None:
        """Remove all indices, and do not cache those that are being read."""
        if self.containers is not None:
            self.containers.clear()
        with self._lock:
            self._entries.clear()
            self._used = self._largest = 0
            self._is_crowded = False
            # Who asks from now on must not wait for a read that has begun before.
            self._flights.clear()

    @property
    def used(self) -> int:
        """Bytes of the cached indices."""
        return self._used

    def _fresh(self, key: Hashable) -> TileIndex | None:
        index = self._entries.get(key)
        if index is None:
            return None
        if index.expires <= self._clock():
            self._remove(key)
            return None
        # In a cache with room the order does not matter, and a change reaches for neighbours that
        # are not in the caches of the processor.
        if self._is_crowded:
            self._entries[key] = self._entries.pop(key)
        # As `count_hit`: a call less for each tile.
        self.hits += 1
        if (notes := trace.local.trace) is not None:
            notes.hits += 1
        return index

    def _remove(self, key: Hashable) -> None:
        self._used -= self._entries.pop(key).nbytes

    def _lead(
        self, key: Hashable, load: Callable[[], TileIndex], flight: Future[TileIndex]
    ) -> TileIndex:
        try:
            index = load()
        except BaseException as error:
            self._end(key, flight, None)
            flight.set_exception(error)
            raise
        self._end(key, flight, index)
        flight.set_result(index)
        return index

    def _end(self, key: Hashable, flight: Future[TileIndex], index: TileIndex | None) -> None:
        with self._lock:
            # Otherwise the cache was emptied meanwhile.
            if self._flights.get(key) is flight:
                del self._flights[key]
                if index is not None:
                    self._put(key, index)

    def _put(self, key: Hashable, index: TileIndex) -> None:
        if key in self._entries:
            self._remove(key)
        validity = self._validity if index.version else min(self._validity, UNVERSIONED_VALIDITY)
        index.expires = self._clock() + validity
        self._entries[key] = index
        self._used += index.nbytes
        if index.nbytes <= self._most_bytes:
            self._largest = max(self._largest, index.nbytes)
        most = (self._used + self._largest) / self._most_bytes
        self._is_crowded = max(len(self._entries) / self._size, most) > _CROWDED
        while len(self._entries) > self._size or self._used > self._most_bytes:
            # Some at a time: the first one of a dictionary is found behind those removed before.
            for oldest in list(islice(self._entries, 1 + len(self._entries) // _PARTS)):
                self._remove(oldest)
