"""MBTiles 1.3: a SQLite database whose rows are counted from the bottom."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mastaba_build.errors import PlanError, SourceError
from mastaba_build.vector.archives import Block, Metadata, Tile, with_layers

# The row from the top.
_ROW = "((1 << zoom_level) - 1 - tile_row)"
_TILE = f"zoom_level, {_ROW}, tile_column, tile_data"
_ZOOMS = 63
"""Zooms whose rows SQLite can count."""
_IMAGES = frozenset({"png", "jpg", "jpeg", "webp", "image/png", "image/jpeg", "image/webp"})


def has_images(path: Path) -> bool:
    """Return whether the metadata of a file say that it is MBTiles with images."""
    try:
        with closing(_connected(path)) as database:
            row = database.execute("SELECT value FROM metadata WHERE name = 'format'").fetchone()
    except sqlite3.Error:
        return False
    return row is not None and str(row[0]).lower() in _IMAGES


class MBTiles:
    """An MBTiles file, also one whose ``tiles`` are a view over tiles stored once.

    Raises:
        PlanError: the file is not one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.is_file():
            raise PlanError(f"{path}: does not exist")
        try:
            self._database = _connected(path)
            self._database.execute(f"SELECT {_TILE} FROM tiles LIMIT 1")  # noqa: S608
        except sqlite3.Error as error:
            raise PlanError(f"{path}: cannot be read as MBTiles: {error}") from None
        if has_images(path):
            raise PlanError(f"{path}: contains images; only vector tiles are imported")

    def metadata(self) -> Metadata:
        rows = self._rows("SELECT name, value FROM metadata")
        values: dict[str, Any] = {str(name): value for name, value in rows}
        return with_layers(values, self._path)

    def blocks(self, width: int, height: int) -> Iterable[Block]:
        query = (
            f"SELECT zoom_level, tile_column / {width:d}, {_ROW} / {height:d}, min({_ROW}), "  # noqa: S608
            f"max({_ROW}), min(tile_column), max(tile_column), count(*) FROM tiles GROUP BY 1, 2, 3"
        )
        for zoom, column, row, top, bottom, left, right, tiles in self._rows(query):
            numbers = zoom, column, row, top, bottom, left, right
            if not all(isinstance(number, int) for number in numbers) or not 0 <= zoom < _ZOOMS:
                raise PlanError(f"{self._path}: has a tile whose zoom, column or row is invalid")
            yield Block(zoom, column, row, (top, bottom), (left, right), tiles)

    def tiles(self, block: Block) -> Iterator[Tile]:
        last = (1 << block.zoom) - 1
        query = (
            f"SELECT {_TILE} FROM tiles WHERE zoom_level = ? "  # noqa: S608
            "AND tile_column BETWEEN ? AND ? AND tile_row BETWEEN ? AND ?"
        )
        top, bottom = block.rows
        values = block.zoom, *block.columns, last - bottom, last - top
        return map(self._tile, self._rows(query, *values))

    def all_tiles(self) -> Iterator[Tile]:
        query = (
            f"SELECT {_TILE} FROM tiles "  # noqa: S608
            "ORDER BY zoom_level, tile_column, tile_row"
        )
        return map(self._tile, self._rows(query))

    def close(self) -> None:
        self._database.close()

    def _tile(self, row: tuple[Any, ...]) -> Tile:
        zoom, y, x, data = row
        if not isinstance(data, bytes):
            place = f"{zoom}/{x}/{y} (zoom/column/row)"
            raise SourceError(f"{self._path}: tile {place} is damaged: it is not a BLOB")
        return Tile(zoom, y, x, data)

    def _rows(self, query: str, *values: int) -> Iterator[tuple[Any, ...]]:
        try:
            # ``yield from`` would close the cursor of a database that may be closed already.
            for row in self._database.execute(query, values):  # noqa: UP028
                yield row
        except sqlite3.Error as error:
            raise SourceError(f"{self._path}: cannot be read: {error}") from None


def _connected(path: Path) -> sqlite3.Connection:
    uri = f"file:{quote(str(path))}?mode=ro"
    database = sqlite3.connect(uri, uri=True, check_same_thread=False)
    database.execute("PRAGMA trusted_schema = OFF")  # others may have written its views
    return database
