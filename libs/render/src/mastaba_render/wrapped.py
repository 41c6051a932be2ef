"""A reader of the tiles of another one, for those that change what is read."""

from __future__ import annotations

from collections.abc import Sequence

from mastaba.containers.reader import BlockKey, StoredTile, TileReader
from mastaba.containers.tile_index import TileIndex
from mastaba.model.pyramid import Level


class WrappedReader(TileReader):
    """Finds the tiles of another reader.

    It has none of the attributes that methods of its base need, so nothing can be read by a method
    that is not here.

    Args:
        plain: the other reader.
        level: the level that is read, perhaps with other limits.
    """

    def __init__(self, plain: TileReader, level: Level) -> None:
        self.level = level
        self.storage = plain.storage
        self._plain = plain

    def locate(self, tile_row: int, tile_col: int) -> StoredTile | None:
        return self._plain.locate(tile_row, tile_col)

    def locate_all(self, tiles: Sequence[tuple[int, int]]) -> list[StoredTile | None]:
        return self._plain.locate_all(tiles)

    def expect(self, tile_row: int, tile_col: int) -> StoredTile | None:
        return self._plain.expect(tile_row, tile_col)

    def known(self, tile_row: int, tile_col: int) -> StoredTile | None:
        return self._plain.known(tile_row, tile_col)

    def stored_tile(self, slab: BlockKey, index: TileIndex, number: int) -> StoredTile | None:
        return self._plain.stored_tile(slab, index, number)

    def place_of(self, tile_row: int, tile_col: int) -> tuple[BlockKey, int]:
        return self._plain.place_of(tile_row, tile_col)

    def key_of(self, slab: BlockKey) -> str:
        return self._plain.key_of(slab)

    def name_of(self, slab: BlockKey) -> str:
        return self._plain.name_of(slab)

    def index(self, slab: BlockKey) -> TileIndex | None:
        return self._plain.index(slab)

    def keep(self, slab: BlockKey, index: TileIndex) -> None:
        self._plain.keep(slab, index)

    def forget(self, slab: BlockKey, index: TileIndex) -> None:
        self._plain.forget(slab, index)

    def refresh(self, slab: BlockKey, stale: TileIndex, *, alone: bool = False) -> TileIndex:
        return self._plain.refresh(slab, stale, alone=alone)

    def _load(self, slab: BlockKey) -> TileIndex:
        raise NotImplementedError("indices are those of the other reader")
