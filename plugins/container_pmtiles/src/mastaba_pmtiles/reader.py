"""Tiles of one level of an archive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, Self

from mastaba.api.containers import (
    BlockKey,
    IndexCache,
    Level,
    StoredTile,
    TileReader,
    may_retry,
)
from mastaba.api.storages import ByteRange, Storage
from mastaba.errors import (
    MastabaError,
    ObjectChangedError,
    ObjectNotFoundError,
    SlabFormatError,
    StorageUnavailableError,
)
from mastaba_containers.inflating import can_inflate, inflated
from mastaba_containers.replacement import LoadedFacts
from mastaba_pmtiles.directory import MAX_TILE
from mastaba_pmtiles.header import HEAD_LENGTH
from mastaba_pmtiles.index import Archive
from mastaba_pmtiles.tile_ids import ZoomIds

_STALE: Final = (ObjectChangedError, ObjectNotFoundError, SlabFormatError)


class PMTilesReader(TileReader):
    """Finds and reads the tiles of one zoom.

    The whole archive is one block: so no map mixes two versions of it.

    Args:
        level: the level.
        storage: storage of the archive.
        indices: the cache of indices of containers.
        key: of the archive.
        kind: `Header.kind` of the archive at load; one of another kind is not served.
        loaded: `Header.limits` of the archive at load, for all levels.
        zoom: zoom of the level in the archive.
        shift: rows and columns of the level before those of the archive.
        coding: compression that is removed from tiles for clients that do not accept it, if
            something installed can do that.
    """

    __slots__ = (
        "_block",
        "_ids",
        "_key",
        "_kind",
        "_loaded",
        "_number",
        "_shift",
        "_zoom",
        "coding",
        "deliver",
        "requires_coding",
    )

    def __init__(
        self,
        level: Level,
        storage: Storage,
        indices: IndexCache,
        *,
        key: str,
        kind: tuple[object, ...],
        loaded: LoadedFacts,
        zoom: int,
        shift: tuple[int, int] = (0, 0),
        coding: str = "",
    ) -> None:
        super().__init__(level, storage, indices)
        self._key = key
        self._kind = kind
        self._loaded = loaded
        self._zoom = zoom
        self._ids = ZoomIds(zoom)
        self._shift = shift
        self._number = self._ids.of if shift == (0, 0) else self._shifted
        self.coding = coding
        self.deliver = partial(inflated, limit=MAX_TILE, coding=coding) if coding else None
        self.requires_coding = bool(coding) and not can_inflate(coding)
        self._block: BlockKey = block_of(storage, key)

    def place_of(self, tile_row: int, tile_col: int) -> tuple[BlockKey, int]:
        return self._block, self._number(tile_row, tile_col)

    def _shifted(self, tile_row: int, tile_col: int) -> int:
        rows, columns = self._shift
        return self._ids.of(tile_row - rows, tile_col - columns)

    def key_of(self, slab: BlockKey) -> str:
        return self._key

    def moved(self, storage: Storage, indices: IndexCache) -> Self:
        return type(self)(
            *(self.level, storage, indices),
            key=self._key,
            kind=self._kind,
            loaded=self._loaded,
            zoom=self._zoom,
            shift=self._shift,
            coding=self.coding,
        )

    def locate(self, tile_row: int, tile_col: int) -> StoredTile | None:
        # As `TileReader.locate` with `place_of` and `stored_tile`: fewer calls for each tile.
        block = self._block
        index = self._indices.peek(block)
        if index is None:
            return super().locate(tile_row, tile_col)
        number = self._number(tile_row, tile_col)
        try:
            place = index.tile(number)
        except _STALE:
            return self.stored_tile(block, index, number)
        return None if place is None else StoredTile(self, block, index, number, place)

    def known(self, tile_row: int, tile_col: int) -> StoredTile | None:
        slab, number = self.place_of(tile_row, tile_col)
        index = self._indices.peek(slab)
        if not isinstance(index, Archive):
            return None
        place = index.known(number)
        return None if place is None else StoredTile(self, slab, index, number, place)

    def locate_all(self, tiles: Sequence[tuple[int, int]]) -> list[StoredTile | None]:
        """As `TileReader.locate_all`; all tiles are from one version of the archive."""
        numbers = [self.place_of(*tile)[1] for tile in tiles]
        index, places = self._retried(lambda index: index.tiles(numbers))
        return [
            None if place is None else StoredTile(self, self._block, index, number, place)
            for number, place in zip(numbers, places, strict=True)
        ]

    def stored_tile(self, slab: BlockKey, index: Any, number: int) -> StoredTile | None:
        try:
            place = index.tile(number)
        except _STALE as error:
            self.forget(slab, index)
            index, place = self._retried(lambda index: index.tile(number), error)
        return None if place is None else StoredTile(self, slab, index, number, place)

    def _retried(
        self, work: Callable[[Archive], Any], error: MastabaError | None = None
    ) -> tuple[Archive, Any]:
        """Return an index, and the result of work with it.

        If the archive was replaced while its directories were read, all begins again.

        Args:
            error: of the first attempt, if there was one.
        """
        for attempt in count(1 if error is None else 2):
            index = self.index(self._block)
            assert isinstance(index, Archive)
            try:
                return index, work(index)
            except _STALE as error:
                self.forget(self._block, index)
                if not may_retry(error, attempt):
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _load(self, slab: BlockKey) -> Archive:
        try:
            head = self.storage.read(self._key, ByteRange(0, HEAD_LENGTH))
            index = Archive(self.storage, self._key, self._indices, head)
        except ObjectNotFoundError as error:
            # The tiles are not absent, but all of them unknown.
            raise self._unavailable("it does not exist") from error
        if index.header.kind != self._kind:
            raise self._unavailable("it now contains tiles of another kind: reload to publish them")
        self._loaded.compare(index.header.limits, index.version)
        return index

    def _unavailable(self, reason: str) -> StorageUnavailableError:
        name = self.name_of(self._block)
        return StorageUnavailableError(
            f"archive {name}: {reason}",
            storage=self.storage.full_name,
            key=self._key,
            answered=True,
        )


def block_of(storage: Storage, key: str) -> BlockKey:
    """Return the key of an archive in the cache of indices."""
    return ("pmtiles", storage.full_name, key), 0, 0
