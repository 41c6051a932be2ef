"""The conformance tests of containers, with files that sqlite3 alone writes."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

from tests.container_sqlite.ground import picture, write_geopackage, write_mbtiles

from mastaba_conformance.containers import ContainerTests, Place
from mastaba_sqlite_tiles.geopackage import GeoPackage
from mastaba_sqlite_tiles.mbtiles import MBTiles


class TestMBTiles(ContainerTests):
    container = MBTiles
    head_length = 512

    def make(self, path: Path, generation: int) -> Mapping[Place, bytes]:
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

    def make(self, path: Path, generation: int) -> Mapping[Place, bytes]:
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
