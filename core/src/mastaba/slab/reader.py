"""Stored tiles of one level of a pyramid: the way from indices to bytes (slab.md section 1)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from mastaba.errors import ObjectChangedError, ObjectNotFoundError, SlabFormatError
from mastaba.model.pyramid import Level
from mastaba.slab.index import SlabIndex, index_length
from mastaba.slab.index_cache import IndexCache
from mastaba.slab.layout import SlabLayout
from mastaba.slab.symbolic import follow, is_symbolic
from mastaba.storage.base import ByteRange, Storage

SlabKey = tuple[Hashable, int, int]
"""Names a slab in the index cache: where the level lies, slab column, slab row."""

STALE_INDEX: Final = (ObjectChangedError, ObjectNotFoundError, SlabFormatError)
"""How the read of a tile fails when its slab is not what the cached index says."""

READ_ATTEMPTS: Final = 4
"""Reads of a tile whose slab is replaced again and again; of one that is damaged or gone, two."""


class StoredTile:
    """One tile that the index of its slab lists; its bytes are read only when asked for.

    Attributes:
        reader: of the level.
        slab: name of its slab in the index cache.
        index: of one generation of the slab.
        number: of the tile in the slab.
        offset, length: bytes in the slab.
        version: opaque text that changes with the bytes; None when the storage knows none.
        modified: Unix seconds of the slab, or None.
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
        version = self.index.version
        return None if version is None else f"{version}-{self.offset:x}-{self.length:x}"

    @property
    def modified(self) -> float | None:
        return self.index.modified

    @property
    def identity(self) -> Hashable:
        """Equal for equal bytes, as far as the storage can tell: a key for caches."""
        index = self.index
        return index.storage.full_name, index.key, index.version, self.offset, self.length

    def read(self) -> bytes:
        """Return the stored bytes, of the same generation of the slab as its index.

        When the slab was replaced after its index was read, the index is read again; the tile
        then is that of the new generation, and so are `version` and `modified`.

        Raises:
            ObjectNotFoundError: the slab, or this tile of it, has gone.
            SlabFormatError: the slab is damaged.
            StorageError: it cannot be read.
        """
        for attempt in range(1, READ_ATTEMPTS + 1):
            try:
                return self._read()
            except STALE_INDEX as error:
                # A slab that changed may change again; one that is damaged or gone stays so.
                final = READ_ATTEMPTS if isinstance(error, ObjectChangedError) else 2
                if attempt >= final:
                    self.forget_index()
                    raise
            fresh = self.reader.refresh(self.slab, self.index)
            if not self.move_to(fresh):
                raise ObjectNotFoundError(
                    f"slab {fresh.name} no longer holds tile {self.number}", key=fresh.key
                )
        raise AssertionError("unreachable: the last attempt returns or raises")

    def move_to(self, index: SlabIndex) -> bool:
        """Become the same tile of another generation; False when that does not hold it.

        Raises:
            SlabFormatError: the slab is damaged.
        """
        place = index.tile(self.number)
        if place is None:
            return False
        self.index = index
        self.offset, self.length = place
        return True

    def forget_index(self) -> None:
        """Take the index of this tile out of the cache: what it led to is damaged.

        A slab is repaired sooner or later; an index that is kept would hide that until its
        validity ends.
        """
        self.reader.forget(self.slab, self.index)

    def cut_short(self, length: int) -> SlabFormatError:
        """Return the error for a read that brought only ``length`` bytes of this tile."""
        return SlabFormatError(
            f"slab {self.index.name}: tile {self.number} at {self.offset} should have "
            f"{self.length} bytes, the slab ends after {length} of them"
        )

    def _read(self) -> bytes:
        index = self.index
        data = index.storage.read(
            index.key, ByteRange(self.offset, self.length), index.version
        ).data
        if len(data) != self.length:
            raise self.cut_short(len(data))
        return data


class LevelReader:
    """Finds and reads the tiles of one level.

    Args:
        level: what the level holds.
        layout: names of its slabs.
        storage: where they lie.
        indices: the cache that all levels share.
        open_container: opens the container that a symbolic object of this storage points to;
            without it, symbolic objects are damaged slabs.
    """

    __slots__ = (
        "_data",
        "_height",
        "_indices",
        "_layout",
        "_open_container",
        "_tile_count",
        "_width",
        "level",
        "storage",
    )

    def __init__(
        self,
        level: Level,
        layout: SlabLayout,
        storage: Storage,
        indices: IndexCache,
        open_container: Callable[[str], Storage] | None = None,
    ) -> None:
        self.level = level
        self.storage = storage
        self._layout = layout
        self._indices = indices
        self._open_container = open_container
        self._width = level.tiles_per_width
        self._height = level.tiles_per_height
        self._tile_count = level.tiles_per_width * level.tiles_per_height
        # Layers over one pyramid share its indices: the key is where the slabs lie, not the layer.
        # The size of a slab belongs to it, since an index is read by that size.
        self._data = f"{storage.full_name}/{layout!r}/{self._width}x{self._height}"

    def moved(self, storage: Storage, indices: IndexCache) -> LevelReader:
        """Return a reader of the same slabs over another connection and cache."""
        return LevelReader(self.level, self._layout, storage, indices, self._open_container)

    def locate(self, tile_row: int, tile_col: int) -> StoredTile | None:
        """Return the tile at these indices, or None when none is stored there.

        The caller has checked the limits of the level. One read of the storage when the index
        is not known yet, none otherwise.

        Raises:
            SlabFormatError: the slab is damaged; the message names it.
            StorageError: it cannot be read; an absent slab is None, not an error.
        """
        width, height = self._width, self._height
        slab_col, slab_row = tile_col // width, tile_row // height
        key = (self._data, slab_col, slab_row)
        index = self._indices.peek(key) or self.index(key)
        if index is None:
            return None
        number = (tile_row - slab_row * height) * width + tile_col - slab_col * width
        return self.stored_tile(key, index, number)

    def stored_tile(self, slab: SlabKey, index: SlabIndex, number: int) -> StoredTile | None:
        """Return a tile of a slab by its number, or None when the slab does not hold it.

        A damaged entry makes the index be read again once: the slab may have been repaired since
        it was cached. One that is still damaged is not kept.

        Raises:
            SlabFormatError: the slab is damaged.
            StorageError: it cannot be read again.
        """
        try:
            place = index.tile(number)
        except SlabFormatError:
            try:
                index = self.refresh(slab, index)
                place = index.tile(number)
            except ObjectNotFoundError:
                return None
            except SlabFormatError:
                self.forget(slab, index)
                raise
        return None if place is None else StoredTile(self, slab, index, number, place)

    def place_of(self, tile_row: int, tile_col: int) -> tuple[SlabKey, int]:
        """Return the slab that holds a tile, and the number of the tile in it."""
        slab_col, col = divmod(tile_col, self._width)
        slab_row, row = divmod(tile_row, self._height)
        return (self._data, slab_col, slab_row), row * self._width + col

    def key_of(self, slab: SlabKey) -> str:
        """Return the key of a slab in the storage of the level, whether it is there or not."""
        _, slab_col, slab_row = slab
        return self._layout.key(slab_col, slab_row)

    def known_index(self, slab: SlabKey) -> SlabIndex | None:
        """Return the index of a slab if no read is needed for it."""
        return self._indices.peek(slab)

    def index(self, slab: SlabKey) -> SlabIndex | None:
        """Return the index of a slab, None when there is no such slab. Raises as `locate`."""
        _, slab_col, slab_row = slab
        try:
            return self._indices.get(slab, lambda: self._load(slab_col, slab_row))
        except ObjectNotFoundError:
            return None

    def forget(self, slab: SlabKey, index: SlabIndex) -> None:
        """Take an index out of the cache, unless a newer one took its place."""
        self._indices.drop(slab, index)

    def refresh(self, slab: SlabKey, stale: SlabIndex) -> SlabIndex:
        """Return the index of a slab as it is now, in place of one that proved out of date."""
        self._indices.drop(slab, stale)
        _, slab_col, slab_row = slab
        return self._indices.get(slab, lambda: self._load(slab_col, slab_row))

    def _load(self, slab_col: int, slab_row: int) -> SlabIndex:
        storage, key = self.storage, self._layout.key(slab_col, slab_row)
        wanted = ByteRange(0, index_length(self._tile_count))
        read = storage.read(key, wanted)
        if not read.data:
            raise ObjectNotFoundError(f"slab {key} is empty", storage=storage.full_name, key=key)
        if self._open_container is not None and is_symbolic(read.data, wanted.length):
            target = follow(storage, key, read.data, wanted, self._open_container)
            storage, key, read = target.storage, target.key, target.read
        return SlabIndex(
            read.data,
            self._tile_count,
            storage=storage,
            key=key,
            version=read.version,
            modified=read.modified,
        )
