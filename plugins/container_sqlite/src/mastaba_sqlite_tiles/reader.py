"""Tiles of one level in a database: found by one statement, which also returns their bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from mastaba.api.containers import BlockKey, StoredTile, TileIndex, TileReader
from mastaba.errors import ObjectChangedError
from mastaba_sqlite_tiles.database import DatabaseFile, Generation

if TYPE_CHECKING:
    from mastaba.api.containers import Decoder, Delivery, IndexCache, Level
    from mastaba.api.storages import Storage

BLOCK: Final = 16
"""Tiles along the side of a block."""

_HELD: Final = 64 * 1024 * 1024
"""Bytes of tiles that are kept from locating them until they are read."""


@dataclass(frozen=True, slots=True)
class StoredLevel:
    """Where the tiles of a level are in a database.

    Attributes:
        find: statement with the parameters zoom, column, row.
        zoom: value of zoom_level.
        columns: added to the column of the level.
        rows, direction: the stored row is ``rows + direction * row``.
        decode: makes the payload from a row of `find`; None if it is the first value.
        deliver, decoder, type_of: as of `TileReader`.
    """

    find: str
    zoom: int
    columns: int
    rows: int
    direction: int
    decode: Callable[[tuple[Any, ...]], bytes] | None = None
    deliver: Delivery | None = None
    decoder: Decoder | None = None
    type_of: Callable[[bytes], str] | None = None


class DatabaseIndex(TileIndex):
    """A level of one generation of a database. Numbers of tiles count all tiles of the level.

    Attributes:
        generation: of the file.
        width: tiles in a row of the level.
        before: what precedes column and row in versions of tiles.
    """

    __slots__ = ("_reader", "before", "generation", "width")

    def __init__(self, reader: DatabaseReader, generation: Generation) -> None:
        super().__init__(reader.storage, reader.file.key, generation.version, generation.modified)
        # Levels of a file number their tiles alike.
        self.identity = reader.data, reader.file.path, generation.version
        self.generation = generation
        self.width = reader.level.matrix.matrix_width
        self.before = f"{generation.version}-{reader.stored.zoom:x}-"
        self._reader = reader

    @property
    def nbytes(self) -> int:
        return 512

    def tile(self, number: int) -> tuple[int, int] | None:
        tile = self._reader.at(number)
        return None if tile is None else (tile.offset, tile.length)


class DatabaseTile(StoredTile):
    """A tile whose bytes came with its place, and are given away by the first `read`."""

    is_addressable = False
    __slots__ = ("row",)
    row: tuple[Any, ...] | None
    reader: DatabaseReader
    index: DatabaseIndex

    @property
    def version(self) -> str | None:
        index = self.index
        row, column = divmod(self.number, index.width)
        return f"{index.before}{column:x}-{row:x}"

    def read(self) -> bytes:
        row = self.row
        if row is None or self.reader.stored.decode is not None:
            return super().read()
        self.row = None
        data: bytes = row[0]
        return data

    def move_to(self, index: TileIndex) -> bool:
        tile = self.reader.at(self.number)
        if tile is None:
            return False
        self.index, self.row = tile.index, tile.row
        self.offset, self.length = tile.offset, tile.length
        return True

    def _read(self) -> bytes:
        row, self.row = self.row, None
        if row is None:
            tile = self.reader.at(self.number)
            if tile is None or tile.index is not self.index:
                raise ObjectChangedError(f"{self.index.name} was replaced", key=self.index.key)
            row = tile.row
            assert row is not None
        decode = self.reader.stored.decode
        data: bytes = row[0] if decode is None else decode(row)
        return data


class DatabaseReader(TileReader):
    """Finds and reads the tiles of one level of a database.

    Nothing is cached but the connections: each call looks at the file, so no answer is older.

    Args:
        level, storage, indices: see `TileReader`.
        file: the database.
        stored: where the tiles of the level are.

    Attributes:
        file, stored: as given.
        data: what is common to all blocks of the level.
    """

    tile_class = DatabaseTile
    __slots__ = ("_index", "_width", "data", "decoder", "deliver", "file", "stored", "type_of")

    def __init__(
        self,
        level: Level,
        storage: Storage,
        indices: IndexCache,
        file: DatabaseFile,
        stored: StoredLevel,
    ) -> None:
        super().__init__(level, storage, indices)
        self.file = file
        self.stored = stored
        self.deliver = stored.deliver
        self.decoder = stored.decoder
        self.type_of = stored.type_of
        self.data = f"{file.name}#{stored.find}/{stored.zoom}"
        self._width = level.matrix.matrix_width
        self._index: DatabaseIndex | None = None

    def moved(self, storage: Storage, indices: IndexCache) -> Self:
        file = self.file.moved(storage, indices)
        return type(self)(self.level, storage, indices, file, self.stored)

    def place_of(self, tile_row: int, tile_col: int) -> tuple[BlockKey, int]:
        block = self.data, tile_col // BLOCK, tile_row // BLOCK
        return block, tile_row * self._width + tile_col

    def key_of(self, slab: BlockKey) -> str:
        return self.file.key

    def locate(self, tile_row: int, tile_col: int) -> DatabaseTile | None:
        stored = self.stored
        generation, row = self.file.one(
            stored.find,
            (
                stored.zoom,
                tile_col + stored.columns,
                stored.rows + stored.direction * tile_row,
            ),
        )
        if row is None:
            return None
        index, data = self._index, row[0]
        if index is None or index.generation is not generation or data.__class__ is not bytes:
            return self._tile(generation, row, tile_row, tile_col)
        # The usual case: fewer calls for each tile.
        if not data:
            return None
        number = tile_row * self._width + tile_col
        block = self.data, tile_col // BLOCK, tile_row // BLOCK
        tile = DatabaseTile(self, block, index, number, (number, len(data)))
        tile.row = row
        return tile

    def locate_all(self, tiles: Sequence[tuple[int, int]]) -> list[StoredTile | None]:
        found: list[StoredTile | None] = []
        held = 0
        stored = self.stored
        with self.file.reading() as (generation, connection):
            for tile_row, tile_col in tiles:
                row = connection.one(
                    stored.find,
                    (
                        stored.zoom,
                        tile_col + stored.columns,
                        stored.rows + stored.direction * tile_row,
                    ),
                )
                tile = None
                if row is not None:
                    tile = self._tile(generation, row, tile_row, tile_col)
                if tile is not None:
                    held += tile.length
                    if held > _HELD:
                        tile.row = None
                found.append(tile)
        return found

    def known(self, tile_row: int, tile_col: int) -> StoredTile | None:
        """Return the tile: a statement on a local file takes no longer than a look at a cache."""
        return self.locate(tile_row, tile_col)

    def stored_tile(self, slab: BlockKey, index: TileIndex, number: int) -> StoredTile | None:
        return self.at(number)

    def at(self, number: int) -> DatabaseTile | None:
        """Return a tile by its number in the level, as `locate`."""
        return self.locate(*divmod(number, self._width))

    def index(self, slab: BlockKey) -> DatabaseIndex:
        return self._load(slab)

    def refresh(self, slab: BlockKey, stale: TileIndex, *, alone: bool = False) -> DatabaseIndex:
        return self._load(slab)

    def forget(self, slab: BlockKey, index: TileIndex) -> None:
        """Do nothing: no index is cached."""

    def keep(self, slab: BlockKey, index: TileIndex) -> None:
        """Do nothing: no index is cached."""

    def _load(self, slab: BlockKey) -> DatabaseIndex:
        return self._index_of(self.file.generation())

    def _index_of(self, generation: Generation) -> DatabaseIndex:
        index = self._index
        if index is None or index.generation is not generation:
            index = self._index = DatabaseIndex(self, generation)
        return index

    def _tile(
        self, generation: Generation, row: tuple[Any, ...], tile_row: int, tile_col: int
    ) -> DatabaseTile | None:
        data = row[0]
        if not data:
            return None
        if not isinstance(data, bytes):
            raise self.file.failed(
                f"the tile {self.stored.zoom}/{tile_col}/{tile_row} is text or a number"
            )
        number = tile_row * self._width + tile_col
        block = self.data, tile_col // BLOCK, tile_row // BLOCK
        index = self._index
        if index is None or index.generation is not generation:
            index = self._index_of(generation)
        tile = DatabaseTile(self, block, index, number, (number, len(data)))
        tile.row = row
        return tile
