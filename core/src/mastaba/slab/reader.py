"""Stored tiles of one level of a slab pyramid (slab.md section 1)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hashlib import blake2b

from mastaba.containers.index_cache import IndexCache
from mastaba.containers.reader import BlockKey, StoredTile, TileReader, again
from mastaba.errors import ObjectChangedError, ObjectNotFoundError, SlabFormatError
from mastaba.model.pyramid import Level
from mastaba.slab.index import SlabIndex, index_length
from mastaba.slab.layout import SlabLayout
from mastaba.slab.stored_indices import LevelSlabs, StoredIndices
from mastaba.slab.symbolic import follow, is_symbolic
from mastaba_storage.base import ByteRange, Storage


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


class LevelReader(TileReader):
    """Finds and reads the tiles of one level.

    Args:
        level: the level.
        layout: keys of its slabs.
        storage: storage of its slabs.
        indices: the cache shared by all levels.
        open_container: opens the container that a symbolic object in this storage points to;
            without it, symbolic objects are damaged slabs.
        packs: keys of the index packs of the level; None if there are none.
        masks: makes the reader of its mask slabs, given the level; None if there are none.
    """

    has_slabs = True
    __slots__ = ("_layout", "_masks", "_open_container", "_packs", "_stored")

    def __init__(
        self,
        level: Level,
        layout: SlabLayout,
        storage: Storage,
        indices: IndexCache,
        open_container: Callable[[str], Storage] | None = None,
        packs: SlabLayout | None = None,
        masks: partial[LevelReader] | None = None,
    ) -> None:
        # Layers on one pyramid share its indices: the key is the location of the slabs, not the
        # layer. It includes the size of the slabs, which an index depends on.
        name = f"{storage.full_name}/{layout!r}/{level.tiles_per_width}x{level.tiles_per_height}"
        # There may be many readers, and locations are long.
        digest = blake2b(name.encode(), digest_size=12).digest()
        super().__init__(level, storage, indices, digest)
        self._layout, self._packs, self._open_container = layout, packs, open_container
        self._masks = masks
        self._stored: StoredIndices | None = None
        if indices.store is not None and storage.is_remote:
            count = self._width * self._height
            slabs = LevelSlabs(name, count, storage, layout, packs, open_container)
            self._stored = indices.store.level(slabs)

    def moved(self, storage: Storage, indices: IndexCache) -> LevelReader:
        """Return a reader of the same slabs with another storage and cache."""
        masks = self._masks and partial(self._masks, storage=storage, indices=indices)
        how = self._open_container, self._packs, masks
        return LevelReader(self.level, self._layout, storage, indices, *how)

    @property
    def masks(self) -> LevelReader | None:
        # Made when it is needed: few requests do.
        return None if self._masks is None else self._masks(self.level)

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

    def key_of(self, slab: BlockKey) -> str:
        """Return the key of a slab in the level's storage, whether or not the slab exists."""
        _, slab_col, slab_row = slab
        return self._layout.key(slab_col, slab_row)

    def _load(self, slab: BlockKey) -> SlabIndex:
        storage, key, open_container = self.storage, self.key_of(slab), self._open_container
        tile_count = self._width * self._height
        wanted = ByteRange(0, index_length(tile_count))
        read = storage.read(key, wanted)
        if not read.data:
            raise ObjectNotFoundError(f"slab {key} is empty", storage=storage.full_name, key=key)
        link = None
        if open_container is not None and is_symbolic(read.data, wanted.length):
            link = read
            storage, key, read = follow(storage, key, read.data, wanted, open_container)
        index = SlabIndex(
            read.data,
            tile_count,
            storage=storage,
            key=key,
            version=read.version,
            modified=read.modified,
        )
        if self._stored is not None:
            self._stored.put(*slab[1:], read, link)
        return index
