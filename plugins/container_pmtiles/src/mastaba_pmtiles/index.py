"""The index of an archive: its root directory, and leaf directories when they are needed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from mastaba.api.containers import IndexCache, TileIndex
from mastaba.api.storages import ByteRange, ObjectRead, Storage
from mastaba.errors import ContainerFormatError, ObjectChangedError, ObjectNotFoundError
from mastaba_containers.inflating import inflated
from mastaba_pmtiles.directory import MAX_INFLATED, Directory, Frame, parse_directory
from mastaba_pmtiles.header import HEAD_LENGTH, Header, Section
from mastaba_pmtiles.tile_ids import first_id
from mastaba_server.threads.per_process import ThreadPool

_LEAVES: Final = ThreadPool(16, "pmtiles-leaf")
"""The threads that read leaf directories of one request in parallel."""
_NONE_HELD: Final[Mapping[Any, Directory]] = MappingProxyType({})
_MAX_DEPTH: Final = 4
"""Directories from the root to a tile, as reference readers have it."""
_OVERHEAD: Final = 512
"""Bytes of an index or directory beside its columns."""


class Archive(TileIndex):
    """The index of one version of an archive.

    Attributes:
        header: the header.
        root: the root directory.
        reads: how many reads the index took.
    """

    word = "archive"
    __slots__ = ("_cache", "_end", "_generation", "_tiles_at", "header", "reads", "root")

    def __init__(self, storage: Storage, key: str, cache: IndexCache, head: ObjectRead) -> None:
        """Read an index.

        Args:
            cache: keeps leaf directories.
            head: the first bytes of the archive.

        Raises:
            ContainerFormatError: the archive is damaged.
            StorageError: a large root directory cannot be read.
        """
        super().__init__(storage, key, head.version, head.modified)
        self._cache = cache
        # Without versions, leaf directories of this index must not be those of another one.
        self._generation: object = self.identity if head.version is not None else object()
        self.header = header = Header.parse(head.data)
        self.reads = 1
        root = head.data[header.root.offset : header.root.end]
        if len(root) < header.root.length:
            self.reads += len(head.data) == HEAD_LENGTH
            root = self.section(header.root)
        self._tiles_at = header.tiles.offset
        self._end = first_id(header.max_zoom + 1)
        frame = Frame(0, self._end, header.tiles.length, header.leaves.length)
        self.root = self._directory(root, frame)

    @property
    def nbytes(self) -> int:
        return self.root.nbytes + _OVERHEAD

    def section(self, section: Section) -> bytes:
        """Read a section.

        Raises:
            ContainerFormatError: the archive ends before it.
            StorageError: it cannot be read, or the archive was replaced.
        """
        place = ByteRange(section.offset, section.length)
        try:
            data = self.storage.read(self.key, place, self.version).data
        except ObjectNotFoundError as error:
            # Its tiles are unknown, not absent: reading its head says so.
            raise ObjectChangedError(f"archive {self.name} is gone", key=self.key) from error
        if len(data) != section.length:
            raise self._error(
                f"it ends after {section.offset + len(data)} bytes, in a section that ends at "
                f"{section.end}"
            )
        return data

    def plain(self, data: bytes, limit: int) -> bytes:
        """Return a section without its compression. Raises `ContainerFormatError`."""
        coding = self.header.internal_coding
        if coding is None:
            raise self._error("the compression of its directories is unknown")
        if coding:
            return inflated(data, limit, coding)
        if len(data) > limit:
            raise self._error(f"a section has more than {limit} bytes")
        return data

    def tile(self, number: int) -> tuple[int, int] | None:
        # As `_step` for the root: calls less for each tile of an archive without leaves.
        root = self.root
        position = bisect_right(root.ids, number) - 1
        if position < 0:
            return None
        run = root.runs[position]
        if run:
            if number - root.ids[position] >= run:
                return None
            return self._tiles_at + root.offsets[position], root.lengths[position]
        step = self._step(number, _NONE_HELD)
        return self.tiles((number,))[0] if isinstance(step, Leaf) else step

    def tiles(self, numbers: Iterable[int]) -> list[tuple[int, int] | None]:
        wanted = list(numbers)
        held: dict[Any, Directory] = {}
        for _ in range(_MAX_DEPTH):
            steps = [self._step(number, held) for number in wanted]
            missing = {step.key: step for step in steps if isinstance(step, Leaf)}
            if not missing:
                return [None if isinstance(step, Leaf) else step for step in steps]
            read = _LEAVES.map if self.storage.is_remote else map
            leaves = list(missing.values())
            held.update(zip(missing, read(Leaf.read, leaves), strict=True))
        raise self._too_deep()

    def known(self, number: int) -> tuple[int, int] | None:
        """As `tile`, but None if a directory that is not cached is needed."""
        step = self._step(number, _NONE_HELD)
        return None if isinstance(step, Leaf) else step

    def _step(self, number: int, held: Mapping[Any, Directory]) -> tuple[int, int] | Leaf | None:
        """Return the place of a tile, or the next directory to read for it.

        Args:
            held: leaf directories that were read for the same call, and perhaps not cached.
        """
        directory, end = self.root, self._end
        for _ in range(_MAX_DEPTH):
            # As `Directory.find`: a call less for each tile.
            position = bisect_right(directory.ids, number) - 1
            if position < 0:
                return None
            run = directory.runs[position]
            if run:
                if number - directory.ids[position] >= run:
                    return None
                return self._tiles_at + directory.offsets[position], directory.lengths[position]
            leaf = Leaf(self, directory, position, end)
            found = held.get(leaf.key) or leaf.cached()
            if found is None:
                return leaf
            directory, end = found, leaf.end
        raise self._too_deep()

    def _too_deep(self) -> ContainerFormatError:
        return self._error(f"its directories are nested deeper than {_MAX_DEPTH} levels")

    def _directory(self, data: bytes, frame: Frame) -> Directory:
        try:
            return parse_directory(self.plain(data, MAX_INFLATED), frame)
        except ContainerFormatError as error:
            raise self._error(str(error)) from error

    def _error(self, reason: str) -> ContainerFormatError:
        return ContainerFormatError(f"archive {self.name}: {reason}")


class Leaf:
    """A leaf directory, which may be cached.

    Args:
        archive: the index of its archive.
        parent: directory of the entry.
        position: of the entry in ``parent``.
        end: behind the highest number in ``parent``.

    Attributes:
        key: in the cache of indices.
        end: behind the highest number in it.
    """

    __slots__ = ("_archive", "_first", "_section", "end", "key")

    def __init__(self, archive: Archive, parent: Directory, position: int, end: int) -> None:
        self._archive = archive
        self._first = parent.ids[position]
        self.end = parent.end_of(position, end)
        leaves = archive.header.leaves
        self._section = Section(leaves.offset + parent.offsets[position], parent.lengths[position])
        # What it may contain depends on the entry.
        self.key = archive._generation, self._section.offset, self._first, self.end

    def cached(self) -> Directory | None:
        """Return the directory if it is cached."""
        found = self._archive._cache.peek(self.key)
        return None if found is None else found.directory  # type: ignore[attr-defined]

    def read(self) -> Directory:
        """Read the directory, unless another thread does.

        Raises:
            ContainerFormatError: it is damaged.
            StorageError: it cannot be read, or the archive was replaced.
        """
        found = self._archive._cache.get(self.key, self._load)
        return found.directory  # type: ignore[attr-defined,no-any-return]

    def _load(self) -> LeafIndex:
        archive = self._archive
        header = archive.header
        frame = Frame(self._first, self.end, header.tiles.length, header.leaves.length)
        return LeafIndex(archive, archive._directory(archive.section(self._section), frame))


class LeafIndex(TileIndex):
    """A leaf directory in the cache of indices."""

    word = "archive"
    __slots__ = ("directory",)

    def __init__(self, archive: Archive, directory: Directory) -> None:
        super().__init__(archive.storage, archive.key, archive.version, archive.modified)
        self.directory = directory

    @property
    def nbytes(self) -> int:
        return self.directory.nbytes + _OVERHEAD

    def tile(self, number: int) -> tuple[int, int] | None:
        raise NotImplementedError("tiles are found from the root directory")
