"""What the conformance tests of containers share."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NoReturn

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
from mastaba.errors import ObjectChangedError, ObjectNotFoundError
from mastaba_conformance.counting_storage import CountingStorage

TileAddress = tuple[str, int, int]
"""Tile matrix identifier, row and column."""


class MemoryStorage(Storage):
    """Objects in memory, in the place of an object store.

    Args:
        has_versions: whether it reports versions and times of its objects.

    Attributes:
        objects: bytes and version of each key; `put` replaces one.
    """

    name = "memory"
    container_field: ClassVar[str | None] = "bucket_name"

    def __init__(self, container: str = "conformance", *, has_versions: bool = True) -> None:
        super().__init__(container)
        self.objects: dict[str, tuple[bytes, str | None]] = {}
        self._has_versions = has_versions
        self._modified = 1.7e9 if has_versions else None
        self._count = 0

    @classmethod
    def open(cls, container: str, environment: Environment) -> NoReturn:
        raise TypeError("a MemoryStorage is made, not opened")

    def put(self, key: str, data: bytes) -> None:
        """Store an object, replacing any existing one."""
        self._count += 1
        self.objects[key] = data, str(self._count) if self._has_versions else None

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        data, present = self._object(key)
        if version not in (None, present):
            raise ObjectChangedError(f"{key} was replaced", storage=self.full_name, key=key)
        start, length = byte_range or (0, len(data))
        return ObjectRead(data[start : start + length], present, self._modified)

    def stat(self, key: str) -> ObjectStat:
        data, version = self._object(key)
        return ObjectStat(len(data), version, self._modified)

    def _object(self, key: str) -> tuple[bytes, str | None]:
        try:
            return self.objects[key]
        except KeyError:
            raise ObjectNotFoundError(
                f"{key} does not exist", storage=self.full_name, key=key
            ) from None


class ContainerKit:
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
    def make(self, path: Path, generation: int) -> Mapping[TileAddress, bytes]:
        """Write an archive without the tested container.

        Args:
            path: has the first suffix of the container; replaced if it exists.
            generation: 0 or 1; both have the same tiles with other bytes, and 1 is smaller.

        Returns:
            The body of each tile, as it is delivered.
        """

    def corpus(self, path: Path) -> Mapping[str, bytes]:
        """Return hostile archives of the format by what is wrong with them; none by default.

        All of them must be refused when they are opened, or when their tiles are read.

        Args:
            path: a free path with the suffix of the container, for libraries that write files.
        """
        return {}

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
    def tiles(self, storage: CountingStorage, key: str) -> Mapping[TileAddress, bytes]:
        """The tiles of the archive, which is written."""
        return self.replace(storage, key, 0)

    @pytest.fixture
    def opened(
        self, storage: CountingStorage, key: str, tiles: Mapping[TileAddress, bytes]
    ) -> OpenedContainer:
        """The opened archive, of which nothing is cached."""
        found = self.open(storage, key)
        storage.clear()
        return found

    def replace(
        self, storage: CountingStorage, key: str, generation: int
    ) -> Mapping[TileAddress, bytes]:
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


def readers_of(opened: OpenedContainer) -> dict[str, TileReader]:
    levels = opened.pyramid.levels
    return {name: opened.readers[name](level) for name, level in levels.items()}


def body_of(tile: StoredTile) -> bytes:
    data = tile.read()
    deliver = None if tile.is_delivered else tile.reader.deliver
    return data if deliver is None else deliver(data)


def body_at(readers: Mapping[str, TileReader], place: TileAddress) -> bytes | None:
    tile = readers[place[0]].locate(*place[1:])
    return None if tile is None else body_of(tile)


def all_read(readers: Mapping[str, TileReader], tiles: Iterable[TileAddress]) -> None:
    for name, row, column in tiles:
        reader = readers.get(name)
        if reader is not None and reader.level.limits.contains(row, column):
            body_at(readers, (name, row, column))


def cold(readers: Mapping[str, TileReader], storage: Storage) -> dict[str, TileReader]:
    """Return the readers with an empty cache."""
    indices = IndexCache(1_000_000, 3600.0)
    return {name: reader.moved(storage, indices) for name, reader in readers.items()}
