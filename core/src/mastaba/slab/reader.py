"""Stored tiles of one level of a pyramid: the way from indices to bytes (slab.md section 1)."""

from __future__ import annotations

from collections.abc import Hashable

from mastaba.errors import ObjectChangedError, ObjectNotFoundError, SlabFormatError
from mastaba.model.pyramid import Level
from mastaba.slab.index import SlabIndex, index_length
from mastaba.slab.index_cache import IndexCache
from mastaba.slab.layout import SlabLayout
from mastaba.storage.base import ByteRange, Storage


class StoredTile:
    """One tile that the index of its slab lists; its bytes are read only when asked for.

    Attributes:
        version: opaque text that changes with the bytes; None when the storage knows none.
        modified: Unix seconds of the slab, or None.
    """

    __slots__ = ("_cache_key", "_index", "_number", "_reader", "length", "offset")

    def __init__(
        self,
        reader: LevelReader,
        cache_key: tuple[Hashable, int, int],
        index: SlabIndex,
        number: int,
        place: tuple[int, int],
    ) -> None:
        self._reader = reader
        self._cache_key = cache_key
        self._index = index
        self._number = number
        self.offset, self.length = place

    @property
    def version(self) -> str | None:
        version = self._index.version
        return None if version is None else f"{version}-{self.offset:x}-{self.length:x}"

    @property
    def modified(self) -> float | None:
        return self._index.modified

    def read(self) -> bytes:
        """Return the stored bytes, of the same generation of the slab as its index.

        When the slab was replaced after its index was read, the index is read again, once;
        the tile then is that of the new generation, and so are `version` and `modified`.

        Raises:
            ObjectNotFoundError: the slab, or this tile of it, has gone.
            SlabFormatError: the slab is damaged.
            StorageError: it cannot be read.
        """
        try:
            return self._read()
        except (ObjectChangedError, SlabFormatError):
            fresh = self._reader.refresh(self._cache_key, self._index)
            place = fresh.tile(self._number)
            if place is None:
                raise ObjectNotFoundError(
                    f"slab {fresh.key} no longer holds tile {self._number}", key=fresh.key
                ) from None
            self._index = fresh
            self.offset, self.length = place
            return self._read()

    def _read(self) -> bytes:
        index = self._index
        data = self._reader.storage.read(
            index.key, ByteRange(self.offset, self.length), index.version
        ).data
        if len(data) != self.length:
            raise SlabFormatError(
                f"slab {index.key}: tile {self._number} at {self.offset} should have "
                f"{self.length} bytes, the slab ends after {len(data)} of them"
            )
        return data


class LevelReader:
    """Finds and reads the tiles of one level.

    Args:
        level: what the level holds.
        layout: names of its slabs.
        storage: where they lie.
        indices: the cache that all levels share.
    """

    __slots__ = (
        "_data",
        "_height",
        "_indices",
        "_layout",
        "_tile_count",
        "_width",
        "level",
        "storage",
    )

    def __init__(
        self, level: Level, layout: SlabLayout, storage: Storage, indices: IndexCache
    ) -> None:
        self.level = level
        self.storage = storage
        self._layout = layout
        self._indices = indices
        self._width = level.tiles_per_width
        self._height = level.tiles_per_height
        self._tile_count = level.tiles_per_width * level.tiles_per_height
        # Layers over one pyramid share its indices: the key is where the slabs lie, not the layer.
        self._data = f"{storage.full_name}/{layout!r}"

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
        try:
            index = self._indices.get(key, lambda: self._load(slab_col, slab_row))
        except ObjectNotFoundError:
            return None
        number = (tile_row - slab_row * height) * width + tile_col - slab_col * width
        place = index.tile(number)
        return None if place is None else StoredTile(self, key, index, number, place)

    def refresh(self, cache_key: tuple[Hashable, int, int], stale: SlabIndex) -> SlabIndex:
        """Return the index of a slab as it is now, in place of one that proved out of date."""
        self._indices.drop(cache_key, stale)
        _, slab_col, slab_row = cache_key
        return self._indices.get(cache_key, lambda: self._load(slab_col, slab_row))

    def _load(self, slab_col: int, slab_row: int) -> SlabIndex:
        key = self._layout.key(slab_col, slab_row)
        read = self.storage.read(key, ByteRange(0, index_length(self._tile_count)))
        if not read.data:
            raise ObjectNotFoundError(
                f"slab {key} is empty", storage=self.storage.full_name, key=key
            )
        return SlabIndex(
            read.data, self._tile_count, key=key, version=read.version, modified=read.modified
        )
