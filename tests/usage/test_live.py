"""A server with several workers: its usage is that of its access log, also after kills."""

from __future__ import annotations

import http.client
import inspect
import json
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.live.processes import Mastaba, changed, free_port, wait_until
from tests.sizes import sized
from tests.tiny import tiny_installation

from mastaba_server.log.access_lines import AccessLines
from mastaba_usage.database import Database
from mastaba_usage.meter import outcome
from mastaba_usage.roll_up import roll_up

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        "meters" not in inspect.signature(AccessLines).parameters,
        reason="the core calls no meters",
    ),
]

REQUESTS = sized(1500, 10_000)
KILLS = 3
UNWRITTEN = 20
"""Requests before a kill whose lines need not be written yet."""
PATHS = (
    "/tms/1.0.0/RGB_PNG/3/4/2.png",
    "/tms/1.0.0/RGB_PNG/3/5/3.png",
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
    section = {"enabled": True, "endpoint_uri": "http://localhost/usage", "root_path": "/usage"}
    services.write_text(json.dumps(document | {"usage": section}))
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
    received: Counter[str] = Counter()
    kills = [REQUESTS * part // (KILLS + 1) for part in range(1, KILLS + 1)]
    # What a killed worker had answered in its last moments may be in no line.
    unsure = {number for kill in kills for number in range(kill - UNWRITTEN, kill)}
    # With a query, a tile is no longer one of the table. Its line has no number.
    asked: set[int] = set()
    size = failed = 0
    with Mastaba(copy, tmp_path, http=free_port()) as server:
        for number in range(REQUESTS):
            if number + UNWRITTEN in kills:
                wait_until(lambda sure=asked - unsure: sure <= _numbers(tmp_path))
            if number in kills:
                # One that has counted has a file.
                wait_until(lambda: bool(_counting(directory, server)))
                victim = source.choice(sorted(_counting(directory, server)))
                os.kill(victim, signal.SIGKILL)
                wait_until(lambda gone=victim: gone not in server.children())
                wait_until(lambda: len(server.children()) >= server.workers)
            path = source.choice(PATHS)
            if not path.startswith("/tms"):
                path += f"{'&' if '?' in path else '?'}number={number}"
                asked.add(number)
            answer = _ask(server.port, path)
            if answer is None:
                failed += 1
                unsure.add(number)
            else:
                received[outcome(answer[0])] += 1
                size += answer[1]
        server.send(signal.SIGTERM)
        assert server.wait() == 0
    database = Database(directory)
    # Workers that ended after the last one that added left their files.
    roll_up(directory, database)
    assert not list(directory.glob("*.cells"))
    rows = list(database.sums("0000-00-00", "9999-99-99", ["status"]))
    hits = {row["status"]: row["hits"] for row in rows}
    assert sum(received.values()) + failed == REQUESTS
    assert failed <= KILLS
    assert all(hits.get(status, 0) >= count for status, count in received.items())
    # What a killed worker counted, but did not send.
    assert sum(hits.values()) <= REQUESTS
    largest = 1024**2
    assert 0 <= sum(row["bytes"] for row in rows) - size <= failed * largest
    assert asked - unsure <= _numbers(tmp_path)
    # The hits of a killed worker are not lost.
    logged = Counter(outcome(line["status"]) for line in _lines(tmp_path))
    assert all(hits[status] >= count for status, count in logged.items())
    (stored,) = database.sums(
        "0000-00-00", "9999-99-99", ["service", "layer"], {"ability": "tiles"}
    )
    assert (stored["service"], stored["layer"]) == ("tms", "RGB_PNG")
    names = {row["layer"] for row in database.sums("0000-00-00", "9999-99-99", ["layer"])}
    assert names == {"", "RGB_PNG", "unknown"}


def _lines(folder: Path) -> list[dict[str, Any]]:
    # The last line may be half written.
    text = (folder / "log").read_text().rpartition("\n")[0]
    return [line for line in map(json.loads, text.splitlines()) if "status" in line]


def _numbers(folder: Path) -> set[int]:
    """Return the numbers of the requests that the log contains."""
    found = (line["query"].rpartition("number=")[2] for line in _lines(folder))
    return {int(number) for number in found if number}


def _counting(directory: Path, server: Mastaba) -> set[int]:
    """Return the workers that have counted a request."""
    pids = {int(path.name.split("-")[3]) for path in directory.glob("*.cells")}
    return pids & set(server.children())


def _ask(port: str, path: str) -> tuple[int, int] | None:
    """Return the status and the bytes of an answer; None if there is none."""
    connection = http.client.HTTPConnection(port, timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, len(response.read())
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
