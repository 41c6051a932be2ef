"""A server answers with one version of a pyramid at a time while further ones are published."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import urllib3
from PIL import Image
from tests.build.ground import MASTABA, grid, write_raster
from tests.sizes import only_full
from urllib3.util import Retry

from mastaba_build.config.configuration import configuration_of
from mastaba_build.output.storage import OutputStore
from mastaba_build.plan.plan import Plan, make_plan
from mastaba_build.pyramid.history import rollback
from mastaba_build.pyramid.pruning import prune
from mastaba_build.work.build import build
from mastaba_build.work.reports import Reports
from mastaba_writer.installation import write_installation

SECRET = "secret of the test"
CELL = 156543.03392804097 / 2**12
# A map over four slabs, which all have the same colour in one version.
MAP = (
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=flat&STYLES=&CRS=EPSG:3857"
    f"&BBOX={-100 * CELL},{-100 * CELL},{100 * CELL},{100 * CELL}&WIDTH=64&HEIGHT=64"
    "&FORMAT=image/png"
)


def colour_of(version: int) -> int:
    return 5 + 4 * version


@pytest.fixture
def plan_version(tmp_path: Path) -> Callable[[int], Plan]:
    """Return a function that replaces the source and returns the plan of a version."""

    def plan(version: int) -> Plan:
        pixels = np.full((1, 256, 256), colour_of(version), np.uint8)
        fresh = write_raster(
            tmp_path / "fresh.tif", pixels, grid(-128 * CELL, 128 * CELL, CELL), "EPSG:3857"
        )
        os.utime(fresh, (1e9 + version, 1e9 + version))
        fresh.replace(tmp_path / "flat.tif")
        document = {
            "name": "flat",
            "output": str(tmp_path / "out"),
            "sources": [str(tmp_path / "flat.tif")],
            "format": "png",
            "slab": [1, 1],
            "bottom": "12",
            "top": "11",
            "workers": 1,
        }
        return make_plan(configuration_of(document, "test"))

    return plan


@pytest.fixture
def url(tmp_path: Path, plan_version: Callable[[int], Plan]) -> Iterator[str]:
    """The address of a server with two workers that serves version 0."""
    assert build(plan_version(0), Reports(StringIO(), StringIO()))
    layer = json.loads((tmp_path / "out/flat.layer.json").read_text())
    server_json = write_installation(
        tmp_path / "server",
        layers={"flat": layer},
        services=["wms", "health", "admin"],
        services_overrides={"admin": {"secret": SECRET}},
        server_overrides={"workers": 2, "threads": 4},
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    command = [*MASTABA, "-f", str(server_json), "--http", address]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            retries = Retry(100, backoff_factor=0.2, backoff_max=1.0)
            urllib3.request("GET", f"http://{address}/healthcheck", retries=retries)
            yield f"http://{address}"
        finally:
            server.terminate()
            assert server.stderr is not None
            log = server.stderr.read()
        assert server.wait(60) == 0
    assert "ERROR" not in log
    assert "Traceback" not in log


@pytest.mark.parametrize(
    "versions",
    [pytest.param(4, marks=pytest.mark.thorough), *only_full(20)],
)
def test_no_answer_mixes_versions(
    url: str, tmp_path: Path, plan_version: Callable[[int], Plan], versions: int
) -> None:
    pool = urllib3.PoolManager(maxsize=8, retries=False)
    done = threading.Event()
    seen: Counter[int] = Counter()
    wrong: list[object] = []

    def ask() -> None:
        # Without a pause, the threads would leave hardly any time to the build.
        while not done.wait(0.005):
            answer = pool.request("GET", url + MAP)
            if answer.status != 200:
                wrong.append((answer.status, answer.data))
                return
            colours = np.unique(np.asarray(Image.open(io.BytesIO(answer.data)).convert("L")))
            if len(colours) != 1:
                wrong.append(colours)
                return
            seen[int(colours[0])] += 1

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for version in range(1, versions):
            assert build(plan_version(version), Reports(StringIO(), StringIO()), update="new")
            layer = (tmp_path / "out/flat.layer.json").read_bytes()
            headers = {"X-Mastaba-Secret": SECRET}
            changed = pool.request("PUT", f"{url}/admin/layers/flat", body=layer, headers=headers)
            assert changed.status == 204, changed.data
            # From here on, no worker answers with an older version.
            data = pool.request("GET", url + MAP).data
            assert np.asarray(Image.open(io.BytesIO(data)).convert("L"))[0, 0] == colour_of(version)
        store = OutputStore.of_directory(tmp_path / "out")
        for number in (*range(versions - 1, 0, -1), versions):
            rollback(store, "flat", number)
            layer = (tmp_path / "out/flat.layer.json").read_bytes()
            changed = pool.request("PUT", f"{url}/admin/layers/flat", body=layer, headers=headers)
            assert changed.status == 204, changed.data
            data = pool.request("GET", url + MAP).data
            shown = np.asarray(Image.open(io.BytesIO(data)).convert("L"))[0, 0]
            assert shown == colour_of(number - 1)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert sum(seen.values()) > versions
    assert seen.keys() <= {colour_of(version) for version in range(versions)}
    removed = prune(OutputStore.of_directory(tmp_path / "out"), "flat", 1, linked_days=0).versions
    assert removed == versions - 1
    assert pool.request("GET", url + MAP).status == 200
