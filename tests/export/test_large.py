"""Exports of very many tiles from a distant storage: reads, memory, and every tile."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from benchmarks.export import in_a_process, written
from tests.sizes import sized

pytestmark = pytest.mark.thorough

TILES = sized(20_000, 1_000_000)
SIZE = sized(2000, 25_000)
"""Bytes of a tile. The full size needs 50 GB of room and an hour."""
LATENCY = 20
"""Milliseconds of each read."""


@pytest.mark.parametrize("format", ["pmtiles", "mbtiles"])
def test_many_tiles(tmp_path: Path, format: str) -> None:
    server = written(tmp_path, TILES, SIZE, LATENCY)
    try:
        found = in_a_process(server, {"format": format, "dedup": "all"}, tmp_path, is_verified=True)
        assert found["tiles"] == found["verified"] >= TILES
        assert found["reads"] <= found["most_reads"]
        assert found["peak"] <= 280
        if format == "pmtiles" and (shutil.which("go-pmtiles") or shutil.which("pmtiles")):
            assert "Completed verify" in found["program"]
    finally:
        # The files are large.
        shutil.rmtree(tmp_path, ignore_errors=True)
