"""The conformance tests of containers, with archives that another library writes."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

import pytest
from pmtiles.tile import Compression, TileType, zxy_to_tileid
from pmtiles.writer import Writer
from tests.container_pmtiles.test_archives import REFUSED

from mastaba_conformance.container_kit import readers_of
from mastaba_conformance.containers import ContainerTests, TileAddress
from mastaba_conformance.counting_storage import CountingStorage
from mastaba_pmtiles.container import PMTiles


class TestPMTiles(ContainerTests):
    container = PMTiles
    head_length = 1024
    compression = Compression.GZIP

    def corpus(self, path: Path) -> Mapping[str, bytes]:
        return {name: data for name, (data, _) in REFUSED.items()}

    def make(self, path: Path, generation: int) -> Mapping[TileAddress, bytes]:
        tiles: dict[TileAddress, bytes] = {}
        with path.open("wb") as file:
            writer = Writer(file)
            for zoom in range(4):
                for row in range(1 << zoom):
                    for column in range(1 << zoom):
                        if (row + column) % 3 == 2:
                            continue
                        name = f"{generation}-{zoom}-{row}-{column}".encode()
                        layer = b"\x0a" + bytes([len(name)]) + name + b"\x78\x02"
                        data = b"\x1a" + bytes([len(layer)]) + layer
                        body = gzip.compress(data, mtime=0)
                        tiles[str(zoom), row, column] = body
            for (level, row, column), body in sorted(
                tiles.items(), key=lambda item: zxy_to_tileid(int(item[0][0]), *item[0][2:0:-1])
            ):
                writer.write_tile(zxy_to_tileid(int(level), column, row), body)
            writer.finalize(
                {
                    "tile_type": TileType.MVT,
                    "tile_compression": self.compression,
                    "min_lon_e7": -1800000000,
                    "min_lat_e7": -850511287,
                    "max_lon_e7": 1800000000,
                    "max_lat_e7": 850511287,
                    "center_zoom": 0,
                    "center_lon_e7": 0,
                    "center_lat_e7": 0,
                },
                {"name": "world", "vector_layers": [{"id": "a", "fields": {}}]},
            )
        return tiles

    def test_tiles_whose_coding_nothing_removes_pass(
        self, storage: CountingStorage, key: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As Brotli without its library: clients that do not accept it are refused."""
        monkeypatch.setattr("mastaba_pmtiles.reader.can_inflate", lambda _coding: False)
        self.compression = Compression.BROTLI
        tiles = self.replace(storage, key, 0)
        opened = self.open(storage, key)
        assert all(reader.requires_coding for reader in readers_of(opened).values())
        self.test_the_tile_table_answers_as_respond(opened, tiles)
