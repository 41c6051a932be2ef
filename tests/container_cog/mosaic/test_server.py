"""A server with two workers whose table changes while clients ask."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest
from tests.container_cog.files import ground
from tests.container_cog.mosaic.test_replacement import later
from tests.container_cog.mosaic.test_services import SIZE, entry, quarters
from tests.container_cog.served import COL, ROW, add_layer
from tests.support.ports import free_port
from tests.tiny import tiny_installation

pytestmark = pytest.mark.thorough


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@contextmanager
def served(server: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    document = json.loads(server.read_text())
    server.write_text(json.dumps(document | {"workers": 2, "threads": 4}))
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "mastaba", "-f", str(server), "--http", address]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            assert later(lambda: status(f"http://{address}/healthcheck/ready") == 200, 120)
            yield f"http://{address}/tms/1.0.0/MOSAIC/4/{{}}/{{}}.jpg", process
        finally:
            process.terminate()


def written(folder: Path, refresh: int) -> tuple[Path, dict[str, object]]:
    """Write a mosaic whose last file is not in the table; return server.json and the table."""
    quarters(folder, ground("uint8", 3, SIZE), COMPRESS="JPEG", OVERVIEWS="NONE")
    document = json.loads((folder / "table.json").read_text())
    features = document["features"]
    (folder / "table.json").write_text(json.dumps({**document, "features": features[:3]}))
    server = tiny_installation(folder / "site")
    options = {"tile_matrix_set": "PM", "refresh": refresh}
    add_layer(folder / "site", "MOSAIC", entry(folder / "table.json", **options))
    return server, document


def replace(folder: Path, document: dict[str, object]) -> None:
    (folder / "new").write_text(json.dumps(document))
    (folder / "new").rename(folder / "table.json")


def test_a_row_is_served_without_a_failed_request(tmp_path: Path) -> None:
    server, document = written(tmp_path, 1)
    with served(server) as (url, _):
        known, new = url.format(COL, ROW), url.format(COL + 3, ROW + 3)
        assert {status(known), status(new)} == {200, 404}
        stop = threading.Event()

        def asking(_: int) -> list[int]:
            found = []
            while not stop.is_set():
                found.append(status(known))
            return found

        with ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(asking, number) for number in range(4)]
            sleep(2)
            replace(tmp_path, document)
            begun = monotonic()
            # Each worker has its own table.
            assert later(lambda: all(status(new) == 200 for _ in range(8)), 60)
            print(f"a new row is served by all workers after {monotonic() - begun:.1f} s")
            stop.set()
            answers = [one for client in clients for one in client.result()]
        assert set(answers) == {200}


def test_a_reload_looks_at_the_table_at_once(tmp_path: Path) -> None:
    server, document = written(tmp_path, 3600)
    with served(server) as (url, process):
        new = url.format(COL + 3, ROW + 3)
        replace(tmp_path, document)
        assert status(new) == 404
        process.send_signal(signal.SIGHUP)
        assert later(lambda: status(new) == 200, 60)
