"""The cost of heights: CPU time of queries, round trips, and the same points with other software.

``python -m benchmarks.elevation`` queries the application in this process. It writes a pyramid of
40 slabs first, with 4 × 4 tiles of 256 × 256 pixels each, and one of mountains for the tiles of
the service ``terrain``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from werkzeug.test import Client

from mastaba.wsgi import create_application
from mastaba_conformance.counting_storage import CountingStorage
from mastaba_storage.base import ByteRange, ObjectRead
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

POINTS: Final = 5000
LEVEL: Final = "12"
HALF: Final = 20037508.342789244
ROWS, COLUMNS = (1600, 1619), (2000, 2031)
"""Tiles: 5 × 8 slabs of 4 × 4."""

# What the rok4 library documents for the height of a point.
_ROK4: Final = """
import json, sys, time
from rok4.pyramid import Pyramid
descriptor, points = sys.argv[1], json.load(sys.stdin)
pyramid = Pyramid.from_descriptor(descriptor)
started = time.process_time()
heights = []
for x, y in points:
    level, column, row, pixel_column, pixel_row = pyramid.get_tile_indices(x, y)
    tile = pyramid.get_tile_data_raster(level, column, row)
    heights.append(None if tile is None else float(tile[pixel_row][pixel_column][0]))
json.dump([time.process_time() - started, heights], sys.stdout)
"""


class Delayed(CountingStorage):
    """A storage whose reads take as long as those of a store across a network."""

    delay = 0.0

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        time.sleep(self.delay)
        return super().read(key, byte_range, version)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elevation", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="of each case (%(default)d)")
    parser.add_argument("--latency", type=float, default=20, help="milliseconds (%(default)g)")
    parser.add_argument("--rok4-python", help="Python with the library rok4, to compare with")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mastaba-elevation-") as folder:
        descriptor, server_json = _write(Path(folder))
        points = _points()
        client = Client(create_application(str(server_json)))
        _queries(client, points, arguments.rounds)
        _tiles(Path(folder) / "mountains", arguments.rounds)
        _round_trips(server_json, points, arguments.latency / 1000)
        if arguments.rok4_python:
            _compare(arguments.rok4_python, descriptor, client, points)
    return 0


def _write(folder: Path) -> tuple[Path, Path]:
    """Return the descriptor of the pyramid, and the server.json that publishes it."""
    dice = np.random.default_rng(1)
    ground = dice.normal(0, 3, (256, 256)).cumsum(0).cumsum(1).astype(np.float32) / 100

    def tile(level: str, row: int, column: int) -> Any:
        return ground + np.float32(row + column)

    descriptor = write_pyramid(
        folder,
        "heights",
        tile_matrix_set=web_mercator(),
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=[LevelPlan(LEVEL, *ROWS, *COLUMNS)],
        tile=tile,
        tiles_per_width=4,
        tiles_per_height=4,
    )
    settings = {"elevation": {"limits": {"tiles": 4096, "bytes": 2**31}}}
    big = {"cache": {"size": 1000, "decoded_mebibytes": 2048}}
    server_json = write_installation(
        folder,
        layers={"heights": layer_document(descriptor)},
        services=["elevation"],
        services_overrides=settings,
        server_overrides=big,
    )
    return descriptor, server_json


def _points() -> list[list[float]]:
    """Return points inside 200 tiles, in the CRS of the pyramid."""
    dice = np.random.default_rng(2)
    tile = 2 * HALF / 2 ** int(LEVEL)
    rows, columns = dice.integers(*ROWS, 200), dice.integers(*COLUMNS, 200)
    chosen = dice.integers(0, 200, POINTS)
    x = -HALF + (columns[chosen] + dice.uniform(0.1, 0.9, POINTS)) * tile
    y = HALF - (rows[chosen] + dice.uniform(0.1, 0.9, POINTS)) * tile
    found: list[list[float]] = np.column_stack([x, y]).tolist()
    return found


def _ask(client: Client, points: list[list[float]], method: str = "bilinear") -> bytes:
    body = json.dumps({"type": "MultiPoint", "coordinates": points})
    path = f"/elevation/points?crs=EPSG:3857&interpolation={method}"
    response = client.post(path, data=body, content_type="application/json")
    assert response.status_code == 200, response.data[:200]
    return bytes(response.data)


def _cpu(function: Callable[[], object], rounds: int) -> float:
    function()
    times = []
    for _ in range(rounds):
        started = time.process_time()
        function()
        times.append(time.process_time() - started)
    return statistics.median(times) * 1000


def _queries(client: Client, points: list[list[float]], rounds: int) -> None:
    from mastaba.model.crs import CRS
    from mastaba_elevation.queries.sampling import SamplingOptions

    service: Any = client.application.site.services["elevation"]  # type: ignore[attr-defined]
    queries, dataset = service._native.context.queries, service._datasets["heights"]
    crs, wish = CRS.from_code("EPSG:3857"), SamplingOptions("bilinear")
    x, y = np.array(points).T.copy()
    _ask(client, points)
    print(f"CPU time, warm; median of {rounds}")
    one, many = points[:1], points
    cases = {
        "one point, sampled": lambda: [
            queries.points(dataset, x[:1], y[:1], crs, wish) for _ in range(20)
        ],
        f"{POINTS} points, sampled": lambda: queries.points(dataset, x, y, crs, wish),
        "one point, request": lambda: [_ask(client, one) for _ in range(20)],
        f"{POINTS} points, request": lambda: _ask(client, many),
    }
    for name, case in cases.items():
        repeats = 20 if name.startswith("one") else 1
        print(f"  {name:28} {_cpu(case, rounds) / repeats:8.3f} ms")


def _mountains(size: int) -> Any:
    """Return heights with the spectrum of mountains: 1000 m of relief, 10 m at a pixel of 6 m."""
    dice = np.random.default_rng(3)
    across = np.fft.fftfreq(size)
    distance = np.hypot(across[:, np.newaxis], across)
    distance[0, 0] = np.inf
    noise = np.fft.fft2(dice.normal(size=(size, size)))
    ground = np.fft.ifft2(noise / distance**2).real
    return (1500 + 1000 * (ground - ground.min()) / np.ptp(ground)).astype(np.float32)


def _tiles(folder: Path, rounds: int) -> None:
    """Measure the tiles of the service ``terrain``, from a pyramid of 4 × 4 tiles."""
    folder.mkdir()
    ground = _mountains(1024)
    top, left = 5888, 8480

    def tile(level: str, row: int, column: int) -> Any:
        y, x = (row - top) * 256, (column - left) * 256
        return ground[y : y + 256, x : x + 256]

    descriptor = write_pyramid(
        folder,
        "mountains",
        tile_matrix_set=web_mercator(),
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=[LevelPlan("14", top, top + 3, left, left + 3)],
        tile=tile,
    )
    server_json = write_installation(
        folder, layers={"mountains": layer_document(descriptor)}, services=["terrain"]
    )
    client = Client(create_application(str(server_json)))
    available = json.loads(client.get("/terrain/mountains/mesh/layer.json").data)["available"]
    z, limits = len(available) - 1, available[-1][0]
    x, y = (limits["startX"] + limits["endX"]) // 2, (limits["startY"] + limits["endY"]) // 2
    # One step of the zoom from the middle, so that a tile is inside the data.
    cases = {
        "256 pixels, PNG": f"terrarium/14/{left + 1}/{top + 1}.png",
        "256 pixels, lossless WebP": f"terrarium/14/{left + 1}/{top + 1}.webp",
        "256 pixels, mapbox, PNG": f"mapbox/14/{left + 1}/{top + 1}.png",
        "512 pixels, PNG": f"terrarium/13/{left // 2}/{top // 2}@2x.png",
        "mesh, 65 samples": f"mesh/{z}/{x}/{y}.terrain?extensions=octvertexnormals",
        "contours, 20 m": f"contours/14/{left + 1}/{top + 1}.pbf",
    }
    print(f"CPU time of tiles, warm, with gzip; median of {rounds}")
    for name, path in cases.items():
        address = f"/terrain/mountains/{path}"
        headers = {"Accept-Encoding": "gzip"}
        response = client.get(address, headers=headers)
        assert response.status_code == 200, response.data[:200]
        elapsed = _cpu(lambda: client.get(address, headers=headers), rounds)  # noqa: B023
        print(f"  {name:28} {elapsed:8.3f} ms {len(response.data):8} bytes")


def _round_trips(server_json: Path, points: list[list[float]], latency: float) -> None:
    client = Client(create_application(str(server_json)))
    catalogue = client.application.site.catalogue  # type: ignore[attr-defined]
    readers = list(catalogue.readers["heights"].values())
    storage = Delayed(readers[0].storage)
    storage.delay = latency
    vars(storage)["is_remote"] = True
    for reader in readers:
        reader.storage = storage
    print(f"{POINTS} points in 200 tiles of 40 slabs, {latency * 1000:g} ms added to each read")
    for name in ("cold", "warm indices"):
        # Another cache of decoded tiles each time.
        client.application.site.renderer.tiles._tiles.clear()  # type: ignore[attr-defined]
        storage.clear()
        started = time.perf_counter()
        _ask(client, points)
        elapsed = (time.perf_counter() - started) * 1000
        print(f"  {name:28} {len(storage.reads):4} reads {elapsed:8.1f} ms")


def _compare(python: str, descriptor: Path, client: Client, points: list[list[float]]) -> None:
    folder = descriptor.parent / "tilematrixsets"
    ended = subprocess.run(
        [python, "-c", _ROK4, str(descriptor)],
        input=json.dumps(points),
        env={**os.environ, "ROK4_TMS_DIRECTORY": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    theirs, heights = json.loads(ended.stdout)
    client.application.site.renderer.tiles._tiles.clear()  # type: ignore[attr-defined]
    started = time.process_time()
    answer = json.loads(_ask(client, points, "nearest"))
    ours = time.process_time() - started
    for height, item in zip(heights, answer["results"], strict=True):
        assert abs(height - item["elevation"]) < 0.0051, (height, item)
    print(f"{len(points)} points, nearest, no decoded tile in memory; points per second of CPU")
    print(f"  Mastaba, request and answer {len(points) / ours:10.0f}")
    print(f"  rok4                        {len(points) / theirs:10.0f}   {theirs / ours:.0f} x")


if __name__ == "__main__":
    raise SystemExit(main())
