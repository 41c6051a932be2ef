"""Conformance tests of containers: processes, hostile archives, and declarations."""

from __future__ import annotations

import gc
import os
import random
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import thread_time
from typing import Final

import pytest

from mastaba.api.containers import (
    ContainerFormatError,
    OpenedContainer,
)
from mastaba.errors import MastabaError, StorageError
from mastaba_conformance.container_kit import (
    ContainerKit,
    MemoryStorage,
    TileAddress,
    all_read,
    body_at,
    readers_of,
)
from mastaba_conformance.counting_storage import CountingStorage

_CANNOT: Final = frozenset(
    (
        *("versions", "batch", "symbolic", "history", "remote", "vector", "float", "own_grid"),
        "maps",
    )
)
_GEOTIFF: Final = b"II*\0\x08\0\0\0" + bytes(300)
_FLIPS: Final = 60
_TRIED: Final = 16
"""Tiles that are read from each damaged archive."""
_MOST_SECONDS: Final = 1.0
"""Processor time that a damaged archive may take."""
_MOST_MEMORY: Final = 256 * 1024
"""KiB by which the process may grow with damaged archives."""


class ProcessTests(ContainerKit):
    level = "processes"

    def test_processes_after_a_fork_answer_in_threads(
        self, opened: OpenedContainer, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        readers = readers_of(opened)
        children = []
        for _ in range(4):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    with ThreadPoolExecutor(8) as pool:
                        read = pool.map(lambda place: body_at(readers, place), tiles)
                        status = int(list(read) != list(tiles.values()))
                finally:
                    os._exit(status)
            children.append(child)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4

    def test_descriptors_are_closed(
        self, storage: CountingStorage, key: str, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        """In a process of its own: others may close files at any time."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                found: list[int] = []
                for _ in range(8):
                    readers = readers_of(self.open(storage, key))
                    # In a thread, whose connections and files end with it.
                    thread = threading.Thread(target=lambda held=readers: all_read(held, tiles))
                    thread.start()
                    thread.join()
                    del readers, thread
                    storage._storage.close()
                    gc.collect()
                    found.append(len(os.listdir("/proc/self/fd")))
                # The first rounds may open what a process needs once.
                status = int(found[-1] > found[2])
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class HostilityTests(ContainerKit):
    level = "hostility"

    def test_truncated_archives_are_refused_or_read(
        self, storage: CountingStorage, key: str, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        data = self._bytes(storage, key)
        for length in range(0, min(len(data), self.head_length), 64):
            self.attack(storage, key, data[:length], tiles)

    def test_changed_heads_are_refused_or_read(
        self, storage: CountingStorage, key: str, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        data = self._bytes(storage, key)
        chosen = random.Random(1)  # noqa: S311 - the same changes in each run
        for _ in range(_FLIPS):
            changed = bytearray(data)
            for _ in range(chosen.choice((1, 1, 3, 20))):
                changed[chosen.randrange(min(len(data), self.head_length))] = chosen.randrange(256)
            self.attack(storage, key, bytes(changed), tiles)

    def attack(
        self, storage: CountingStorage, key: str, data: bytes, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        """Open and read a damaged archive: all errors must be of Mastaba, and come soon."""
        before, memory = thread_time(), getrusage(RUSAGE_SELF).ru_maxrss
        self.put(storage, key, data)
        self._try_out(storage, key, tiles)
        assert thread_time() - before < _MOST_SECONDS
        assert getrusage(RUSAGE_SELF).ru_maxrss - memory < _MOST_MEMORY

    def test_hostile_archives_are_refused(
        self, storage: CountingStorage, key: str, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        suffix = Path(key).suffix
        for name, data in self.corpus(Path(f"{key}.hostile{suffix}")).items():
            before, memory = thread_time(), getrusage(RUSAGE_SELF).ru_maxrss
            self.put(storage, key, data)
            with pytest.raises(MastabaError):
                all_read(readers_of(self.open(storage, key)), tiles)
            assert thread_time() - before < _MOST_SECONDS, name
            assert getrusage(RUSAGE_SELF).ru_maxrss - memory < _MOST_MEMORY, name

    def _try_out(
        self, storage: CountingStorage, key: str, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        try:
            readers = readers_of(self.open(storage, key))
        except (ContainerFormatError, StorageError):
            return
        for name, row, column in list(tiles)[:: max(1, len(tiles) // _TRIED)]:
            reader = readers.get(name)
            if reader is not None and reader.level.limits.contains(row, column):
                with suppress(MastabaError):
                    body_at(readers, (name, row, column))

    def _bytes(self, storage: CountingStorage, key: str) -> bytes:
        return storage.read(key).data


class HonestyTests(ContainerKit):
    level = "honesty"

    def test_declarations_are_valid(self) -> None:
        assert self.container.cannot <= _CANNOT
        assert self.container.reads in ("ranges", "local")
        for suffix in self.container.suffixes:
            assert suffix.startswith(".")
            assert suffix == suffix.lower()

    def test_another_kind_of_file_is_refused(self, storage: CountingStorage, key: str) -> None:
        data = b"SQLite format 3\0" + bytes(300)
        if not any(_GEOTIFF.startswith(magic) for magic in self.container.signatures):
            data = _GEOTIFF
        self.put(storage, key, data)
        with pytest.raises(ContainerFormatError):
            self.open(storage, key)

    def test_vectors_are_refused_or_served(self, opened: OpenedContainer) -> None:
        assert "vector" not in self.container.cannot or not opened.pyramid.format.is_vector

    def test_values_are_refused_or_served(self, opened: OpenedContainer) -> None:
        assert "float" not in self.container.cannot or opened.pyramid.format.sample != "float32"

    def test_remote_archives_are_refused_with_a_reason_or_read(self, key: str) -> None:
        storage = CountingStorage(MemoryStorage())
        self.replace(storage, key, 0)
        if "remote" not in self.container.cannot:
            assert self.container.reads == "ranges"
            assert self.open(storage, key).pyramid.levels
            return
        with pytest.raises(ContainerFormatError) as caught:
            self.open(storage, key)
        assert caught.value.remedy

    def test_tiles_have_versions(
        self, opened: OpenedContainer, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        readers = readers_of(opened)
        for name, row, column in tiles:
            tile = readers[name].locate(row, column)
            assert tile is not None
            assert (tile.version is None) == ("versions" in self.container.cannot)

    def test_maps_are_drawn_from_its_tiles(
        self, opened: OpenedContainer, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        raster = opened.pyramid.raster
        if raster is None or "maps" in self.container.cannot:
            pytest.skip("not declared: its tiles are not drawn")
        decoding = pytest.importorskip("mastaba_render.api.decoding")
        readers = readers_of(opened)
        for name, row, column in list(tiles)[:_TRIED]:
            matrix, reader = opened.pyramid.levels[name].matrix, readers[name]
            size = matrix.tile_width, matrix.tile_height
            decoder = reader.decoder or decoding.TileDecoder(
                opened.pyramid.format, raster.channels, *size
            )
            tile = reader.locate(row, column)
            assert tile is not None
            pixels = decoder.decode(tile.read())
            assert pixels.shape == (*size[::-1], raster.channels)
            assert pixels.dtype.name == opened.pyramid.format.sample
            assert pixels.nbytes == decoder.nbytes
            assert not pixels.flags.writeable
