"""Stored tiles of one level of a pyramid: from indices to bytes (slab.md section 1)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from itertools import count
from typing import ClassVar, Final

from mastaba.errors import MastabaError, ObjectChangedError, ObjectNotFoundError, SlabFormatError
from mastaba.model.pyramid import Level
from mastaba.slab.index import SlabIndex, full_name, index_length
from mastaba.slab.index_cache import IndexCache
from mastaba.slab.layout import SlabLayout
from mastaba.slab.stored_indices import LevelSlabs, StoredIndices
from mastaba.slab.symbolic import follow, is_symbolic
from mastaba.storage.base import ByteRange, Storage
from mastaba_server.threads.per_process import ThreadPool

SlabKey = tuple[Hashable, int, int]
"""Key of a slab in the index cache: location of the level, slab column, slab row."""

READS: Final = ThreadPool(32, "mastaba-read")
"""The threads that run the reads of one request in parallel."""

STALE_INDEX: Final = (ObjectChangedError, ObjectNotFoundError, SlabFormatError)
"""Errors of reading a tile if its slab does not match the cached index."""

_ATTEMPTS: Final = 4
"""Maximum reads of a tile whose slab is replaced repeatedly; if it is damaged or absent, two."""


class StoredTile:
    """One tile listed in the index of its slab; its bytes are read only on request.

    Attributes:
        reader: reader of the level.
        slab: key of its slab in the index cache.
        index: index of one version of the slab.
        number: number of the tile in the slab.
        offset: first byte in the slab.
        length: bytes.
    """

    __slots__ = ("index", "length", "number", "offset", "reader", "slab")

    def __init__(
        self,
        reader: LevelReader,
        slab: SlabKey,
        index: SlabIndex,
        number: int,
        place: tuple[int, int],
    ) -> None:
        self.reader = reader
        self.slab = slab
        self.index = index
        self.number = number
        self.offset, self.length = place

    @property
    def version(self) -> str | None:
        """Opaque text that changes with the bytes; None if the storage has no versions."""
        version = self.index.version
        return None if version is None else f"{version}-{self.offset:x}-{self.length:x}"

    @property
    def modified(self) -> float | None:
        """Time of change of the slab in Unix seconds, or None."""
        return self.index.modified

    @property
    def identity(self) -> Hashable:
        """A key for caches: equal only for equal bytes if the storage has versions."""
        return self.index.identity, self.offset, self.length

    def read(self) -> bytes:
        """Return the stored bytes, from the same version of the slab as its index.

        If the slab was replaced after its index was read, the index is read again. The tile,
        `version` and `modified` are then those of the new version.

        Raises:
            ObjectNotFoundError: the slab, or this tile in it, no longer exists.
            SlabFormatError: the slab is damaged.
            StorageError: the slab cannot be read.
        """
        for attempt in count(1):
            try:
                return self._read()
            except STALE_INDEX as error:
                if not again([self], error, attempt):
                    raise ObjectNotFoundError(
                        f"slab {self.index.name} no longer contains tile {self.number}",
                        key=self.index.key,
                    ) from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    def move_to(self, index: SlabIndex) -> bool:
        """Become the same tile of another version; return False if it is absent there.

        Raises:
            SlabFormatError: the slab is damaged.
        """
        place = index.tile(self.number)
        if place is None:
            return False
        self.index = index
        self.offset, self.length = place
        return True

    def confirm(self) -> None:
        """Make sure that the tile is of a version that was current when its index was cached.

        Needed before `version` and `modified` are used for a tile from `LevelReader.expect` that
        has not been read.

        Raises:
            ObjectNotFoundError, SlabFormatError, StorageError: as `read`.
        """

    def forget_index(self) -> None:
        """Remove the index of this tile from the cache, because the slab is damaged.

        A cached index would hide a repair of the slab until its validity ends.
        """
        self.reader.forget(self.slab, self.index)

    def whole(self, data: bytes) -> bytes:
        """Return the bytes that were read for this tile.

        Raises:
            SlabFormatError: the slab ends before the tile.
        """
        if len(data) != self.length:
            raise SlabFormatError(
                f"slab {self.index.name}: tile {self.number} at {self.offset} should have "
                f"{self.length} bytes, the slab ends after {len(data)} of them"
            )
        return data

    def _read(self) -> bytes:
        index = self.index
        place = ByteRange(self.offset, self.length)
        data = index.storage.read(index.key, place, index.version).data
        return data if len(data) == self.length else self.whole(data)


class _ExpectedTile(StoredTile):
    """A tile whose index is from the store, and perhaps outdated until its slab has answered."""

    __slots__ = ()

    def confirm(self) -> None:
        index = self.index
        with suppress(ObjectNotFoundError):
            if index.storage.stat(index.key).version == index.version:
                self.reader.keep(self.slab, index)
                return
        changed = ObjectChangedError(f"slab {index.name} was replaced", key=index.key)
        if not again([self], changed, 1):
            raise ObjectNotFoundError(f"slab {index.name} no longer exists", key=index.key)

    def _read(self) -> bytes:
        data = super()._read()
        self.reader.keep(self.slab, self.index)
        return data


def again(tiles: Sequence[StoredTile], error: MastabaError, attempt: int) -> list[StoredTile]:
    """Move tiles whose slab does not match its index to the current version of the slab.

    The only place that reads an index again.

    Args:
        tiles: of one version of one slab.
        error: one of `STALE_INDEX`, from reading the tiles or their entries in the index.
        attempt: number of failed attempts, from 1.

    Returns:
        The tiles to read again; none if the slab, or the tiles in it, no longer exist.

    Raises:
        ObjectChangedError: the error, if the slab has changed in every attempt.
        SlabFormatError: the slab is still damaged. Its index is no longer cached.
        StorageError: the slab cannot be read again.
    """
    first = tiles[0]
    # A changed slab may change again; a damaged or absent one stays so.
    if attempt >= (_ATTEMPTS if isinstance(error, ObjectChangedError) else 2):
        first.forget_index()
        if isinstance(error, ObjectNotFoundError):
            return []
        raise error
    try:
        # The version that another thread has read may be gone again.
        is_last = attempt == _ATTEMPTS - 1
        index = first.reader.refresh(first.slab, first.index, alone=is_last)
    except ObjectNotFoundError:
        return []
    try:
        return [tile for tile in tiles if tile.move_to(index)]
    except SlabFormatError:
        first.reader.forget(first.slab, index)
        raise


class LevelReader:
    """Finds and reads the tiles of one level.

    Args:
        level: the level.
        layout: keys of its slabs.
        storage: storage of its slabs.
        indices: the cache shared by all levels.
        open_container: opens the container that a symbolic object in this storage points to;
            without it, symbolic objects are damaged slabs.
        packs: keys of the index packs of the level; None if there are none.

    Attributes:
        is_masked: whether its slabs contain more than may be shown, so that they must be read
            through its tiles only.
    """

    is_masked: ClassVar[bool] = False
    __slots__ = ("_data", "_height", "_indices", "_slabs", "_stored", "_width", "level", "storage")

    def __init__(
        self,
        level: Level,
        layout: SlabLayout,
        storage: Storage,
        indices: IndexCache,
        open_container: Callable[[str], Storage] | None = None,
        packs: SlabLayout | None = None,
    ) -> None:
        self.level = level
        self.storage = storage
        self._indices = indices
        self._width = level.tiles_per_width
        self._height = level.tiles_per_height
        # Layers on one pyramid share its indices: the key is the location of the slabs, not the
        # layer. It includes the size of the slabs, which an index depends on.
        self._data = f"{storage.full_name}/{layout!r}/{self._width}x{self._height}"
        tile_count = self._width * self._height
        self._slabs = LevelSlabs(self._data, tile_count, storage, layout, packs, open_container)
        self._stored: StoredIndices | None = None
        if indices.store is not None and storage.is_remote:
            self._stored = indices.store.level(self._slabs)

    def moved(self, storage: Storage, indices: IndexCache) -> LevelReader:
        """Return a reader of the same slabs with another storage and cache."""
        slabs = self._slabs
        return LevelReader(
            self.level, slabs.layout, storage, indices, slabs.open_container, slabs.packs
        )

    def locate(self, tile_row: int, tile_col: int) -> StoredTile | None:
        """Return the tile at these indices, or None if none is stored there.

        The caller has checked the limits of the level. The storage is read once if the index is
        not cached, otherwise not at all.

        Raises:
            SlabFormatError: the slab is damaged; the message names it.
            StorageError: the slab cannot be read; an absent slab gives None, not an error.
        """
        # As `place_of`: a call less for each tile.
        width, height = self._width, self._height
        slab_col, slab_row = tile_col // width, tile_row // height
        slab = (self._data, slab_col, slab_row)
        index = self._indices.peek(slab) or self.index(slab)
        if index is None:
            return None
        number = (tile_row - slab_row * height) * width + tile_col - slab_col * width
        return self.stored_tile(slab, index, number)

    def locate_all(self, tiles: Sequence[tuple[int, int]]) -> list[StoredTile | None]:
        """Return tiles (row, column) in the given order, as `locate` does for one.

        Indices that are not cached are read, in parallel if the storage is remote. All tiles of a
        slab are from one version of it.
        """
        slabs: dict[SlabKey, dict[int, int]] = {}
        for position, (row, col) in enumerate(tiles):
            slab, number = self.place_of(row, col)
            slabs.setdefault(slab, {})[position] = number
        indices: dict[SlabKey, SlabIndex | None] = {}
        unknown: list[SlabKey] = []
        for slab in slabs:
            indices[slab] = self._indices.peek(slab)
            if indices[slab] is None:
                unknown.append(slab)
        read = READS.map if self.storage.is_remote else map
        indices.update(zip(unknown, read(self.index, unknown), strict=True))
        places: list[tuple[SlabKey, SlabIndex, Sequence[tuple[int, int] | None]]] = []
        for slab, index in indices.items():
            if index is None:
                continue
            numbers = slabs[slab].values()
            try:
                places.append((slab, index, index.tiles(numbers)))
            except SlabFormatError:
                for number in numbers:
                    self.stored_tile(slab, index, number)  # raises if the slab is still damaged
                # It has been repaired or removed meanwhile: take all tiles from its new index.
                return self.locate_all(tiles)
        found: list[StoredTile | None] = [None] * len(tiles)
        for slab, index, in_slab in places:
            for (position, number), place in zip(slabs[slab].items(), in_slab, strict=True):
                if place is not None:
                    found[position] = StoredTile(self, slab, index, number, place)
        return found

    def expect(self, tile_row: int, tile_col: int) -> StoredTile | None:
        """Return a tile to be read next, as `locate` does, often without reading its slab.

        If its index is in the store, it may be outdated: `StoredTile.read` then moves the tile to
        the current version. Before its version is used, call `StoredTile.read` or
        `StoredTile.confirm`.

        Raises the errors of `locate`.
        """
        found = None if self._stored is None else self.known(tile_row, tile_col)
        return found or self.locate(tile_row, tile_col)

    def known(self, tile_row: int, tile_col: int) -> StoredTile | None:
        """Return a tile whose index is cached or in the store, as `expect` does, or else None."""
        slab, number = self.place_of(tile_row, tile_col)
        index = self._indices.peek(slab)
        if index is not None:
            return self.stored_tile(slab, index, number)
        if self._stored is not None:
            index = self._stored.get(*slab[1:])
            # A tile that is absent or damaged here may be in a newer version.
            with suppress(SlabFormatError):
                if index is not None and (place := index.tile(number)) is not None:
                    self._indices.count_hit()
                    return _ExpectedTile(self, slab, index, number, place)
        return None

    def stored_tile(self, slab: SlabKey, index: SlabIndex, number: int) -> StoredTile | None:
        """Return a tile of a slab by its number, or None if the slab does not contain it.

        If the entry is damaged, the index is read again once: the slab may have been repaired
        since. An index that is still damaged is not cached.

        Raises:
            SlabFormatError: the slab is damaged.
            StorageError: the slab cannot be read again.
        """
        try:
            place = index.tile(number)
        except SlabFormatError as error:
            tile = StoredTile(self, slab, index, number, (0, 0))
            return tile if again([tile], error, 1) else None
        return None if place is None else StoredTile(self, slab, index, number, place)

    def place_of(self, tile_row: int, tile_col: int) -> tuple[SlabKey, int]:
        """Return the slab that contains a tile, and the number of the tile in it."""
        slab_col, col = divmod(tile_col, self._width)
        slab_row, row = divmod(tile_row, self._height)
        return (self._data, slab_col, slab_row), row * self._width + col

    def key_of(self, slab: SlabKey) -> str:
        """Return the key of a slab in the level's storage, whether or not the slab exists."""
        _, slab_col, slab_row = slab
        return self._slabs.layout.key(slab_col, slab_row)

    def name_of(self, slab: SlabKey) -> str:
        """Return the full name of a slab, for messages."""
        return full_name(self.storage, self.key_of(slab))

    def index(self, slab: SlabKey) -> SlabIndex | None:
        """Return the index of a slab, or None if it is absent. Raises the errors of `locate`."""
        try:
            return self._read_index(slab)
        except ObjectNotFoundError:
            return None

    def keep(self, slab: SlabKey, index: SlabIndex) -> None:
        """Cache an index that proved to be current."""
        self._indices.put(slab, index)

    def forget(self, slab: SlabKey, index: SlabIndex) -> None:
        """Remove an index from the cache, unless a newer one has replaced it."""
        self._indices.drop(slab, index)

    def refresh(self, slab: SlabKey, stale: SlabIndex, *, alone: bool = False) -> SlabIndex:
        """Replace an index that proved to be outdated; return the current one.

        Args:
            alone: whether this thread must read the index itself. It can then also read the tiles
                of that version from a local file, however often the file is replaced.
        """
        self._indices.drop(slab, stale)
        if not alone:
            return self._read_index(slab)
        index = self._load(slab)
        self._indices.put(slab, index)
        return index

    def _read_index(self, slab: SlabKey) -> SlabIndex:
        # Threads that wait for the read of another one count as reads too.
        room = getattr(self.storage, "room", None)
        waiting = nullcontext if room is None else partial(room.read, self.key_of(slab))
        return self._indices.get(slab, lambda: self._load(slab), waiting)

    def _load(self, slab: SlabKey) -> SlabIndex:
        storage, key, open_container = self.storage, self.key_of(slab), self._slabs.open_container
        wanted = ByteRange(0, index_length(self._slabs.tile_count))
        read = storage.read(key, wanted)
        if not read.data:
            raise ObjectNotFoundError(f"slab {key} is empty", storage=storage.full_name, key=key)
        link = None
        if open_container is not None and is_symbolic(read.data, wanted.length):
            link = read
            storage, key, read = follow(storage, key, read.data, wanted, open_container)
        index = SlabIndex(
            read.data,
            self._slabs.tile_count,
            storage=storage,
            key=key,
            version=read.version,
            modified=read.modified,
        )
        if self._stored is not None:
            self._stored.put(*slab[1:], read, link)
        return index
