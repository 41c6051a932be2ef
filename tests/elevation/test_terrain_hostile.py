"""Terrain tiles: requests that make no sense, and slabs replaced while they are read."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.elevation.conftest import OpenClient
from werkzeug.test import Client

from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

WORDS = [
    *("", "0", "-1", "00", "1", "2", "5", "24", "25", "30", "-0", "1e3", "0x1", "NaN", "٣", " 1"),
    *("9" * 400, "1" * 18, "1" * 19, "..", "%00", "%2e%2e", "%ff", "a" * 5000, "@2x", "{z}", "é"),
]
FILES = [
    "{}.png",
    "{}@2x.png",
    "{}@2x@2x.png",
    "{}.webp",
    "{}.jpg",
    "{}",
    ".{}",
    "{}.PNG",
    "{}.png.png",
]
QUERIES = [
    *("", "precision=auto", "fill=edge", "missing=404", "precision=x", "fill=", "missing=1e3"),
    *(
        "fill=edge&fill=none",
        "missing=" + "4" * 5000,
        "size=512",
        "format=webp&size=513",
        "%00=%ff",
    ),
]


def test_strange_addresses_are_client_errors(tiles: Client) -> None:
    dice = random.Random(11)
    statuses = set()
    for _ in range(300):
        dataset = dice.choice(["merc", "alps", "none", "", "..", "colour"])
        kind = dice.choice(["mapbox", "terrarium", "Mapbox", "", "x"])
        z, x, y, matrix_set = (dice.choice(WORDS) for _ in range(4))
        name = dice.choice(FILES).format(y)
        path = dice.choice(
            [
                f"{dataset}/{kind}/{z}/{x}/{name}",
                f"{dataset}/{kind}/{z}/{x}/{name}",
                f"{dataset}/{kind}/{matrix_set}/{z}/{x}/{name}",
                f"{dataset}/{kind}/L16/{z}/{x}/{name}",
                f"{dataset}/{kind}.json",
                f"{dataset}/{kind}.json/{z}",
                f"{dataset}/style.json/{z}",
                f"{dataset}/{z}",
            ]
        )
        response = tiles.get(f"/terrain/{path}?{dice.choice(QUERIES)}")
        statuses.add(response.status_code)
        if response.status_code != 200:
            assert response.status_code in (400, 404, 413), (path, response.data[:300])
            assert response.content_type == "application/json"
            assert len(response.data) < 1000
    assert {200, 400, 404} <= statuses


def test_nothing_is_read_outside_the_limits(tiles: Client) -> None:
    from mastaba_conformance.counting_storage import count_calls

    storage = count_calls(tiles.application.site.catalogue, "merc")  # type: ignore[attr-defined]
    storage.clear()
    for path in ("3/0/0.png", "30/1/1.png", "5/12/12.png", "1/5/5@2x.png", "2/1/1.tif"):
        assert tiles.get(f"/terrain/merc/mapbox/{path}").status_code in (400, 404)
    assert storage.reads == []


TOP, LEFT = 22, 32


class Replaced:
    """A layer of one slab with 2 × 2 tiles, all of one height, which is replaced by another."""

    def __init__(self, folder: Path, open_client: OpenClient) -> None:
        self.slabs = []
        for height in (100, 300):
            descriptor = write_pyramid(
                folder / str(height),
                "level",
                tile_matrix_set=web_mercator(),
                format="TIFF_ZIP_FLOAT32",
                channels=1,
                levels=[LevelPlan("6", TOP, TOP + 1, LEFT, LEFT + 1)],
                # Noise of another length: the tiles of both slabs are at different places.
                tile=lambda level, row, col, height=height: _noisy(height, row + col),
                tiles_per_width=2,
                tiles_per_height=2,
            )
            (slab,) = [
                path
                for path in (folder / str(height)).rglob("*")
                if path.is_file() and path.suffix != ".json" and path.stat().st_size > 2048
            ]
            self.slabs.append((descriptor, slab, slab.read_bytes()))
        server_json = write_installation(
            folder, layers={"level": layer_document(self.slabs[0][0])}, services=["terrain"]
        )
        self.client = open_client(server_json)
        site: Any = self.client.application.site  # type: ignore[attr-defined]
        self.storage = site.catalogue.readers["level"]["6"].storage
        self.decoded = site.renderer.tiles

    def put(self, number: int) -> None:
        """Replace the published slab in one step."""
        path = self.slabs[0][1]
        new = path.with_suffix(".new")
        new.write_bytes(self.slabs[number][2])
        os.replace(new, path)
        # As in object storages, which keep no file open.
        self.storage.close()

    def get(self, path: str) -> tuple[int, str]:
        """Return hundreds of metres of a tile, which is of one generation, and its ETag."""
        response = self.client.get(f"/terrain/level/terrarium/{path}")
        assert response.status_code == 200, response.data[:200]
        found = np.asarray(Image.open(io.BytesIO(response.data))).astype(float)
        hundreds = np.round((found[:, :, 0] * 256 + found[:, :, 1] - 32768) / 100)
        assert len(np.unique(hundreds)) == 1, "tiles of two generations"
        return int(hundreds[0, 0]), response.headers["ETag"]

    @contextmanager
    def again_and_again(self, forgotten: int) -> Iterator[Callable[[], None]]:
        """Replace the slab in another thread.

        Give a function to call before each request, during which the slab is then replaced. On a
        busy machine, a thread that replaces it all the time leaves no time for a request.

        Args:
            forgotten: each time, one of so many decoded tiles is forgotten.
        """
        wanted, stop = Event(), Event()
        dice = random.Random(5)

        def replace() -> None:
            number = 0
            while not stop.is_set():
                wanted.wait()
                wanted.clear()
                stop.wait(dice.random() / 100)
                number = 1 - number
                self.put(number)
                starts = np.asarray(self.decoded._starts)
                starts[np.flatnonzero(starts.copy())[::forgotten]] = 0

        writer = Thread(target=replace)
        writer.start()
        try:
            yield wanted.set
        finally:
            stop.set()
            wanted.set()
            writer.join()


def _noisy(height: int, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    dice = np.random.default_rng(seed)
    return (height + dice.uniform(0, height / 100, (256, 256))).astype(np.float32)


@pytest.fixture
def replaced(tmp_path: Path, open_client: OpenClient) -> Replaced:
    return Replaced(tmp_path, open_client)


@pytest.mark.thorough
def test_tiles_in_memory_are_not_mixed_with_those_of_a_new_slab(replaced: Replaced) -> None:
    _, before = replaced.get(f"6/{LEFT}/{TOP}.png")
    replaced.put(1)
    # One of four tiles is in memory, the others must be read.
    height, _ = replaced.get(f"5/{LEFT // 2}/{TOP // 2}@2x.png")
    assert height == 3
    height, after = replaced.get(f"6/{LEFT}/{TOP}.png")
    assert (height, before != after) == (3, True)


@pytest.mark.thorough
def test_slabs_replaced_during_requests(replaced: Replaced) -> None:
    """Every answer is of one generation, and an ETag is always of the same one."""
    generations: dict[str, set[int]] = {}
    with replaced.again_and_again(forgotten=1) as replace:
        for number in range(60):
            replace()
            path = f"5/{LEFT // 2}/{TOP // 2}@2x.png" if number % 2 else f"6/{LEFT}/{TOP}.png"
            height, etag = replaced.get(path)
            generations.setdefault(etag, set()).add(height)
    assert {len(heights) for heights in generations.values()} == {1}
    assert {height for heights in generations.values() for height in heights} == {1, 3}
