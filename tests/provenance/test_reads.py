"""Numbers of many points are read in one plan (time.md section 5.5)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.elevation.world import MERCATOR, TILE
from werkzeug.test import Client

from mastaba.api.slabs import HEADER_SIZE
from mastaba_conformance.counting_storage import Call, CountingStorage
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid

OpenClient = Callable[[Path], Client]

COLUMNS, ROWS = 32, 20
"""Tiles, of 4 x 4 in a slab; a further column of slabs is read before."""
SLABS = COLUMNS * ROWS // 16
POINTS = 5000
CELL = MERCATOR["tileMatrices"][6]["cellSize"]
HALF = 20037508.342789244


def number(row: int, column: int) -> int:
    """Return the source of a tile."""
    return row * (COLUMNS + 4) + column + 1


@pytest.fixture
def client(tmp_path: Path, open_client: OpenClient) -> Client:
    """Return a client of a layer that is its own pyramid of numbers: one source in each tile."""
    pyramid = write_pyramid(
        tmp_path,
        "many",
        tile_matrix_set=MERCATOR,
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=[LevelPlan("6", 0, ROWS - 1, 0, COLUMNS + 3)],
        tile=lambda level, row, col: np.full((TILE, TILE), number(row, col), np.float32),
        tiles_per_width=4,
        tiles_per_height=4,
    )
    numbers = range(1, number(ROWS - 1, COLUMNS + 3) + 1)
    sources = [{"number": one, "id": f"sheet {one}"} for one in numbers]
    table = {"version": 1, "pyramid": pyramid.name, "next": len(numbers) + 1, "sources": sources}
    path = pyramid.with_name("many.sources.json")
    path.write_text(json.dumps(table))
    document = layer_document(pyramid, tile_matrix_sets={"M16": MERCATOR})
    server_json = write_installation(
        tmp_path,
        layers={"many": {**document, "provenance": str(path)}},
        tile_matrix_sets={"M16": MERCATOR},
        services=["provenance"],
        server_overrides={"cache": {"decoded_mebibytes": 0}},
    )
    return open_client(server_json)


def ask(client: Client, pixels: Any) -> Any:
    """Ask for pixels, given by columns and rows."""
    x, y = -HALF + pixels[:, 0] * CELL, HALF - pixels[:, 1] * CELL
    points = {
        "type": "MultiPoint",
        "coordinates": np.column_stack([x, y]).tolist(),
        "crs": "EPSG:3857",
    }
    body = json.dumps(points).encode()
    response = client.post("/provenance/many/at", data=body, content_type="application/json")
    assert response.status_code == 200, response.text
    return [one["number"] for one in response.json["points"]]


def counted(client: Client) -> CountingStorage:
    """Count the reads of the pyramid of numbers, which is open."""
    catalogue = client.application.site.catalogue
    (numbers,) = (one for one in catalogue.opened.values() if "sources" in one.key)
    readers = list(catalogue.readers_of(numbers).values())
    storage = CountingStorage(readers[0].storage)
    for reader in readers:
        reader.storage = storage
    vars(storage)["is_remote"] = True
    return storage


def is_index(call: Call) -> bool:
    return call.byte_ranges[0].offset < HEADER_SIZE


def test_five_thousand_points_need_two_rounds_cold_and_one_warm(client: Client) -> None:
    """Each slab is read once for its index and once for its tiles, all indices first."""
    dice = np.random.default_rng(5)
    pixels = dice.uniform((1, 1), (COLUMNS * TILE - 1, ROWS * TILE - 1), (POINTS, 2))
    expected = [number(int(y // TILE), int(x // TILE)) for x, y in pixels]
    beyond = np.array([[(COLUMNS + 2) * TILE + 5.5, 5.5]])
    assert ask(client, beyond) == [number(0, COLUMNS + 2)]
    storage = counted(client)
    # Points at the border need a pixel of the slab that was read before.
    assert ask(client, pixels) == expected
    kinds = [is_index(call) for call in storage.reads]
    assert kinds == sorted(kinds, reverse=True)
    for kind in (True, False):
        keys = Counter(call.key for call in storage.reads if is_index(call) is kind)
        assert SLABS <= len(keys) <= SLABS + ROWS // 4
        assert set(keys.values()) == {1}
    storage.clear()
    assert ask(client, pixels) == expected
    assert not any(is_index(call) for call in storage.reads)
    assert set(Counter(call.key for call in storage.reads).values()) == {1}
