"""A server with layers in every kind of storage, tested over HTTP."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import urllib3
from tests.live_storage.conftest import CephWriter, Store, s3_writer, swift_writer
from tests.sizes import sized
from urllib3.util import Retry
from werkzeug.test import Client

from mastaba.site.application import Application
from mastaba.wsgi import create_application
from mastaba_conformance.storage import ObjectWriter
from mastaba_writer.installation import write_installation
from mastaba_writer.pyramids import LevelPlan, object_pyramid, write_pyramid
from mastaba_writer.slab_writer import build_slab
from mastaba_writer.tile_matrix_sets import web_mercator

LEVELS = [LevelPlan("6", 16, 31, 32, 47)]
SIDE = 8

TILES = sized(3_000, 10_000)
"""Requests while slabs are replaced."""
THREADS = 8


def tile(level: str, row: int, col: int, generation: int = 1) -> bytes:
    return f"{level}/{row}/{col}:{generation};".encode() * (10 + (row + col + generation) % 20)


def layer(path: str) -> dict[str, Any]:
    pyramid = {"path": path, "bottom_level": "6", "top_level": "6"}
    return {"title": "t", "abstract": "a", "pyramids": [pyramid]}


def put_pyramid(writer: ObjectWriter, name: str, storage: dict[str, str]) -> None:
    descriptor, slabs = object_pyramid(
        name,
        storage=storage,
        tile_matrix_set=web_mercator(),
        format="TIFF_PBF_MVT",
        levels=LEVELS,
        tile=tile,
        tiles_per_width=SIDE,
        tiles_per_height=SIDE,
    )
    writer.put(f"{name}.json", json.dumps(descriptor).encode())
    for key, data in slabs:
        writer.put(key, data)


@pytest.fixture
def server_json(
    rgw: Store, swift: Store, ceph: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    in_s3, in_swift = s3_writer(rgw, "pyramids"), swift_writer(swift, "pyramids")
    in_ceph = CephWriter(ceph, "maps")
    put_pyramid(in_s3, "S", {"type": "S3", "bucket_name": "pyramids"})
    put_pyramid(in_swift, "W", {"type": "SWIFT", "container_name": "pyramids"})
    put_pyramid(in_ceph, "C", {"type": "CEPH", "pool_name": "maps"})
    in_ceph.put("InCeph.json", json.dumps(layer("ceph://maps/C.json")).encode())
    # Slabs of this pyramid are links to those of a pyramid in another pool.
    put_pyramid(in_ceph, "L", {"type": "CEPH", "pool_name": "maps"})
    archive = CephWriter(ceph, "archive")
    put_pyramid(archive, "A", {"type": "CEPH", "pool_name": "archive"})
    for col in range(4, 6):
        for row in range(2, 4):
            link = f"SYMLINK#archive/A/DATA_6_{col}_{row}"
            in_ceph.put(f"L/DATA_6_{col}_{row}", link.encode())
    in_file = write_pyramid(
        tmp_path / "pyramids",
        "F",
        tile_matrix_set=web_mercator(),
        format="TIFF_PBF_MVT",
        levels=LEVELS,
        tile=tile,
    )
    server_json = write_installation(
        tmp_path,
        layers={
            "InS3": layer("s3://pyramids/S.json"),
            "InSwift": layer("swift://pyramids/W.json"),
            "Linked": layer("ceph://maps/L.json"),
            "Missing": layer("ceph://no-such-pool/L.json"),
            "OnFile": in_file,
        },
        services=["tms", "health"],
        server_overrides={"workers": 2, "threads": 4},
    )
    with (tmp_path / "layers.txt").open("a") as file:
        file.write("ceph://maps/InCeph.json\n")
    chosen = {name: text for name, text in rgw.variables.items() if "_S3_" in name}
    chosen |= {name: text for name, text in swift.variables.items() if "_SWIFT_" in name}
    chosen |= {name: text for name, text in ceph.variables.items() if "_CEPH_" in name}
    # The gateway sometimes answers 500 for an object that is replaced while it is read.
    chosen |= {"MASTABA_OBJECT_READ_ATTEMPTS": "3", "MASTABA_OBJECT_ATTEMPTS_WAIT": "0"}
    for name, text in chosen.items():
        monkeypatch.setenv(name, text)
    return server_json


@pytest.fixture
def application(server_json: Path) -> Iterator[Application]:
    application = create_application(str(server_json))
    yield application
    application.site.catalogue.storages.close()


def get(client: Client, name: str, row: int, col: int) -> bytes:
    answer = client.get(f"/tms/1.0.0/{name}/6/{col}/{row}.pbf")
    assert answer.status_code == 200, answer.data
    return bytes(answer.data)


def test_layers_from_all_stores_are_served_together(application: Application) -> None:
    client = Client(application)
    assert sorted(application.site.catalogue.layers) == [
        "InCeph",
        "InS3",
        "InSwift",
        "Linked",
        "OnFile",
    ]
    for name in application.site.catalogue.layers:
        for row, col in ((16, 32), (31, 47), (20, 41)):
            assert get(client, name, row, col) == tile("6", row, col)
        assert client.get(f"/tms/1.0.0/{name}/6/32/32.pbf").status_code == 404


def test_each_worker_has_its_own_connections_before_and_after_a_reload(
    server_json: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    pool = urllib3.PoolManager(maxsize=8)

    def request_tile(number: int) -> bool:
        name = ("InS3", "InSwift", "InCeph", "Linked", "OnFile")[number % 5]
        row, col = 16 + number % 16, 32 + number // 5 % 16
        url = f"http://{address}/tms/1.0.0/{name}/6/{col}/{row}.pbf"
        return pool.request("GET", url).data == tile("6", row, col)

    command = [sys.executable, "-m", "mastaba", "-f", str(server_json), "--http", address]
    with subprocess.Popen(command) as server:
        try:
            pool.request(
                "GET",
                f"http://{address}/healthcheck",
                retries=Retry(100, backoff_factor=0.1, backoff_max=1.0),
            )
            for _ in range(3):
                with ThreadPoolExecutor(8) as threads:
                    assert all(threads.map(request_tile, range(400)))
                server.send_signal(signal.SIGHUP)
        finally:
            server.terminate()
        assert server.wait(60) == 0


@pytest.mark.parametrize(
    ("name", "make_writer", "prefix"),
    [
        ("InS3", lambda request: s3_writer(request.getfixturevalue("rgw"), "pyramids"), "S"),
        ("InCeph", lambda request: CephWriter(request.getfixturevalue("ceph"), "maps"), "C"),
    ],
)
def test_tiles_are_consistent_while_slabs_are_replaced(
    application: Application,
    request: pytest.FixtureRequest,
    name: str,
    make_writer: Callable[[pytest.FixtureRequest], ObjectWriter],
    prefix: str,
) -> None:
    writer, stop = make_writer(request), threading.Event()
    statuses: list[int] = []

    def replace() -> None:
        generation = answered = 1
        while not stop.wait(0.05):
            # Otherwise, a busy machine would replace a slab several times during one request.
            if len(statuses) < answered + 2 * THREADS:
                continue
            answered = len(statuses)
            generation = generation % 90 + 1
            for col in (4, 5):
                tiles = [
                    tile("6", 2 * SIDE + number // SIDE, col * SIDE + number % SIDE, generation)
                    for number in range(SIDE * SIDE)
                ]
                slab = build_slab(
                    tiles, format="TIFF_PBF_MVT", tiles_per_width=SIDE, tiles_per_height=SIDE
                )
                writer.put(f"{prefix}/DATA_6_{col}_2", slab)

    def request_tile(number: int) -> None:
        chooser = random.Random(number)
        row, col = 16 + chooser.randrange(SIDE), 32 + chooser.randrange(2 * SIDE)
        answer = Client(application).get(f"/tms/1.0.0/{name}/6/{col}/{row}.pbf")
        if answer.status_code == 200:
            generation = int(answer.data.partition(b":")[2].partition(b";")[0])
            assert answer.data == tile("6", row, col, generation)
        statuses.append(answer.status_code)

    writing = threading.Thread(target=replace)
    writing.start()
    try:
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(request_tile, range(TILES)))
    finally:
        stop.set()
        writing.join()
    # 500: a slab was replaced twice during one request. 503: the store failed.
    assert set(statuses) <= {200, 500, 503}
    assert statuses.count(200) > 0.99 * TILES
