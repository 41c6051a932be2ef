"""Slabs that are replaced while they are queried (elevation.md 8 row 16)."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.elevation.conftest import OpenClient, post, read
from tests.elevation.world import LAMBERT, TILE
from werkzeug.test import Client

from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid

SIDE = 4
"""Tiles of the only slab along each axis."""
CELL = 10
LEFT, TOP = 900000, 6600000
Replace = Callable[[], int]


def pyramid(directory: Path, generation: int) -> Path:
    """Write a pyramid in which every height is the number of its generation."""
    shape = (TILE, TILE)
    return write_pyramid(
        directory,
        "heights",
        tile_matrix_set=LAMBERT,
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        nodata=[-99999],
        levels=[LevelPlan("2", 0, SIDE - 1, 0, SIDE - 1)],
        tile=lambda level, row, col: np.full(shape, generation, np.float32),
        tiles_per_width=SIDE,
        tiles_per_height=SIDE,
    )


@pytest.fixture
def replace(tmp_path: Path) -> Replace:
    """Return a function that replaces the slab, and returns the new generation."""
    now = 0

    def it() -> int:
        nonlocal now
        now += 1
        pyramid(tmp_path / "new", now)
        (new,) = (tmp_path / "new").rglob("*.tif")
        old = tmp_path / "served" / new.relative_to(tmp_path / "new")
        old.parent.mkdir(parents=True, exist_ok=True)
        os.replace(new, old)
        return now

    return it


@pytest.fixture(params=[64])
def client(
    tmp_path: Path, replace: Replace, open_client: OpenClient, request: pytest.FixtureRequest
) -> Client:
    """Return a client; the parameter is the size of the cache of decoded tiles in MiB."""
    descriptor = pyramid(tmp_path / "served", 0)
    replace()
    server_json = write_installation(
        tmp_path,
        layers={"heights": layer_document(descriptor, tile_matrix_sets={"L16": LAMBERT})},
        tile_matrix_sets={"L16": LAMBERT},
        services=["elevation"],
        server_overrides={"cache": {"decoded_mebibytes": request.param}},
    )
    return open_client(server_json)


def forget_files(client: Client) -> None:
    """Let reads find the new slab, as in an object store. Open files keep the old one."""
    client.application.site.catalogue.readers["heights"]["2"].storage.close()


def places(tiles: Iterator[tuple[int, int]] | list[tuple[int, int]]) -> dict[str, Any]:
    """Return the centres of tiles."""
    points = [
        [LEFT + (column + 0.5) * TILE * CELL, TOP - (row + 0.5) * TILE * CELL]
        for row, column in tiles
    ]
    return {"type": "MultiPoint", "coordinates": points}


ALL = [(row, column) for row in range(SIDE) for column in range(SIDE)]
RIGHT, BOTTOM = LEFT + SIDE * TILE * CELL, TOP - SIDE * TILE * CELL
SQUARE = [[LEFT, TOP], [RIGHT, TOP], [RIGHT, BOTTOM], [LEFT, BOTTOM], [LEFT, TOP]]


def heights_of_points(client: Client) -> set[float]:
    found = read(post(client, "/elevation/points?crs=EPSG:2154", places(ALL)))["results"]
    return {item["elevation"] for item in found}


def heights_of_a_profile(client: Client) -> set[float]:
    line = {"type": "LineString", "coordinates": [[LEFT + 20, TOP - 20], [RIGHT - 20, BOTTOM + 20]]}
    found = read(post(client, "/elevation/profile?crs=EPSG:2154", line))["results"]
    return {item["elevation"] for item in found}


def heights_of_an_area(client: Client) -> set[float]:
    area = {"type": "Polygon", "coordinates": [SQUARE]}
    response = post(client, "/elevation/statistics?crs=EPSG:2154", area)
    if response.status_code == 503:
        # An area gives up if the slab is replaced again and again.
        return set()
    found = read(response)["statistics"]
    return {found["min"]["value"], found["max"]["value"]}


def heights_of_a_cube(client: Client) -> set[float]:
    box = f"{LEFT},{BOTTOM},{RIGHT},{TOP}"
    path = f"/elevation/edr/collections/heights/cube?bbox={box}&crs=EPSG:2154"
    return set(json.loads(client.get(path).data)["ranges"]["elevation"]["values"])


QUERIES = [heights_of_points, heights_of_a_profile, heights_of_an_area, heights_of_a_cube]


@pytest.mark.parametrize("query", QUERIES)
def test_cached_tiles_of_an_older_slab_are_not_mixed_with_new_ones(
    client: Client, replace: Replace, query: Callable[[Client], set[float]]
) -> None:
    """Half of the tiles are cached, the slab is replaced, all are requested."""
    half = post(client, "/elevation/points?crs=EPSG:2154", places(ALL[::2]))
    assert {item["elevation"] for item in read(half)["results"]} == {1}
    new = replace()
    forget_files(client)
    assert query(client) == {new}


@pytest.mark.thorough
@pytest.mark.parametrize("client", [0], indirect=True)
def test_no_answer_mixes_generations(client: Client, replace: Replace) -> None:
    stop = threading.Event()

    def replace_again() -> None:
        while not stop.wait(0.01):
            replace()
            forget_files(client)

    thread = threading.Thread(target=replace_again)
    thread.start()
    seen: set[float] = set()
    try:
        for number in range(120):
            found = QUERIES[number % len(QUERIES)](client)
            assert len(found) == 1 or QUERIES[number % len(QUERIES)] is heights_of_an_area
            assert len(found) <= 1
            seen |= found
    finally:
        stop.set()
        thread.join()
    assert len(seen) > 5


@pytest.mark.parametrize("client", [0], indirect=True)
def test_etag_changes_with_the_slab(client: Client, replace: Replace) -> None:
    path = f"/elevation/points?crs=EPSG:2154&coords=POINT({LEFT + 100} {TOP - 100})"
    before = client.get(path).headers["ETag"]
    same = client.get(path, headers={"If-None-Match": before})
    assert same.status_code == 304
    replace()
    forget_files(client)
    after = client.get(path, headers={"If-None-Match": before})
    assert after.status_code == 200
    assert after.headers["ETag"] != before
