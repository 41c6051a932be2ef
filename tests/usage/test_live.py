"""A server with several workers: its usage is that of its access log, also after kills."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from tests.live.processes import Mastaba, changed, free_port, wait_until
from tests.tiny import tiny_installation

from mastaba_usage.database import Database
from mastaba_usage.meter import outcome

pytestmark = pytest.mark.live

REQUESTS = 10_000
KILLS = 3
PATHS = (
    "/tms/1.0.0/RGB_PNG/1/0/0.png",
    "/tms/1.0.0/RGB_PNG/1/1/1.png",
    "/tms/1.0.0/RGB_PNG/17/1/1.png",
    "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities",
    "/wms?SERVICE=WMS&REQUEST=GetMap",
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_PNG,GREY&STYLES=&CRS=CRS:84"
    "&BBOX=-10,-10,10,10&WIDTH=8&HEIGHT=8&FORMAT=image/png",
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=NOWHERE&STYLES=&CRS=CRS:84"
    "&BBOX=-10,-10,10,10&WIDTH=8&HEIGHT=8&FORMAT=image/png",
    "/nothing/here",
    "/",
)


def test_usage_is_the_access_log(tmp_path: Path) -> None:
    server_json = tiny_installation(tmp_path)
    services = tmp_path / "services.json"
    document = json.loads(services.read_text())
    services.write_text(json.dumps(document | {"usage": {}}))
    directory = tmp_path / "usage"
    logger = {
        "output": "static_file",
        "file_prefix": str(tmp_path / "log"),
        "level": "info",
        "format": "json",
        "access": "json",
    }
    settings = {"usage": {"directory": str(directory)}}
    copy = changed(server_json, tmp_path / "live.json", workers=4, logger=logger, plugins=settings)
    source = random.Random(1)
    with Mastaba(copy, tmp_path, http=free_port()) as server:
        for number in range(REQUESTS):
            if number % (REQUESTS // (KILLS + 1)) == REQUESTS // (KILLS + 2):
                # One that counts has a file.
                pids = {int(path.name.split("-")[3]) for path in directory.glob("*.cells")}
                victim = source.choice(sorted(pids & set(server.children())))
                os.kill(victim, signal.SIGKILL)
                wait_until(lambda gone=victim: gone not in server.children())
                wait_until(lambda: len(server.children()) >= server.workers)
            _ask(server.port, source.choice(PATHS))
        server.send(signal.SIGTERM)
        assert server.wait() == 0
    database = Database(directory)
    expected: Counter[str] = Counter()
    sizes = 0
    for line in (tmp_path / "log").read_text().splitlines():
        entry = json.loads(line)
        if "status" in entry:
            expected[outcome(entry["status"])] += 1
            sizes += entry["bytes"] or 0
    rows = database.sums("0000-00-00", "9999-99-99", ["status"])
    assert sum(expected.values()) > REQUESTS * 0.9
    # Lines that a killed worker had not written are missing in the log, hits are not.
    missing = sum(row["hits"] for row in rows) - sum(expected.values())
    assert 0 <= missing <= REQUESTS - sum(expected.values())
    names = {row["layer"] for row in database.sums("0000-00-00", "9999-99-99", ["layer"])}
    assert names == {"", "RGB_PNG", "unknown"}
    assert sizes > 0
    assert sys.platform == "linux"


def _ask(port: str, path: str) -> None:
    with suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection(port, timeout=60)
        connection.request("GET", path)
        connection.getresponse().read()
        connection.close()
