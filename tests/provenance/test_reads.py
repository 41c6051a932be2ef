"""Numbers of many points are read in one plan (time.md section 5.5)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.elevation.world import MERCATOR, TILE
from werkzeug.test import Client

from mastaba.api.slabs import HEADER_SIZE
from mastaba_conformance.counting_storage import Call, CountingStorage
from mastaba_conformance.object_server import Faults, ObjectServer
from mastaba_writer.installation import layer_document, layer_of, write_installation
from mastaba_writer.pyramids import LevelPlan, object_pyramid, write_pyramid

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


PYRAMID: Mapping[str, Any] = {
    "tile_matrix_set": MERCATOR,
    "format": "TIFF_ZIP_FLOAT32",
    "channels": 1,
    "levels": [LevelPlan("6", 0, ROWS - 1, 0, COLUMNS + 3)],
    "tile": lambda level, row, col: np.full((TILE, TILE), number(row, col), np.float32),
    "tiles_per_width": 4,
    "tiles_per_height": 4,
}
"""The layer is its own pyramid of numbers: one source in each tile."""


def table() -> bytes:
    numbers = range(1, number(ROWS - 1, COLUMNS + 3) + 1)
    sources = [{"number": one, "id": f"sheet {one}"} for one in numbers]
    document = {"version": 1, "pyramid": "many.json", "next": len(numbers) + 1, "sources": sources}
    return json.dumps(document).encode()


def installation(folder: Path, document: Mapping[str, Any]) -> Path:
    return write_installation(
        folder,
        layers={"many": document},
        tile_matrix_sets={"M16": MERCATOR},
        services=["provenance"],
        server_overrides={"cache": {"decoded_mebibytes": 0}},
    )


@pytest.fixture
def client(tmp_path: Path, open_client: OpenClient) -> Client:
    pyramid = write_pyramid(tmp_path, "many", **PYRAMID)
    path = pyramid.with_name("many.sources.json")
    path.write_bytes(table())
    document = layer_document(pyramid, tile_matrix_sets={"M16": MERCATOR})
    return open_client(installation(tmp_path, {**document, "provenance": str(path)}))


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """Return a store whose bucket ``maps`` has the same pyramid, 20 ms away."""
    with ObjectServer() as server:
        for name, text in (("URL", server.url), ("KEY", "key"), ("SECRETKEY", "secret")):
            monkeypatch.setenv(f"MASTABA_S3_{name}", text)
        place = {"type": "S3", "bucket_name": "maps"}
        descriptor, slabs = object_pyramid("many", storage=place, **PYRAMID)
        documents = [("many.json", json.dumps(descriptor).encode()), ("many.sources.json", table())]
        for key, data in (*slabs, *documents):
            server.put("maps", key, data)
        server.faults = Faults(latency=0.02)
        yield server


@pytest.fixture
def distant(bucket: ObjectServer, tmp_path: Path, open_client: OpenClient) -> Client:
    levels = {"tile_matrix_set": "M16", "levels": [{"id": "6"}]}
    document = layer_of("s3://maps/many.json", levels, tile_matrix_sets={"M16": MERCATOR})
    document = {**document, "provenance": "s3://maps/many.sources.json"}
    return open_client(installation(tmp_path, document))


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


def many_points() -> tuple[Any, list[int]]:
    """Return points in all slabs, and their sources."""
    dice = np.random.default_rng(5)
    pixels = dice.uniform((1, 1), (COLUMNS * TILE - 1, ROWS * TILE - 1), (POINTS, 2))
    return pixels, [number(int(y // TILE), int(x // TILE)) for x, y in pixels]


BEYOND = np.array([[(COLUMNS + 2) * TILE + 5.5, 5.5]])
"""A point in another slab, which opens the pyramid."""


def test_five_thousand_points_need_two_rounds_cold_and_one_warm(client: Client) -> None:
    """Each slab is read once for its index and once for its tiles, all indices first."""
    pixels, expected = many_points()
    assert ask(client, BEYOND) == [number(0, COLUMNS + 2)]
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


def test_points_in_a_bucket_need_as_many_rounds(distant: Client, bucket: ObjectServer) -> None:
    pixels, expected = many_points()
    assert ask(distant, BEYOND) == [number(0, COLUMNS + 2)]

    def requested() -> list[tuple[bool, str]]:
        """Return what was requested for the points: whether it is an index, and the object."""
        before = len(bucket.requests)
        assert ask(distant, pixels) == expected
        found = []
        for one in bucket.requests[before:]:
            assert one.method == "GET"
            assert one.range is not None
            first = int(one.range.removeprefix("bytes=").partition("-")[0])
            found.append((first < HEADER_SIZE, one.path))
        return found

    cold, warm = requested(), requested()
    kinds = [kind for kind, _ in cold]
    assert kinds == sorted(kinds, reverse=True)
    assert kinds.count(True) >= SLABS
    assert set(Counter(cold).values()) == {1}
    assert not any(kind for kind, _ in warm)
    assert len(warm) == len(set(warm)) >= SLABS
