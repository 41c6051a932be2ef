"""The conformance tests of containers, with files that sqlite3 alone writes."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from tests.container_sqlite.ground import picture, write_geopackage, write_mbtiles

from mastaba_conformance.containers import ContainerTests, TileAddress
from mastaba_sqlite_tiles.geopackage import GeoPackage
from mastaba_sqlite_tiles.mbtiles import MBTiles

# What views may not do, instead of the table of tiles.
VIEWS = {
    "a recursive view": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT 1 AS zoom_level, i AS tile_column, 0 AS tile_row, x'89504e47' AS tile_data FROM n",
    "a blob of 1 GB": "SELECT zoom_level, tile_column, tile_row, zeroblob(1000000000) AS tile_data "
    "FROM stored",
    "a file": "SELECT zoom_level, tile_column, tile_row, readfile('/etc/passwd') AS tile_data "
    "FROM stored",
    "an extension": "SELECT zoom_level, tile_column, tile_row, load_extension('x') AS tile_data "
    "FROM stored",
    "itself": "SELECT * FROM tiles",
    "an endless value": "SELECT zoom_level, tile_column, tile_row, (WITH RECURSIVE n(i) AS "
    "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n) AS tile_data FROM stored",
    "a table-valued function": "SELECT zoom_level, tile_column, tile_row, name AS tile_data "
    "FROM stored, pragma_database_list",
    "tables without an index": "SELECT a.zoom_level, a.tile_column, a.tile_row, a.tile_data "
    "FROM stored AS a, stored AS b, stored AS c, stored AS d, stored AS e, stored AS f",
}


class TestMBTiles(ContainerTests):
    container = MBTiles
    head_length = 512

    def corpus(self, path: Path) -> Mapping[str, bytes]:
        found = {}
        for name, view in VIEWS.items():
            self.make(path, 0)
            with closing(sqlite3.connect(path)) as database:
                database.executescript(
                    "ALTER TABLE tiles RENAME TO stored; PRAGMA writable_schema = ON;"
                )
                statement = f"CREATE VIEW tiles AS {view}"
                database.execute(
                    "INSERT INTO sqlite_master VALUES ('view', 'tiles', 'tiles', 0, ?)",
                    (statement,),
                )
                database.commit()
            found[name] = path.read_bytes()
        return found

    def make(self, path: Path, generation: int) -> Mapping[TileAddress, bytes]:
        tiles = {
            (zoom, column, row): _vector(f"{generation}-{zoom}-{row}-{column}", 2 - generation)
            for zoom in range(4)
            for row in range(1 << zoom)
            for column in range(1 << zoom)
            if (row + column) % 3 != 2
        }
        write_mbtiles(path, tiles, {"format": "pbf", "json": '{"vector_layers": []}'})
        return {(str(zoom), row, column): data for (zoom, column, row), data in tiles.items()}


class TestGeoPackage(ContainerTests):
    container = GeoPackage
    head_length = 512

    def make(self, path: Path, generation: int) -> Mapping[TileAddress, bytes]:
        tiles = {
            (zoom, column, row): picture(
                generation * 100 + zoom * 16 + column * 4 + row, "RGB", size=64
            )
            for zoom in range(2)
            for row in range(2)
            for column in range(2)
            if row + column != 2
        }
        write_geopackage(path, tiles, size=64)
        return {(str(zoom), row, column): data for (zoom, column, row), data in tiles.items()}


def _vector(name: str, repeated: int) -> bytes:
    """Return a vector tile with a layer of this name, which is larger the more it is repeated."""
    text = name.encode() * repeated
    layer = b"\x0a" + bytes([len(text)]) + text + b"\x78\x02"
    return gzip.compress(b"\x1a" + bytes([len(layer)]) + layer, mtime=0)
