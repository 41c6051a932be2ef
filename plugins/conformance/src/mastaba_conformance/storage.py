"""Conformance tests for storage drivers: subclass `StorageTests` and override its fixtures.

    class TestMyStorage(StorageTests):
        @pytest.fixture
        def storage(self, server):
            return MyStorage.open("tiles", server.environment)

        @pytest.fixture
        def writer(self, server):
            return server

A driver that passes these tests only needs further tests of its own settings.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from mastaba.errors import (
    AccessDeniedError,
    ObjectChangedError,
    ObjectNotFoundError,
    SlabFormatError,
    StorageUnavailableError,
)
from mastaba.slab.index_cache import IndexCache
from mastaba.slab.layout import PrefixLayout
from mastaba.slab.plan import read_tiles
from mastaba.slab.reader import LevelReader
from mastaba.storage.base import ByteRange, Storage
from mastaba_conformance.slab_writer import build_slab

DATA = bytes(range(256)) * 40
"""10,240 bytes in which adjacent short ranges differ."""

_FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


class ObjectWriter(Protocol):
    """Writes objects into the tested container without using the tested driver."""

    def put(self, key: str, data: bytes) -> None:
        """Write an object, atomically replacing any existing object with this key."""

    def delete(self, key: str) -> None:
        """Remove an object."""


class StorageTests:
    """The contract of `mastaba.storage.Storage`.

    Subclasses must override the fixtures ``storage`` and ``writer``. They may override ``prefix``,
    ``open_refused``, ``open_unreachable`` and ``open_silent``; without the last three, the tests
    that use them are skipped.
    """

    knows_versions = True
    """Whether the storage can detect that an object was replaced."""

    @pytest.fixture
    def storage(self) -> Storage:
        """An open container."""
        raise NotImplementedError("override the fixture storage")

    @pytest.fixture
    def writer(self) -> ObjectWriter:
        """A writer for the container of `storage`."""
        raise NotImplementedError("override the fixture writer")

    @pytest.fixture
    def prefix(self) -> str:
        """Prefix of the keys of all test objects."""
        return "conformance/"

    @pytest.fixture
    def open_refused(self) -> Callable[[], Storage]:
        """Opens a container with invalid credentials."""
        pytest.skip("this storage has no access control")

    @pytest.fixture
    def open_unreachable(self) -> Callable[[], Storage]:
        """Opens a container of an unreachable store."""
        pytest.skip("this storage is always reachable")

    @pytest.fixture
    def open_silent(self) -> Callable[[], Storage]:
        """Opens a container of a store that accepts requests but never answers."""
        pytest.skip("this storage always answers")

    @pytest.fixture(autouse=True)
    def _close(self, storage: Storage) -> Iterator[None]:
        yield
        storage.close()

    @pytest.fixture
    def key(self, writer: ObjectWriter, prefix: str) -> str:
        """Key of an object that contains `DATA`."""
        writer.put(f"{prefix}data", DATA)
        return f"{prefix}data"

    def test_driver_has_the_required_attributes(self, storage: Storage) -> None:
        assert storage.name == storage.name.lower()
        assert storage.full_name.startswith(f"{storage.name}://")
        if storage.is_remote:
            assert storage.container_field
            assert storage.container

    def test_whole_object(self, storage: Storage, key: str) -> None:
        assert storage.read(key).data == DATA

    @pytest.mark.parametrize(
        ("offset", "length"),
        [(0, 1), (0, 2176), (5000, 300), (10_239, 1), (0, 10_240), (10_000, 240)],
    )
    def test_range(self, storage: Storage, key: str, offset: int, length: int) -> None:
        assert storage.read(key, ByteRange(offset, length)).data == DATA[offset : offset + length]

    @pytest.mark.parametrize(("offset", "length"), [(0, 1 << 20), (10_000, 500), (10_239, 2)])
    def test_range_past_the_end_is_truncated(
        self, storage: Storage, key: str, offset: int, length: int
    ) -> None:
        assert storage.read(key, ByteRange(offset, length)).data == DATA[offset:]

    @pytest.mark.parametrize(("offset", "length"), [(10_240, 1), (20_000, 5), (0, 0), (77, 0)])
    def test_range_without_bytes_is_empty(
        self, storage: Storage, key: str, offset: int, length: int
    ) -> None:
        assert storage.read(key, ByteRange(offset, length)).data == b""

    def test_short_and_empty_objects(
        self, storage: Storage, writer: ObjectWriter, prefix: str
    ) -> None:
        writer.put(f"{prefix}short", b"SYMLINK#a/b")
        writer.put(f"{prefix}empty", b"")
        assert storage.read(f"{prefix}short", ByteRange(0, 2176)).data == b"SYMLINK#a/b"
        assert storage.read(f"{prefix}empty").data == b""
        assert storage.read(f"{prefix}empty", ByteRange(0, 2176)).data == b""
        assert storage.stat(f"{prefix}empty").size == 0
        assert storage.exists(f"{prefix}empty")

    def test_large_object(self, storage: Storage, writer: ObjectWriter, prefix: str) -> None:
        data = os.urandom(6_000_000)
        writer.put(f"{prefix}large", data)
        assert storage.read(f"{prefix}large").data == data
        part = storage.read(f"{prefix}large", ByteRange(123_456, 5_000_000)).data
        assert part == data[123_456:5_123_456]

    @pytest.mark.parametrize(
        "name", ["a b", "é", "100%25", "a+b", "x#y", "q?a=b&c", "deep/er/still", "~tilde", "a:b"]
    )
    def test_keys_are_used_unchanged(
        self, storage: Storage, writer: ObjectWriter, prefix: str, name: str
    ) -> None:
        writer.put(prefix + name, name.encode())
        assert storage.read(prefix + name, ByteRange(0, 100)).data == name.encode()

    @pytest.mark.parametrize("name", ["up/../down", "here/./there", "a//b", "..dots"])
    def test_keys_are_not_normalised_as_paths(
        self, storage: Storage, writer: ObjectWriter, prefix: str, name: str
    ) -> None:
        if not storage.is_remote:
            pytest.skip("keys of this storage are paths")
        writer.put(f"{prefix}down", b"another object")
        writer.put(prefix + name, name.encode())
        assert storage.read(prefix + name).data == name.encode()

    def test_absent_object_is_reported_by_name(self, storage: Storage, key: str) -> None:
        absent = key + "-absent"
        for read in (
            lambda: storage.read(absent),
            lambda: storage.read(absent, ByteRange(0, 10)),
            lambda: storage.read(absent, ByteRange(5, 0)),
            lambda: storage.read(absent, ByteRange(0, 10), "some version"),
            lambda: storage.read_ranges(absent, [ByteRange(0, 10)]),
            lambda: storage.stat(absent),
        ):
            with pytest.raises(ObjectNotFoundError) as caught:
                read()
            assert absent in str(caught.value)
            assert caught.value.key == absent
            assert caught.value.storage == storage.full_name

    def test_exists(self, storage: Storage, writer: ObjectWriter, key: str) -> None:
        assert storage.exists(key)
        assert not storage.exists(key + "-absent")
        writer.delete(key)
        assert not storage.exists(key)

    def test_stat(self, storage: Storage, key: str) -> None:
        facts = storage.stat(key)
        assert facts.size == len(DATA)
        assert facts.version == storage.read(key, ByteRange(0, 10)).version
        assert facts.modified is None or facts.modified > 1_500_000_000

    def test_read_ranges_equals_single_reads(self, storage: Storage, key: str) -> None:
        ranges = [ByteRange(9000, 5000), ByteRange(0, 10), ByteRange(5, 10), ByteRange(0, 10)]
        version = storage.read(key).version
        reads = storage.read_ranges(key, ranges, version)
        assert reads == [storage.read(key, byte_range, version) for byte_range in ranges]
        assert storage.read_ranges(key, []) == []

    def test_version_is_stable_until_the_object_changes(self, storage: Storage, key: str) -> None:
        version = storage.read(key).version
        assert (version is not None) == self.knows_versions
        again = storage.read(key, ByteRange(3, 4), version)
        assert again.version == version
        assert again.data == DATA[3:7]

    def test_replaced_object_is_not_read_as_the_old_version(
        self, storage: Storage, writer: ObjectWriter, key: str
    ) -> None:
        if not self.knows_versions:
            pytest.skip("this storage has no versions")
        old = storage.read(key, ByteRange(0, 10)).version
        writer.put(key, DATA[::-1])
        # A driver may still have the old version open; it must not return bytes of the new one.
        with contextlib.suppress(ObjectChangedError):
            assert storage.read(key, ByteRange(20, 10), old).data == DATA[20:30]
        new = storage.read(key, ByteRange(0, 10))
        assert new.version != old
        assert new.data == DATA[::-1][:10]
        assert storage.read(key, ByteRange(20, 10), new.version).data == DATA[::-1][20:30]
        with pytest.raises(ObjectChangedError) as caught:
            storage.read(key, ByteRange(20, 10), old)
        assert caught.value.key == key
        with pytest.raises(ObjectChangedError):
            storage.read(key, None, "no such version")

    def test_invalid_credentials_are_refused(
        self, open_refused: Callable[[], Storage], key: str
    ) -> None:
        with pytest.raises(AccessDeniedError) as caught:
            open_refused().read(key)
        assert caught.value.storage

    def test_unreachable_store_is_reported(
        self, open_unreachable: Callable[[], Storage], key: str
    ) -> None:
        with pytest.raises(StorageUnavailableError) as caught:
            open_unreachable().read(key)
        assert caught.value.storage

    def test_silent_store_is_reported(self, open_silent: Callable[[], Storage], key: str) -> None:
        with pytest.raises(StorageUnavailableError) as caught:
            open_silent().read(key)
        assert caught.value.storage

    def test_many_threads(self, storage: Storage, writer: ObjectWriter, prefix: str) -> None:
        for number in range(8):
            writer.put(f"{prefix}thread-{number}", bytes([number]) * 3000 + DATA)

        def read(number: int) -> bool:
            offset = 2990 + number
            name, fill = f"{prefix}thread-{number % 8}", bytes([number % 8])
            expected = (fill * 3000 + DATA)[offset : offset + 500]
            return storage.read(name, ByteRange(offset, 500)).data == expected

        with ThreadPoolExecutor(16) as threads:
            assert all(threads.map(read, range(400)))

    def test_versions_are_never_mixed_while_an_object_is_replaced(
        self, storage: Storage, writer: ObjectWriter, prefix: str
    ) -> None:
        if not self.knows_versions:
            pytest.skip("this storage has no versions")
        name, stop = f"{prefix}replaced", threading.Event()

        def generation(number: int) -> bytes:
            return bytes([number]) * 5000

        def replace() -> None:
            number = 0
            # Sometimes slow enough for a whole object to be read in between.
            while not stop.wait(0.02 if number % 8 == 0 else 0):
                number = (number + 1) % 200
                writer.put(name, generation(number))

        def read(_: int) -> int:
            try:
                first = storage.read(name, ByteRange(0, 100))
                rest = storage.read(name, ByteRange(100, 5000), first.version)
            except (ObjectChangedError, StorageUnavailableError):
                return 0  # reported; stores do fail under this load
            assert first.data + rest.data == generation(first.data[0])
            return 1

        writer.put(name, generation(0))
        writing = threading.Thread(target=replace)
        writing.start()
        try:
            with ThreadPoolExecutor(4) as threads:
                complete = sum(threads.map(read, range(200)))
        finally:
            stop.set()
            writing.join()
        assert complete

    @_FORKS
    def test_child_process_can_read(self, storage: Storage, key: str) -> None:
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(lambda _: storage.read(key).data == DATA, range(8)))
            assert self._in_child(lambda: self._reads_in_threads(storage, key))
            assert all(threads.map(lambda _: storage.read(key).data == DATA, range(8)))
        assert self._in_child(lambda: self._reads_in_threads(storage, key))

    @staticmethod
    def _reads_in_threads(storage: Storage, key: str) -> bool:
        with ThreadPoolExecutor(4) as threads:
            same = all(threads.map(lambda _: storage.read(key).data == DATA, range(8)))
        storage.close()
        return same

    @staticmethod
    def _in_child(check: Callable[[], bool]) -> bool:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = 0 if check() else 1
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def test_close_twice(self, storage: Storage, key: str) -> None:
        storage.read(key)
        storage.close()
        storage.close()

    def test_tiles_of_a_slab(self, storage: Storage, writer: ObjectWriter, prefix: str) -> None:
        tiles = [None if number == 5 else bytes([number]) * (900 + number) for number in range(16)]
        slab = build_slab(tiles, format="TIFF_PBF_MVT", tiles_per_width=4, tiles_per_height=4)
        writer.put(f"{prefix}P/DATA_9_3_2", slab)
        writer.put(f"{prefix}P/DATA_9_4_2", slab[:3000])
        level: Any = SimpleNamespace(tiles_per_width=4, tiles_per_height=4)
        reader = LevelReader(level, PrefixLayout(f"{prefix}P/DATA_9"), storage, IndexCache(9, 60))
        indices = [(8 + number // 4, 12 + number % 4) for number in range(16)]
        assert read_tiles(reader, indices) == tiles
        tile = reader.locate(11, 15)
        assert tile is not None
        assert tile.read() == tiles[15]
        assert reader.locate(9, 13) is None
        assert reader.locate(0, 0) is None
        with pytest.raises(SlabFormatError):
            read_tiles(reader, [(11, 19)])
