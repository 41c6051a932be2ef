"""Answers that grow with the request: bounded memory, and no work for clients that have gone."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from tests.elevation.conftest import Open, post
from tests.forked import Mastaba
from tests.support.ports import free_port
from werkzeug.test import Client, TestResponse

from mastaba.api.web import SizedBody
from mastaba_elevation.edr import written
from mastaba_elevation.queries import grids
from mastaba_server import body as server_body
from mastaba_server.web import large

CUBE = "/elevation/edr/collections/world/cube"
PATIENCE = 120.0
FORMATS = ("CoverageJSON", "GeoJSON", "CSV")


def cube(side: int, form: str) -> dict[str, Any]:
    return {"bbox": "-60,-40,60,40", "f": form, "resolution-x": side, "resolution-y": side}


def heights_of(response: TestResponse, form: str, data: bytes | None = None) -> np.ndarray:
    """Return the heights of an answer with their places, without those that are missing."""
    data = response.data if data is None else data
    if form == "GeoJSON":
        content = json.loads(data)
        assert content["numberReturned"] == len(content["features"])
        places = [item["geometry"]["coordinates"] for item in content["features"]]
        values = [item["properties"]["elevation"] for item in content["features"]]
        assert [place[2] for place in places] == values
        return np.array(places)
    if form == "CSV":
        rows = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
        return np.array([list(map(float, row.values())) for row in rows if row["elevation"]])
    content = json.loads(data)
    axes = [np.linspace(*content["domain"]["axes"][name].values()) for name in "xy"]
    x, y = np.meshgrid(*axes)
    values = np.array(content["ranges"]["elevation"]["values"], float)
    found = np.column_stack([x.ravel(), y.ravel(), values])
    return found[~np.isnan(values)]


def test_pieces_are_the_same_answer_in_each_format(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many heights are written at a time."""
    whole = {form: client.get(CUBE, query_string=cube(37, form)) for form in FORMATS}
    found = [heights_of(response, form) for form, response in whole.items()]
    assert len(found[0]) > 1000
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=0, atol=1e-9)
    for size in (1, 5, 37, 40, 1000):
        monkeypatch.setattr(written, "_VALUES", size)
        for form, response in whole.items():
            again = client.get(CUBE, query_string=cube(37, form))
            assert again.data == response.data, (form, size)
            assert again.headers["ETag"] == response.headers["ETag"]


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("form", FORMATS)
def test_large_answer_has_the_headers_of_a_small_one(
    client: Client, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(server_body, "IN_MEMORY", 1 << 16)
    query = cube(120, form)
    plain = client.get(CUBE, query_string=query)
    assert plain.status_code == 200
    assert len(plain.data) > server_body.IN_MEMORY
    assert plain.headers["Content-Length"] == str(len(plain.data))
    packed = client.get(CUBE, query_string=query, headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Content-Length"] == str(len(packed.data))
    assert gzip.decompress(packed.data) == plain.data
    assert packed.headers["ETag"] != plain.headers["ETag"]
    small = client.get(CUBE, query_string=cube(20, form))
    assert {name for name, _ in plain.headers} == {name for name, _ in small.headers}
    assert plain.headers["Content-Type"] == small.headers["Content-Type"]
    for response, more in ((plain, {}), (packed, {"Accept-Encoding": "gzip"})):
        for tag in (response.headers["ETag"], f'"x", W/{response.headers["ETag"]}', "*"):
            known = {"If-None-Match": tag, **more}
            again = client.get(CUBE, query_string=query, headers=known)
            assert (again.status_code, again.data) == (304, b"")
        other = client.get(CUBE, query_string=query, headers={"If-None-Match": '"x"', **more})
        assert other.status_code == 200


def test_large_answers_of_other_protocols_go_to_a_file_too(open_with: Open) -> None:
    client = open_with({"limits": {"points": 20_000}, "facades": {"google": True}})
    line = [[20 + k * 1e-3, 10.0] for k in range(20_000)]
    body = {"dataset": "world", "geometry": {"type": "MultiPoint", "coordinates": line}}
    response = post(client, "/elevation/points", body)
    assert len(response.data) > server_body.IN_MEMORY
    assert len(json.loads(response.data)["results"]) == len(line)
    same = post(client, "/elevation/points", body, headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(same.data) == response.data


LINE = [[-50 + k * 0.02, 10 + k % 2] for k in range(2500)]
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "profile of IGN": (
        "/elevation/1.0/calcul/alti/rest/elevationLine.json",
        {
            "resource": "stack",
            "lon": "|".join(str(place[0]) for place in LINE),
            "lat": "|".join(str(place[1]) for place in LINE),
            "sampling": 5000,
        },
    ),
    "profile of swisstopo": (
        "/elevation/rest/services/profile.json?sr=2154&nb_points=5000",
        {"type": "LineString", "coordinates": [[900100, 6599900], [901000, 6599000]]},
    ),
    "statistics as GeoJSON": (
        "/elevation/edr/collections/world/area",
        {
            "coords": "POLYGON(("
            + ",".join(f"{x} {y}" for x, y in [*LINE, (0, 80), LINE[0]])
            + "))",
            "stats": "true",
            "f": "GeoJSON",
        },
    ),
}


@pytest.mark.parametrize(("path", "body"), OTHERS.values(), ids=OTHERS)
def test_large_answers_go_to_a_file(
    client: Client, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    plain = post(client, path, body)
    assert plain.status_code in (200, 203), plain.data[:300]
    files = []
    spooled = large.spooled

    def noted(pieces: Any) -> Any:
        files.append(spooled(pieces))
        return files[-1]

    monkeypatch.setattr(large, "spooled", noted)
    monkeypatch.setattr(server_body, "IN_MEMORY", 1 << 15)
    again = post(client, path, body)
    assert again.data == plain.data
    assert len(again.data) > 1 << 15
    (file,) = files
    assert isinstance(file, SizedBody)
    packed = post(client, path, body, headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(packed.data) == plain.data
    assert len(files) == 2


class Leaving:
    """A client that hangs up after it was looked at some times."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def is_gone(self) -> bool:
        self.left -= 1
        return self.left < 0

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("form", FORMATS)
def test_work_ends_when_the_client_has_gone(
    client: Client, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(grids, "CHUNK", 1000)
    sampled, pieces = [], []
    real, write = grids.np.meshgrid, written.heights_json

    def sampling(*axes: Any) -> Any:
        sampled.append(1)
        return real(*axes)

    def writing(*given: Any) -> bytes:
        pieces.append(1)
        return write(*given)

    monkeypatch.setattr(grids.np, "meshgrid", sampling)
    monkeypatch.setattr(written, "heights_json", writing)
    monkeypatch.setattr(written, "_VALUES", 1000)

    def ask(looks: int) -> int:
        sampled.clear()
        pieces.clear()
        overrides = {"mastaba.client": Leaving(looks)}
        return client.get(
            CUBE, query_string=cube(100, form), environ_overrides=overrides
        ).status_code

    assert ask(10**6) == 200
    whole = len(sampled), len(pieces)
    assert whole[0] >= 10
    assert whole[1] >= 10
    assert ask(5) == 499
    assert len(sampled) < whole[0]
    assert len(pieces) == 0
    looks = 10**6
    # Later, while the text is written.
    for looks in range(5, 200):
        if ask(looks) == 200 or pieces:
            break
    assert ask(looks) == 499
    assert 0 < len(pieces) < whole[1]


@pytest.mark.parametrize("path", ["points", "statistics"])
def test_other_queries_end_when_the_client_has_gone(client: Client, path: str) -> None:
    ring = [[-60, -40], [60, -40], [60, 40], [-60, 40], [-60, -40]]
    kind, places = ("Polygon", [ring]) if path == "statistics" else ("MultiPoint", ring)
    body = {"dataset": "world", "geometry": {"type": kind, "coordinates": places}}
    overrides = {"mastaba.client": Leaving(0)}
    response = post(client, f"/elevation/{path}", body, environ_overrides=overrides)
    assert response.status_code == 499


class Server:
    """A server with one worker over HTTP."""

    def __init__(self, server_json: Path, folder: Path) -> None:
        self.port = free_port()
        document = json.loads(server_json.read_text("utf-8"))
        document.update(workers=1, threads=4)
        server_json.write_text(json.dumps(document), "utf-8")
        variables = {"TMPDIR": str(folder)}
        arguments = ("-f", str(server_json), "--http", f"127.0.0.1:{self.port}")
        self.process = Mastaba(*arguments, variables=variables)
        self.wait_until(lambda: len(self._workers()) == 1 and self._accepts())
        (self.worker,) = self._workers()

    def memory(self) -> int:
        """Return the memory that the worker alone uses, bytes."""
        text = Path(f"/proc/{self.worker}/smaps_rollup").read_text("ascii")
        found = re.search(r"^Pss_Anon: +([0-9]+) kB", text, re.MULTILINE)
        assert found
        return int(found[1]) * 1024

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.worker}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def asked(self, query: dict[str, Any]) -> socket.socket:
        """Send a request, and return the connection without having read anything."""
        connection = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        path = f"{CUBE}?{urlencode(query)}"
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return connection

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None
            assert time.monotonic() < deadline, "the condition did not become true in time"
            time.sleep(0.02)

    def _workers(self) -> list[str]:
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        return Path(children).read_text("ascii").split()

    def _accepts(self) -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def server(write: Callable[..., Path], tmp_path: Path) -> Iterator[Server]:
    started = Server(write({}), tmp_path)
    yield started
    started.process.terminate()
    assert started.process.wait(PATIENCE) == 0


@pytest.mark.thorough
def test_twelve_unread_answers_take_little_memory(server: Server) -> None:
    """Each has 25 MB. They once were kept until the client had read them."""
    with ExitStack() as stack:
        connections: list[socket.socket] = []
        before = 0
        # The first ones load modules, and fill caches and the memory of the threads.
        for number in range(18):
            if number == 6:
                before = server.memory()
            connections.append(stack.enter_context(server.asked(cube(300, "GeoJSON"))))
            assert connections[-1].recv(12) == b"HTTP/1.1 200"
        # Kept in memory, they would take 300 MB.
        assert server.memory() - before < 180 * 1024**2
        # The whole answer is still there.
        with connections[0].makefile("rb") as file:
            lines = iter(file.readline, b"\r\n")
            fields = dict(line.split(b": ") for line in lines if b": " in line)
            data = file.read(int(fields[b"Content-Length"]))
        assert len(json.loads(data)["features"]) > 50_000


@pytest.mark.thorough
def test_clients_that_leave_cost_no_more_work(server: Server) -> None:
    with server.asked(cube(600, "GeoJSON")) as whole:
        begun = server.processor_seconds()
        assert whole.recv(12) == b"HTTP/1.1 200"
        cost = server.processor_seconds() - begun
    begun = server.processor_seconds()
    for _ in range(10):
        server.asked(cube(600, "GeoJSON")).close()
    # A request that is answered later has waited for them.
    with server.asked(cube(2, "CSV")) as last:
        assert last.recv(12) == b"HTTP/1.1 200"
    assert server.processor_seconds() - begun < 5 * cost
