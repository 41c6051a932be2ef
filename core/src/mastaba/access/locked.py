"""Levels whose data are withheld."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from mastaba.errors import AccessError
from mastaba.slab.index import SlabIndex
from mastaba.slab.reader import LevelReader, SlabKey, StoredTile


class LockedReader(LevelReader):
    """A level of a layer that is described, but whose data need another credential.

    Reads raise `AccessError` with the status 401; the application turns it into 403 for clients
    that have shown a credential.

    Args:
        reader: of the level.
    """

    __slots__ = ()

    def __init__(self, reader: LevelReader) -> None:
        for name in LevelReader.__slots__:
            setattr(self, name, getattr(reader, name))

    def locate(self, tile_row: int, tile_col: int) -> StoredTile | None:
        """Refuse: raise `AccessError`."""
        _refuse()

    def locate_all(self, tiles: Sequence[tuple[int, int]]) -> list[StoredTile | None]:
        """Refuse: raise `AccessError`."""
        _refuse()

    def expect(self, tile_row: int, tile_col: int) -> StoredTile | None:
        """Refuse: raise `AccessError`."""
        _refuse()

    def known(self, tile_row: int, tile_col: int) -> StoredTile | None:
        """Refuse: raise `AccessError`."""
        _refuse()

    def index(self, slab: SlabKey) -> SlabIndex | None:
        """Refuse: raise `AccessError`."""
        _refuse()

    def refresh(self, slab: SlabKey, stale: SlabIndex, *, alone: bool = False) -> SlabIndex:
        """Refuse: raise `AccessError`."""
        _refuse()


def _refuse() -> NoReturn:
    raise AccessError("the data of this layer are not public")
