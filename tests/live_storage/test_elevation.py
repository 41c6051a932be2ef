"""Heights from a real object store that is 20 ms away (elevation.md 8 row 3)."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.live_storage.bad_network import BadNetwork, Forwarded
from tests.live_storage.conftest import Store, s3_writer
from werkzeug.test import Client

from mastaba.wsgi import create_application
from mastaba_writer.installation import write_installation
from mastaba_writer.pyramids import LevelPlan, object_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

logger = logging.getLogger(__name__)

BUCKET = "heights"
SLABS = 40
POINTS = 5000
LEVEL = LevelPlan("8", 80, 99, 120, 151)
SIDE = 64
"""Pixels of a tile: most of the time is then that of the network."""
HALF = math.pi * 6378137.0
CELL = 2 * HALF / SIDE / 2**8
SMALL = synthetic(
    "S64",
    crs="EPSG:3857",
    origin=(-HALF, HALF),
    cell_sizes=[2 * HALF / SIDE / 2**level for level in range(9)],
    matrix_sizes=[(2**level, 2**level) for level in range(9)],
    tile_size=(SIDE, SIDE),
)


def tile(level: str, row: int, column: int) -> Any:
    """Return a plane with a little noise, which compresses like real heights."""
    dice = np.random.default_rng([row, column])
    plane = np.add.outer(np.arange(SIDE) * 0.5 + row, np.arange(SIDE) * 0.25 + column)
    return (plane + dice.uniform(0, 0.5, (SIDE, SIDE))).astype(np.float32)


@pytest.fixture
def network(rgw: Store) -> Iterator[BadNetwork]:
    with BadNetwork(str(rgw.variables["MASTABA_S3_URL"]), is_reliable=True) as network:
        yield network


@pytest.fixture
def client(
    rgw: Store, network: BadNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Client]:
    """Return a client of a layer of 8 × 5 slabs in S3, without a cache of decoded tiles."""
    descriptor, slabs = object_pyramid(
        "many",
        storage={"type": "S3", "bucket_name": BUCKET},
        tile_matrix_set=SMALL,
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=[LEVEL],
        tile=tile,
        tiles_per_width=4,
        tiles_per_height=4,
    )
    writer, objects = s3_writer(rgw, BUCKET), dict(slabs)
    assert len(objects) == SLABS
    for key, data in objects.items():
        writer.put(key, data)
    writer.put("many.json", json.dumps(descriptor).encode())
    pyramid = {"path": f"s3://{BUCKET}/many.json", "bottom_level": "8", "top_level": "8"}
    server_json = write_installation(
        tmp_path,
        layers={"many": {"title": "t", "abstract": "a", "pyramids": [pyramid]}},
        tile_matrix_sets={"S64": SMALL},
        services=["elevation"],
        server_overrides={"cache": {"decoded_mebibytes": 0}},
    )
    for name, text in rgw.variables.items():
        if "_S3_" in name:
            monkeypatch.setenv(name, text)
    monkeypatch.setenv("MASTABA_S3_URL", f"http://127.0.0.1:{network.port}")
    application = create_application(str(server_json))
    yield Client(application)
    application.site.catalogue.storages.close()


def ask(client: Client) -> tuple[list[Any], float]:
    """Return the heights of points all over the layer, and the seconds of the request."""
    dice = np.random.default_rng(5)
    columns = dice.uniform(LEVEL.min_col, LEVEL.max_col + 1, POINTS)
    rows = dice.uniform(LEVEL.min_row, LEVEL.max_row + 1, POINTS)
    x, y = columns * SIDE * CELL - HALF, HALF - rows * SIDE * CELL
    points = {"type": "MultiPoint", "coordinates": np.column_stack([x, y]).tolist()}
    start = time.monotonic()
    response = client.post(
        "/elevation/points?crs=EPSG:3857", data=json.dumps(points), content_type="application/json"
    )
    seconds = time.monotonic() - start
    assert response.status_code == 200, response.data[:300]
    return response.get_json()["results"], seconds


def is_index(request: Forwarded) -> bool:
    """Return whether a read begins with the header of a slab."""
    return request.range is not None and request.range.startswith("bytes=0-")


def test_five_thousand_points_from_forty_slabs(client: Client, network: BadNetwork) -> None:
    """Two rounds of reads cold, one warm; each slab is read once in a round."""
    network.forwarded.clear()
    cold, seconds = ask(client)
    logger.info("cold: %.0f ms", seconds * 1000)
    assert all(item["elevation"] is not None for item in cold)
    reads = network.forwarded
    indices = [request for request in reads if is_index(request)]
    tiles = [request for request in reads if not is_index(request)]
    for found in (indices, tiles):
        assert len(found) == SLABS
        assert len({request.path for request in found}) == SLABS
    assert max(request.end for request in indices) < min(request.start for request in tiles)
    network.forwarded.clear()
    warm, seconds = ask(client)
    logger.info("warm: %.0f ms", seconds * 1000)
    assert warm == cold
    assert len(network.forwarded) == SLABS
    assert not any(map(is_index, network.forwarded))
