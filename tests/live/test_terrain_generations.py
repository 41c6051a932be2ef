"""Slabs are replaced and the server reloads while clients ask for terrain and heights."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import mapbox_vector_tile  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from tests.elevation import quantized_mesh
from tests.live.client import ask
from tests.live.processes import Mastaba, changed, free_port, public_folder, wait_until
from tests.sizes import sized

from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

pytestmark = pytest.mark.live

REQUESTS = sized(800, 10_000)
RELOADS = 10
CLIENTS = 4
ZOOM, ROW, COLUMN = 14, 5888, 8480
SIDE = 4
"""Tiles of the only slab along each axis."""
SIZE = 256
STEP = 1000
"""Metres between two generations; the ground rises by less."""
RISE = 200
GENERATIONS = 7
HALF = 20037508.342789244
CELL = 2 * HALF / SIZE / 2**ZOOM


def pyramid(folder: Path, generation: int) -> Path:
    """Write a pyramid of one slab whose heights tell its generation."""

    def tile(level: str, row: int, column: int) -> npt.NDArray[np.float32]:
        x = (np.arange(SIZE) + (column - COLUMN) * SIZE) / (SIDE * SIZE)
        y = (np.arange(SIZE) + (row - ROW) * SIZE) / (SIDE * SIZE)
        ramp = RISE * (0.1 + 0.4 * (x[np.newaxis, :] + y[:, np.newaxis]))
        return np.asarray(height_of(generation) + ramp, np.float32)

    last_row, last_column = ROW + SIDE - 1, COLUMN + SIDE - 1
    return write_pyramid(
        folder,
        "heights",
        tile_matrix_set=web_mercator(),
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        nodata=[-99999],
        levels=[LevelPlan(str(ZOOM), ROW, last_row, COLUMN, last_column)],
        tile=tile,
        tiles_per_width=SIDE,
        tiles_per_height=SIDE,
    )


def height_of(generation: int) -> int:
    return STEP * (1 + generation % GENERATIONS)


class World:
    """A server whose slab can be replaced."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.generation = 0
        descriptor = pyramid(folder / "served", 0)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        server_json = write_installation(
            folder,
            layers={"heights": layer_document(descriptor)},
            services=["terrain", "elevation"],
            public_url=self.url,
        )
        self.server = Mastaba(changed(server_json, folder / "server-http.json"), folder, http=port)

    def replace(self) -> None:
        self.generation += 1
        made = self._folder / "made"
        pyramid(made, self.generation)
        (new,) = made.rglob("*.tif")
        os.replace(new, self._folder / "served" / new.relative_to(made))

    def reload(self) -> None:
        before = set(self.server.children())
        self.server.send(signal.SIGHUP)
        wait_until(lambda: before.isdisjoint(self.server.children()))
        wait_until(lambda: len(self.server.children()) == self.server.workers)


@pytest.fixture
def world() -> Iterator[World]:
    with public_folder() as folder:
        made = World(folder)
        with made.server:
            yield made


def heights_of_a_tile(body: bytes) -> Any:
    red, green, blue = np.asarray(Image.open(io.BytesIO(body)), np.float64).transpose(2, 0, 1)
    return red * 256 + green + blue / 256 - 32768


def heights_of_a_mesh(body: bytes) -> Any:
    return quantized_mesh.decode(body).heights


def heights_of_lines(body: bytes) -> Any:
    (layer,) = mapbox_vector_tile.decode(body).values()
    return [feature["properties"]["ele"] for feature in layer["features"]]


def heights_of_points(body: bytes) -> Any:
    return [item["elevation"] for item in json.loads(body)["results"]]


def heights_of_an_area(body: bytes) -> Any:
    found = json.loads(body)["statistics"]
    return [found["min"]["value"], found["max"]["value"]]


Read = Callable[[bytes], Any]


def paths(url: str) -> dict[str, Read]:
    """Return how the answers of every kind are read."""
    levels = json.loads(ask(url, "/terrain/heights/mesh/layer.json").body)["available"]
    (box,) = levels[-1]
    x, y = (box["startX"] + box["endX"]) // 2, (box["startY"] + box["endY"]) // 2
    west, north = COLUMN * SIZE * CELL - HALF, HALF - ROW * SIZE * CELL
    edge = SIDE * SIZE * CELL
    inner = 4 * CELL
    left, right = west + inner, west + edge - inner
    bottom, top = north - edge + inner, north - inner
    places = np.linspace(left, right, 5)
    points = ", ".join(f"{a} {b}" for a in places for b in np.linspace(bottom, top, 5))
    # The four tiles in the middle are in the area.
    x_west, x_east = (west + edge / 2 + side * 16 * CELL for side in (-1, 1))
    y_south, y_north = (north - edge / 2 + side * 16 * CELL for side in (-1, 1))
    corners = [(x_west, y_north), (x_east, y_north), (x_east, y_south), (x_west, y_south)]
    ring = ", ".join(f"{a} {b}" for a, b in [*corners, corners[0]])

    def query(name: str, text: str) -> str:
        return f"/elevation/{name}?crs=EPSG:3857&coords={quote(text)}"

    tiles = "/terrain/heights"
    return {
        f"{tiles}/terrarium/{ZOOM}/{COLUMN + 1}/{ROW + 1}.png": heights_of_a_tile,
        f"{tiles}/terrarium/{ZOOM - 1}/{COLUMN // 2}/{ROW // 2}@2x.png": heights_of_a_tile,
        f"{tiles}/mesh/{len(levels) - 1}/{x}/{y}.terrain": heights_of_a_mesh,
        f"{tiles}/contours/{ZOOM}/{COLUMN + 1}/{ROW + 2}.pbf": heights_of_lines,
        query("points", f"MULTIPOINT({points})"): heights_of_points,
        query("profile", f"LINESTRING({left} {top}, {right} {bottom})"): heights_of_points,
        query("statistics", f"POLYGON(({ring}))"): heights_of_an_area,
    }


def test_no_answer_mixes_generations(world: World) -> None:
    """Equal ETags are of equal bytes, and every answer is of one slab."""
    reads = paths(world.url)
    tags: dict[tuple[str, str], bytes] = {}
    seen: dict[str, set[int]] = {path: set() for path in reads}
    latest: dict[str, str] = {}
    lock = threading.Lock()
    answered = 0

    def request(path: str) -> None:
        nonlocal answered
        known = latest.get(path)
        answer = ask(world.url, path, headers={"If-None-Match": known} if known else None)
        with lock:
            answered += 1
        if answer.status == 304:
            assert answer.headers["etag"] == known
            return
        assert answer.status == 200, answer.body[:300]
        tag = answer.headers["etag"]
        with lock:
            latest[path] = tag
            body = tags.setdefault((path, tag), answer.body)
        assert body == answer.body
        if body is answer.body:
            found = np.asarray(reads[path](body), np.float64)
            (generation,) = set((found // STEP).astype(int).ravel().tolist())
            seen[path].add(generation)

    done = threading.Event()

    def disturb() -> None:
        for number in range(1, RELOADS + 1):
            while answered < number * REQUESTS // (RELOADS + 1):
                if done.wait(0.02):
                    return
            # Before the second time, new workers may open either slab.
            world.replace()
            world.reload()
            world.replace()

    with ThreadPoolExecutor(CLIENTS + 1) as pool:
        disturbed = pool.submit(disturb)
        try:
            for _ in pool.map(request, islice(cycle(reads), REQUESTS)):
                pass
            # On a busy machine, the reloads take longer than the requests.
            while not disturbed.done():
                for path in reads:
                    request(path)
        finally:
            done.set()
        disturbed.result()
    for path, found in seen.items():
        assert len(found) > 3, path
    check_that_tags_change(world, list(reads), reads)


def check_that_tags_change(world: World, wanted: list[str], reads: dict[str, Read]) -> None:
    world.reload()
    before = {path: ask(world.url, path).headers["etag"] for path in wanted}
    world.replace()
    world.reload()
    for path, tag in before.items():
        answer = ask(world.url, path, headers={"If-None-Match": tag})
        assert answer.status == 200
        assert answer.headers["etag"] != tag
        found = np.asarray(reads[path](answer.body), np.float64)
        assert set((found // STEP * STEP).ravel().tolist()) == {height_of(world.generation)}
