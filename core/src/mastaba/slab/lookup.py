"""Location of one tile, or the file that shows why it is missing. For operators."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mastaba.containers.reader import StoredTile, TileReader
from mastaba.errors import ObjectNotFoundError


class TileState(StrEnum):
    """Whether and why a tile is missing.

    Attributes:
        STORED: the tile is in the slab.
        ABSENT: its size in the slab index is 0.
        EMPTY_SLAB: its slab has no bytes.
        NO_SLAB: its slab does not exist.
        OUTSIDE: it is outside the limits of the level.
    """

    STORED = "stored"
    ABSENT = "absent"
    EMPTY_SLAB = "slab-empty"
    NO_SLAB = "slab-missing"
    OUTSIDE = "outside-limits"


@dataclass(frozen=True, slots=True)
class TileLookup:
    """State and location of one tile.

    Attributes:
        state: whether and why it is missing.
        slab: full name of its slab.
        number: number of the tile in the slab.
        said_by: file or object that shows the state.
        offset, size: bytes in the slab; 0 unless the tile is stored.
    """

    state: TileState
    slab: str
    number: int
    said_by: str
    offset: int = 0
    size: int = 0

    def __str__(self) -> str:
        text = f'{self.state}; slab="{self.slab}"; tile={self.number}'
        if self.state is TileState.STORED:
            text += f"; offset={self.offset}; size={self.size}"
        return f'{text}; said-by="{self.said_by}"'


def look_up(reader: TileReader, row: int, col: int) -> TileLookup:
    """Find a tile as a request does, without reading its bytes.

    Args:
        row, col: in the tile matrix, row 0 at the top; not negative.

    Raises:
        SlabFormatError: the slab is damaged.
        StorageError: the slab cannot be read.
    """
    slab, number = reader.place_of(row, col)
    name = reader.name_of(slab)
    if not reader.level.limits.contains(row, col):
        return TileLookup(TileState.OUTSIDE, name, number, reader.level.limits_from)
    tile = reader.locate(row, col)
    if tile is not None:
        return location(tile)
    index = reader.index(slab)
    if index is None:
        return TileLookup(_missing(reader, reader.key_of(slab)), name, number, name)
    return TileLookup(TileState.ABSENT, name, number, index.name)


def location(tile: StoredTile) -> TileLookup:
    """Return the location of a stored tile, without reading anything."""
    name, index = tile.reader.name_of(tile.slab), tile.index
    return TileLookup(TileState.STORED, name, tile.number, index.name, tile.offset, tile.length)


def _missing(reader: TileReader, key: str) -> TileState:
    try:
        size = reader.storage.stat(key).size
    except ObjectNotFoundError:
        return TileState.NO_SLAB
    return TileState.NO_SLAB if size else TileState.EMPTY_SLAB
