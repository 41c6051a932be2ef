"""Levels whose data are withheld."""

from __future__ import annotations

from typing import Any, NoReturn

from mastaba.containers.reader import BlockKey, TileReader
from mastaba.errors import AccessError


class LockedReader(TileReader):
    """A level of a layer that is described, but whose data need another credential.

    Reads raise `AccessError` with the status 401; the application turns it into 403 for clients
    that have shown a credential.

    Args:
        reader: of the level.
    """

    __slots__ = ("_reader", "is_masked")

    def __init__(self, reader: TileReader) -> None:
        self.level, self.storage, self.is_masked = reader.level, reader.storage, reader.is_masked
        self._reader = reader

    def place_of(self, tile_row: int, tile_col: int) -> tuple[BlockKey, int]:
        return self._reader.place_of(tile_row, tile_col)

    def key_of(self, slab: BlockKey) -> str:
        return self._reader.key_of(slab)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise AccessError("the data of this layer are not public")

    locate = locate_all = expect = known = index = refresh = _load = moved = _refuse
