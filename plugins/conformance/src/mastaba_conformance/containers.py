"""Conformance tests for containers: subclass `ContainerTests` and write archives.

For example::

    class TestMyContainer(ContainerTests):
        container = MyContainer

        def make(self, path, generation):
            tiles = {("0", 0, 0): b"...", ("1", 1, 0): b"..."}
            write_with_another_library(path, tiles)
            return tiles

A container that passes these tests only needs further tests of its own format.
"""

from __future__ import annotations

import os
import random
import threading
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn

import pytest

from mastaba.api.containers import (
    Container,
    ContainerFormatError,
    Context,
    IndexCache,
    OpenedContainer,
    Source,
    StoredTile,
    TileReader,
)
from mastaba.api.storages import (
    ByteRange,
    Environment,
    FileStorage,
    ObjectRead,
    ObjectStat,
    ResourcePath,
    Storage,
)
from mastaba.errors import MastabaError, ObjectChangedError, ObjectNotFoundError, StorageError
from mastaba_conformance.counting_storage import CountingStorage

__all__ = ["ContainerTests", "MemoryStorage", "Place"]

Place = tuple[str, int, int]
"""Tile matrix identifier, row and column."""

_CANNOT: Final = frozenset(
    (
        *("versions", "batch", "symbolic", "history", "remote", "vector", "float", "own_grid"),
        "maps",
    )
)
_GEOTIFF: Final = b"II*\0\x08\0\0\0" + bytes(300)
_MOST_READS: Final = 4
_FLIPS: Final = 60
_TRIED: Final = 16
"""Tiles that are read from each damaged archive."""


class MemoryStorage(Storage):
    """Objects in memory with versions, in the place of an object store.

    Attributes:
        objects: bytes and version of each key; `put` replaces one.
    """

    name = "memory"
    container_field: ClassVar[str | None] = "bucket_name"

    def __init__(self, container: str = "conformance") -> None:
        super().__init__(container)
        self.objects: dict[str, tuple[bytes, str]] = {}
        self._count = 0

    @classmethod
    def open(cls, container: str, environment: Environment) -> NoReturn:
        raise TypeError("a MemoryStorage is made, not opened")

    def put(self, key: str, data: bytes) -> None:
        """Store an object, replacing any existing one."""
        self._count += 1
        self.objects[key] = data, str(self._count)

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        data, present = self._object(key)
        if version not in (None, present):
            raise ObjectChangedError(f"{key} was replaced", storage=self.full_name, key=key)
        start, length = byte_range or (0, len(data))
        return ObjectRead(data[start : start + length], present, 1.7e9)

    def stat(self, key: str) -> ObjectStat:
        data, version = self._object(key)
        return ObjectStat(len(data), version, 1.7e9)

    def _object(self, key: str) -> tuple[bytes, str]:
        try:
            return self.objects[key]
        except KeyError:
            raise ObjectNotFoundError(
                f"{key} does not exist", storage=self.full_name, key=key
            ) from None


class _ContainerKit:
    """What all levels share; see `ContainerTests`."""

    kit: ClassVar = "container"
    levels: ClassVar = (
        *("model", "answers", "reads", "generations"),
        *("processes", "hostility", "honesty"),
    )

    time_limit: ClassVar[float] = 60.0
    container: ClassVar[type[Container]]
    options: ClassVar[Mapping[str, Any]] = {}
    cold_reads: ClassVar[int] = 3
    warm_reads: ClassVar[int] = 1
    head_length: ClassVar[int] = 4096

    @abstractmethod
    def make(self, path: Path, generation: int) -> Mapping[Place, bytes]:
        """Write an archive without the tested container.

        Args:
            path: has the first suffix of the container; replaced if it exists.
            generation: 0 or 1; both have the same tiles with other bytes, and 1 is smaller.

        Returns:
            The body of each tile, as it is delivered.
        """

    @pytest.fixture(params=["files", "objects"])
    def storage(self, request: pytest.FixtureRequest) -> Iterator[CountingStorage]:
        """The storage of the archive."""
        if request.param == "objects" and self.container.reads == "local":
            pytest.skip("not declared: the container reads local files only")
        found = CountingStorage(FileStorage() if request.param == "files" else MemoryStorage())
        yield found
        found.close()

    @pytest.fixture
    def key(self, tmp_path: Path) -> str:
        """Key of the archive."""
        suffix = self.container.suffixes[0] if self.container.suffixes else ""
        return str(tmp_path / f"archive{suffix}")

    @pytest.fixture
    def tiles(self, storage: CountingStorage, key: str) -> Mapping[Place, bytes]:
        """The tiles of the archive, which is written."""
        return self.replace(storage, key, 0)

    @pytest.fixture
    def opened(
        self, storage: CountingStorage, key: str, tiles: Mapping[Place, bytes]
    ) -> OpenedContainer:
        """The opened archive, of which nothing is cached."""
        found = self.open(storage, key)
        storage.clear()
        return found

    def replace(self, storage: CountingStorage, key: str, generation: int) -> Mapping[Place, bytes]:
        """Write the archive to the storage, in one step; return its tiles."""
        written = Path(f"{key}.{generation}{Path(key).suffix}")
        tiles = self.make(written, generation)
        self.put(storage, key, written.read_bytes())
        written.unlink()
        return tiles

    def put(self, storage: CountingStorage, key: str, data: bytes) -> None:
        """Replace the archive in one step."""
        below = storage._storage
        if isinstance(below, MemoryStorage):
            below.put(key, data)
            return
        new = Path(f"{key}.new")
        new.write_bytes(data)
        os.replace(new, key)

    def remove(self, storage: CountingStorage, key: str) -> None:
        """Remove the archive."""
        below = storage._storage
        if isinstance(below, MemoryStorage):
            del below.objects[key]
            return
        os.unlink(key)
        below.close()

    def open(
        self, storage: Storage, key: str, options: Mapping[str, Any] | None = None
    ) -> OpenedContainer:
        """Open the archive with a cache of its own."""
        name = (
            "file" if isinstance(storage, CountingStorage) and not storage.is_remote else "memory"
        )
        source = Source(ResourcePath(name, storage.container, key), storage)

        def named_set(identifier: str) -> NoReturn:
            raise ContainerFormatError(f"there is no tile matrix set {identifier!r}")

        context = Context(
            IndexCache(1_000_000, 3600.0), named_set, lambda: (), lambda reason, remedy: None
        )
        given = self.options if options is None else options
        return self.container.open(source, given, context)


def _readers(opened: OpenedContainer) -> dict[str, TileReader]:
    levels = opened.pyramid.levels
    return {name: opened.readers[name](level) for name, level in levels.items()}


def _body(tile: StoredTile) -> bytes:
    data = tile.read()
    deliver = None if tile.is_delivered else tile.reader.deliver
    return data if deliver is None else deliver(data)


def _read(readers: Mapping[str, TileReader], place: Place) -> bytes | None:
    tile = readers[place[0]].locate(*place[1:])
    return None if tile is None else _body(tile)


def _cold(readers: Mapping[str, TileReader], storage: Storage) -> dict[str, TileReader]:
    """Return the readers with an empty cache."""
    indices = IndexCache(1_000_000, 3600.0)
    return {name: reader.moved(storage, indices) for name, reader in readers.items()}


class _ModelTests(_ContainerKit):
    level = "model"

    def test_levels_are_coarse_to_fine_and_have_readers(self, opened: OpenedContainer) -> None:
        levels = opened.pyramid.levels
        sizes = [level.matrix.cell_size for level in levels.values()]
        assert sizes == sorted(sizes, reverse=True)
        assert levels.keys() == opened.readers.keys()

    def test_matrices_are_those_of_the_set(self, opened: OpenedContainer) -> None:
        matrices = opened.pyramid.tile_matrix_set.matrices
        for name, level in opened.pyramid.levels.items():
            assert matrices[name] == level.matrix
            assert level.limits.intersection(level.matrix.all_tiles) == level.limits

    def test_each_tile_is_inside_the_limits(
        self, opened: OpenedContainer, tiles: Mapping[Place, bytes]
    ) -> None:
        for name, row, column in tiles:
            assert opened.pyramid.levels[name].limits.contains(row, column), (name, row, column)

    def test_pixels_are_possible_in_the_format(self, opened: OpenedContainer) -> None:
        pyramid = opened.pyramid
        assert (pyramid.raster is None) == pyramid.format.is_vector
        if pyramid.raster is not None:
            assert pyramid.raster.channels in pyramid.format.channels
            assert len(pyramid.raster.nodata) == pyramid.raster.channels


class _AnswerTests(_ContainerKit):
    level = "answers"

    def test_tiles_are_those_that_were_written(
        self, opened: OpenedContainer, tiles: Mapping[Place, bytes]
    ) -> None:
        readers = _readers(opened)
        for place, data in tiles.items():
            assert _read(readers, place) == data, place

    def test_other_tiles_are_absent(
        self, opened: OpenedContainer, tiles: Mapping[Place, bytes]
    ) -> None:
        for name, reader in _readers(opened).items():
            limits = reader.level.limits
            for row in range(limits.min_row, min(limits.max_row, limits.min_row + 20) + 1):
                for column in range(limits.min_col, min(limits.max_col, limits.min_col + 20) + 1):
                    found = reader.locate(row, column)
                    assert (found is not None) == ((name, row, column) in tiles)

    def test_all_ways_lead_to_the_same_tile(
        self, opened: OpenedContainer, tiles: Mapping[Place, bytes]
    ) -> None:
        readers = _readers(opened)
        for name, reader in readers.items():
            places = [place[1:] for place in tiles if place[0] == name]
            together = reader.locate_all(places)
            for place, one in zip(places, together, strict=True):
                assert one is not None
                for other in (reader.locate(*place), reader.expect(*place), reader.known(*place)):
                    assert other is not None
                    assert (other.version, other.identity) == (one.version, one.identity)


class _ReadTests(_ContainerKit):
    level = "reads"

    def test_opening_takes_few_reads(
        self, storage: CountingStorage, key: str, tiles: Mapping[Place, bytes]
    ) -> None:
        self.open(storage, key)
        assert len(storage.reads) <= _MOST_READS

    def test_a_tile_takes_few_reads(
        self, storage: CountingStorage, opened: OpenedContainer, tiles: Mapping[Place, bytes]
    ) -> None:
        if self.container.reads == "local":
            pytest.skip("not declared: the container reads without the storage")
        for place in tiles:
            readers = _cold(_readers(opened), storage)
            for most in (self.cold_reads, self.warm_reads):
                storage.clear()
                _read(readers, place)
                assert 0 < len(storage.reads) <= most, place
            storage.clear()
            tile = readers[place[0]].expect(*place[1:])
            assert tile is not None
            tile.confirm()
            assert storage.reads == []

    def test_neighbours_are_located_with_few_reads(
        self, storage: CountingStorage, opened: OpenedContainer, tiles: Mapping[Place, bytes]
    ) -> None:
        readers = _cold(_readers(opened), storage)
        name = list(tiles)[-1][0]
        places = [place[1:] for place in tiles if place[0] == name][:16]
        readers[name].locate_all(places)
        assert len(storage.reads) <= self.cold_reads


class _GenerationTests(_ContainerKit):
    level = "generations"

    def test_a_tile_located_before_a_replacement_is_of_one_version(
        self,
        storage: CountingStorage,
        key: str,
        opened: OpenedContainer,
        tiles: Mapping[Place, bytes],
    ) -> None:
        readers = _readers(opened)
        located = {place: readers[place[0]].locate(*place[1:]) for place in tiles}
        new = self.replace(storage, key, 1)
        for place, tile in located.items():
            assert tile is not None
            before, data = tile.version, _body(tile)
            # A storage may still give the bytes of the version that it has open.
            assert data == (tiles[place] if tile.version == before else new[place])

    def test_a_replacement_is_another_generation(
        self,
        storage: CountingStorage,
        key: str,
        opened: OpenedContainer,
        tiles: Mapping[Place, bytes],
    ) -> None:
        self.replace(storage, key, 1)
        assert self.open(storage, key).pyramid.generation != opened.pyramid.generation

    def test_no_answer_mixes_versions(
        self,
        storage: CountingStorage,
        key: str,
        opened: OpenedContainer,
        tiles: Mapping[Place, bytes],
    ) -> None:
        other = self.replace(storage, key, 1)
        files = {}
        for generation in (0, 1):
            path = Path(f"{key}.kept{Path(key).suffix}")
            self.make(path, generation)
            files[generation] = path.read_bytes()
        readers, places = _readers(opened), list(tiles)
        stop = threading.Event()

        def replacing() -> None:
            turn = 0
            while not stop.is_set():
                turn += 1
                self.put(storage, key, files[turn % 2])
                stop.wait(0.01)

        def reading(seed: int) -> list[Place]:
            chosen, wrong = random.Random(seed), []  # noqa: S311 - the same tiles in each run
            for _ in range(100):
                place = chosen.choice(places)
                # So many replacements may exhaust the attempts.
                with suppress(StorageError):
                    data = _read(readers, place)
                    if data not in (tiles[place], other[place]):
                        wrong.append(place)
            return wrong

        with ThreadPoolExecutor(9) as pool:
            writer = pool.submit(replacing)
            try:
                assert [found for found in pool.map(reading, range(8)) if found] == []
            finally:
                stop.set()
            writer.result()

    def test_an_archive_that_is_gone_is_an_error(
        self,
        storage: CountingStorage,
        key: str,
        opened: OpenedContainer,
        tiles: Mapping[Place, bytes],
    ) -> None:
        self.remove(storage, key)
        readers = _cold(_readers(opened), storage)
        with pytest.raises(StorageError) as caught:
            _read(readers, next(iter(tiles)))
        # That would be answered as a tile that is not stored.
        assert not isinstance(caught.value, ObjectNotFoundError)


class _ProcessTests(_ContainerKit):
    level = "processes"

    def test_processes_after_a_fork_answer_in_threads(
        self, opened: OpenedContainer, tiles: Mapping[Place, bytes]
    ) -> None:
        readers = _readers(opened)
        children = []
        for _ in range(4):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    with ThreadPoolExecutor(8) as pool:
                        read = pool.map(lambda place: _read(readers, place), tiles)
                        status = int(list(read) != list(tiles.values()))
                finally:
                    os._exit(status)
            children.append(child)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4


class _HostilityTests(_ContainerKit):
    level = "hostility"

    def test_truncated_archives_are_refused_or_read(
        self, storage: CountingStorage, key: str, tiles: Mapping[Place, bytes]
    ) -> None:
        data = self._bytes(storage, key)
        for length in range(0, min(len(data), self.head_length), 64):
            self.attack(storage, key, data[:length], tiles)

    def test_changed_heads_are_refused_or_read(
        self, storage: CountingStorage, key: str, tiles: Mapping[Place, bytes]
    ) -> None:
        data = self._bytes(storage, key)
        chosen = random.Random(1)  # noqa: S311 - the same changes in each run
        for _ in range(_FLIPS):
            changed = bytearray(data)
            for _ in range(chosen.choice((1, 1, 3, 20))):
                changed[chosen.randrange(min(len(data), self.head_length))] = chosen.randrange(256)
            self.attack(storage, key, bytes(changed), tiles)

    def attack(
        self, storage: CountingStorage, key: str, data: bytes, tiles: Mapping[Place, bytes]
    ) -> None:
        """Open and read a damaged archive: all errors must be of Mastaba."""
        self.put(storage, key, data)
        try:
            readers = _readers(self.open(storage, key))
        except (ContainerFormatError, StorageError):
            return
        for name, row, column in list(tiles)[:: max(1, len(tiles) // _TRIED)]:
            reader = readers.get(name)
            if reader is not None and reader.level.limits.contains(row, column):
                with suppress(MastabaError):
                    _read(readers, (name, row, column))

    def _bytes(self, storage: CountingStorage, key: str) -> bytes:
        return storage.read(key).data


class _HonestyTests(_ContainerKit):
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


class ContainerTests(
    _ModelTests,
    _AnswerTests,
    _ReadTests,
    _GenerationTests,
    _ProcessTests,
    _HostilityTests,
    _HonestyTests,
):
    """The contract of `mastaba.api.containers.Container`, in levels.

    Subclasses set `container` and override `make`. The other attributes have defaults.

    Attributes:
        container: the tested class.
        options: with which archives are opened.
        cold_reads: most reads of a tile if nothing is cached.
        warm_reads: most reads of a tile if its index is cached.
        head_length: bytes at the start of archives that attacks cut off and change.
        time_limit: seconds after which a test fails because the container hangs.
        kit: kind of plugin, for the report.
        levels: levels of the tests, in the order of the report.
    """
