"""A table, or view, of tiles: its statements, and what is found out about it without a scan."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mastaba.errors import ContainerFormatError
from mastaba_containers.payloads import Payload, sniffed
from mastaba_sqlite_tiles.connection import Connection, quoted

MAX_ZOOM: Final = 31

_SAMPLED: Final = 64 * 1024 * 1024
"""Bytes of the tiles that are looked at when a file is opened."""
_PLACE: Final = "zoom_level = ? AND tile_column = ? AND tile_row = ?"


@dataclass(frozen=True, slots=True)
class TileTable:
    """A table with the columns of tiles.

    Attributes:
        name: as in the database.
        find: statement that returns the data of a tile by zoom, column and row, and what is needed
            to decode it.
    """

    name: str
    find: str

    @classmethod
    def of(cls, name: str) -> TileTable:
        """Return a table of pictures or vector tiles."""
        # Names are quoted, so they cannot be anything else.
        return cls(name, f"SELECT tile_data FROM {quoted(name)} WHERE {_PLACE}")  # noqa: S608

    @classmethod
    def of_coverage(cls, name: str) -> TileTable:
        """Return a table of a gridded coverage: a row has data, scale and offset."""
        return cls(
            name,
            "SELECT t.tile_data, a.scale, a.offset "  # noqa: S608 - as above
            f"FROM {quoted(name)} AS t LEFT JOIN gpkg_2d_gridded_tile_ancillary AS a "
            f"ON a.tpudt_name = '{name.replace(chr(39), 2 * chr(39))}' AND a.tpudt_id = t.id "
            "WHERE t.zoom_level = ? AND t.tile_column = ? AND t.tile_row = ?",
        )

    def require_index(self, connection: Connection) -> None:
        """Refuse a table in which every tile is searched for among all.

        Raises:
            ContainerFormatError: there is no index on zoom, column and row.
        """
        plan = [str(row[3]) for row in connection.some(f"EXPLAIN QUERY PLAN {self.find}", (0,) * 3)]
        is_searched = any("SEARCH" in step and step.count("=?") >= 3 for step in plan)
        # An index that SQLite makes for each statement reads the whole table.
        if not is_searched or any(step.startswith("SCAN ") or "AUTOMATIC" in step for step in plan):
            raise ContainerFormatError(
                f"{connection.name}: {self.name} has no index on zoom_level, tile_column and "
                "tile_row, so each tile would be searched for among all",
                "run CREATE UNIQUE INDEX tile_index ON the table (zoom_level, tile_column, "
                "tile_row)",
            )

    def zooms(self, connection: Connection) -> list[int]:
        """Return the zooms that have tiles, in rising order; others than 0 to 31 are left out."""
        statement = (
            f"SELECT zoom_level FROM {quoted(self.name)} WHERE zoom_level >= ? "  # noqa: S608
            "ORDER BY zoom_level LIMIT 1"
        )
        found: list[int] = []
        least = 0
        while least <= MAX_ZOOM:
            row = connection.one(statement, (least,))
            # Behind the numbers there are texts. A fraction must not hide the zooms after it.
            if row is None or not isinstance(row[0], int | float) or row[0] > MAX_ZOOM:
                break
            if row[0] == int(row[0]):
                found.append(int(row[0]))
            least = int(row[0]) + 1
        return found

    def columns(self, connection: Connection, zoom: int) -> tuple[int, int] | None:
        """Return first and last column of a zoom; None if that takes more than the index."""
        ends = []
        for order in ("ASC", "DESC"):
            row = _quick(
                connection,
                f"SELECT tile_column FROM {quoted(self.name)} WHERE zoom_level = ? "  # noqa: S608
                f"ORDER BY tile_column {order} LIMIT 1",
                (zoom,),
            )
            if row is None or not isinstance(row[0], int):
                return None
            ends.append(row[0])
        return ends[0], ends[1]

    def samples(self, connection: Connection, zooms: Sequence[int]) -> list[Payload]:
        """Return what some tiles are: of each zoom the first, one in the middle, and the last.

        Raises:
            ContainerFormatError: one of them is nothing that is known.
        """
        name, size = quoted(self.name), 0
        found: dict[Payload, None] = {}
        for zoom in reversed(zooms):
            columns = self.columns(connection, zoom)
            middle = (columns[0] + columns[1]) // 2 if columns else 0
            orders = (("ASC", 0), ("ASC", middle), ("DESC", 0)) if columns else (("", 0),)
            for order, first in orders:
                ordered = f"ORDER BY tile_column {order}, tile_row {order} " if order else ""
                row = _quick(
                    connection,
                    f"SELECT tile_data FROM {name} WHERE zoom_level = ? "  # noqa: S608
                    f"AND tile_column >= ? {ordered}LIMIT 1",
                    (zoom, first),
                )
                data = None if row is None else row[0]
                if not data:
                    continue
                payload = sniffed(data) if isinstance(data, bytes) else None
                if payload is None:
                    raise ContainerFormatError(
                        f"{connection.name}: a tile of zoom {zoom} in {self.name} is neither a "
                        "picture nor a vector tile"
                    )
                found[payload] = None
                size += len(data)
                if size > _SAMPLED:
                    return list(found)
        if not found:
            raise ContainerFormatError(f"{connection.name}: {self.name} contains no tiles")
        return list(found)


def _quick(connection: Connection, statement: str, values: Sequence[Any]) -> Any:
    """Return a row, or None if there is none, or if it takes too many steps to find."""
    try:
        return connection.one(statement, values)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return None
        raise
