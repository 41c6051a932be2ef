"""The counters and the text format for Prometheus."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.forked import Mastaba
from tests.support.ports import free_port
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.plugins.manager import Plugins
from mastaba_metrics.middleware import counting
from mastaba_metrics.table import BOUNDS, table_of
from mastaba_server.processes.scoreboard import Scoreboard
from mastaba_storage.file import FileStorage

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

TILE = "/tms/1.0.0/RGB_JPG/4/9/5.jpeg"
KVP = (
    "/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER=RGB_JPG&STYLE=normal&FORMAT=image/jpeg"
    "&TILEMATRIXSET=PM&TILEMATRIX=4&TILEROW=5&TILECOL=9"
)
MAP = (
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_JPG&STYLES=&CRS=EPSG:3857"
    "&BBOX=0,0,5000000,5000000&WIDTH=64&HEIGHT=64&FORMAT=image/jpeg"
)
# Seconds. Nothing here is slow: a wait this long means failure.
PATIENCE = 120


def parsed(text: str) -> Samples:
    """Return the samples of a page by name (as on the page) and labels."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0.0)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write_installation(*services: str, **options: Any) -> Path:
        names = (*(services or ("health", "tms", "wmts", "wms")), "metrics")
        return tiny_installation(tmp_path / "installation", services=names, **options)

    return write_installation


@pytest.fixture
def client(write: Callable[..., Path], open_client: Callable[[Path], Client]) -> Client:
    return open_client(write())


def samples_of(client: Client) -> Samples:
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.content_type == "text/plain; version=0.0.4; charset=utf-8"
    return parsed(response.text)


def test_plugin_is_installed() -> None:
    infos = {info.name: info for info in Plugins().listing()}
    assert infos["metrics"].distribution == "mastaba-metrics"
    assert infos["metrics"].provides == ("service metrics", "middleware")


def test_without_the_service_there_is_no_middleware(
    write: Callable[..., Path], open_client: Callable[[Path], Client], tmp_path: Path
) -> None:
    site = open_client(tiny_installation(tmp_path / "other", services=["tms"])).application.site
    assert site.plugins.middleware(site) == []
    assert site.catalogue.storages.measured is None


def test_requests_by_service_operation_and_status(client: Client) -> None:
    size = 0
    for path in (TILE, TILE, KVP, "/tms/1.0.0/nowhere/4/9/5.jpeg", "/elsewhere", "/"):
        for _ in range(2):
            body = client.get(path).data
            size += len(body) if path == TILE else 0
    samples = samples_of(client)
    tiles = {"service": "tms", "operation": "gettile"}
    assert value(samples, "mastaba_requests_total", **tiles, status="200") == 4
    assert value(samples, "mastaba_requests_total", **tiles, status="404") == 2
    assert value(samples, "mastaba_response_bytes_total", **tiles) > size
    count = {"service": "wmts", "operation": "gettile", "status": "200"}
    assert value(samples, "mastaba_requests_total", **count) == 2
    nothing = {"service": "none", "operation": "other", "status": "404"}
    assert value(samples, "mastaba_requests_total", **nothing) == 2
    root = {"service": "root", "operation": "other", "status": "200"}
    assert value(samples, "mastaba_requests_total", **root) == 2


def test_the_duration_histogram_is_consistent(client: Client) -> None:
    for _ in range(10):
        client.get(TILE)
    samples = samples_of(client)
    name, labels = "mastaba_request_duration_seconds", {"service": "tms", "operation": "gettile"}
    bounds = [*map(repr, BOUNDS), "+Inf"]
    counts = [value(samples, f"{name}_bucket", **labels, le=bound) for bound in bounds]
    assert counts == sorted(counts)
    assert counts[-1] == value(samples, f"{name}_count", **labels) == 10
    assert value(samples, f"{name}_sum", **labels) > 0


def test_caches_and_storages(client: Client) -> None:
    before = samples_of(client)

    def grown(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    for _ in range(5):
        assert client.get(TILE).status_code == 200
    after = samples_of(client)
    assert grown("mastaba_index_cache_requests_total", result="hit") == 4
    assert grown("mastaba_index_cache_requests_total", result="miss") == 1
    # One read of the index and five of the tile.
    assert grown("mastaba_storage_reads_total", storage="file") == 6
    assert grown("mastaba_storage_errors_total", storage="file") == 0
    before = after
    # A part of a tile is decoded first; the tile is cached when it is needed again.
    for _ in range(2):
        assert client.get(MAP).status_code == 200
    after = samples_of(client)
    assert grown("mastaba_decoded_cache_requests_total", result="miss") > 0
    before = after
    assert client.get(MAP).status_code == 200
    after = samples_of(client)
    assert grown("mastaba_decoded_cache_requests_total", result="miss") == 0
    assert grown("mastaba_decoded_cache_requests_total", result="hit") > 0
    assert value(after, "mastaba_decoded_cache_bytes") > 0


def test_storage_errors_are_counted_and_absent_objects_are_not_errors(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mastaba.errors import ObjectNotFoundError, StorageUnavailableError

    failure: list[Exception] = []

    def read(*_: Any) -> None:
        raise failure[0]

    (storage,) = {
        id(reader.storage): reader.storage
        for readers in client.application.site.catalogue.readers.values()
        for reader in readers.values()
    }.values()
    assert isinstance(storage._storage, FileStorage)
    monkeypatch.setattr(storage._storage, "read", read)
    errors = []
    for error in (ObjectNotFoundError("x"), StorageUnavailableError("x")):
        failure[:] = [error]
        client.get(TILE)
        errors.append(value(samples_of(client), "mastaba_storage_errors_total", storage="file"))
    assert errors == [0, 1]


def test_the_state_of_the_server(client: Client) -> None:
    samples = samples_of(client)
    assert value(samples, "mastaba_layers") == 9
    assert value(samples, "mastaba_layers_missing") == 0
    assert value(samples, "mastaba_layers_outdated") == 0
    assert value(samples, "mastaba_services_enabled") == 1
    assert value(samples, "mastaba_workers") == 1
    assert value(samples, "mastaba_reloads_total") == 0


def test_requests_in_progress_occupy_threads(
    write: Callable[..., Path], open_client: Callable[[Path], Client]
) -> None:
    client = open_client(write(server_overrides={"threads": 4}))
    scoreboard = client.application.site.scoreboard
    rows = [scoreboard.begin(), scoreboard.begin()]
    samples = samples_of(client)
    assert value(samples, "mastaba_threads") == 4
    assert value(samples, "mastaba_threads_busy") == 2
    for row in rows:
        scoreboard.end(row)
    assert value(samples_of(client), "mastaba_threads_busy") == 0


def test_metrics_are_available_while_services_are_turned_off(
    write: Callable[..., Path], open_client: Callable[[Path], Client]
) -> None:
    client = open_client(write(services_overrides={"enabled": False}))
    assert client.get(TILE).status_code == 503
    samples = samples_of(client)
    assert value(samples, "mastaba_services_enabled") == 0
    labels = {"service": "tms", "operation": "other", "status": "503"}
    assert value(samples, "mastaba_requests_total", **labels) == 1


def test_a_path_below_the_root_path_gives_404(client: Client) -> None:
    assert client.get("/metrics/x").status_code == 404


def test_the_number_of_labels_is_bounded(client: Client) -> None:
    for number in range(50):
        client.get(f"/x{number}")
        client.get(f"/wms?SERVICE=WMS&REQUEST=x{number}")
        client.get(f"/tms/{number}/a")
        client.open("/tms", method=f"M{number}")
    keys = samples_of(client)
    pairs = {labels for name, labels in keys if name == "mastaba_response_bytes_total"}
    assert len(pairs) <= 4


@pytest.mark.parametrize(
    ("service", "address", "expected"),
    [
        ("wms", "?SERVICE=WMS&REQUEST=GetMap&X=1", "getmap"),
        ("wms", "?request=getmap", "getmap"),
        ("wms", "?a=b&rEqUeSt=GETFEATUREINFO", "getfeatureinfo"),
        ("wms", "?SERVICE=WMS&REQUEST=Nonsense", "other"),
        ("wms", "", "other"),
        ("wmts", "?SERVICE=WMTS&REQUEST=GetTile", "gettile"),
        ("wmts", "/1.0.0/L/s/PM/4/5/9.jpeg", "gettile"),
        ("wmts", "/1.0.0/L/s/PM/4/5/9/1/2.json", "getfeatureinfo"),
        ("wmts", "/1.0.0/WMTSCapabilities.xml", "getcapabilities"),
        ("tms", "/1.0.0/L/4/9/5.jpeg?a=b", "gettile"),
        ("tms", "/1.0.0/L", "getcapabilities"),
        ("ogcapi", "/collections/L/map/tiles/PM/4/5/9?f=png", "gettile"),
        ("ogcapi", "/collections/L/styles/s/map", "getmap"),
        ("ogcapi", "/collections", "getcapabilities"),
        ("health", "/live", "other"),
    ],
)
def test_operations(
    write: Callable[..., Path],
    open_client: Callable[[Path], Client],
    service: str,
    address: str,
    expected: str,
) -> None:
    """Each service names its own, also of requests that it refuses."""
    client = open_client(write("health", "tms", "wmts", "wms", "ogcapi"))
    root = "/healthcheck" if service == "health" else f"/{service}"
    client.get(root + address)
    counted = {
        dict(labels)["operation"]
        for name, labels in samples_of(client)
        if name == "mastaba_response_bytes_total" and dict(labels)["service"] == service
    }
    assert counted == {expected}


# Several worker processes


class Server:
    """A server with three workers over HTTP."""

    def __init__(self, server_json: Path) -> None:
        self.port = free_port()
        document = json.loads(server_json.read_text("utf-8"))
        document.update(workers=3, threads=2, debug=True)
        server_json.write_text(json.dumps(document), "utf-8")
        self.process = Mastaba("-f", str(server_json), "--http", f"127.0.0.1:{self.port}")
        self.wait_until(self._accepts)

    def get(self, path: str) -> tuple[str, str]:
        """Send a request on a new connection; return the process that answered and the text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            assert response.status == 200
            return response.getheader("X-Mastaba-Worker") or "", response.read().decode("latin-1")
        finally:
            connection.close()

    def samples(self) -> Samples:
        return parsed(self.get("/metrics")[1])

    def tiles(self) -> float:
        labels = {"service": "tms", "operation": "gettile", "status": "200"}
        return value(self.samples(), "mastaba_requests_total", **labels)

    def children(self) -> set[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return {int(pid) for pid in path.read_text("ascii").split()}

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None
            assert time.monotonic() < deadline, "the condition did not become true in time"
            time.sleep(0.02)

    def _accepts(self) -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def server(write: Callable[..., Path]) -> Iterator[Server]:
    started = Server(write("health", "tms"))
    yield started
    started.process.terminate()
    assert started.process.wait(PATIENCE) == 0


@pytest.mark.thorough
def test_each_worker_reports_the_counters_of_all(server: Server) -> None:
    workers = set()
    for _ in range(200):
        workers.add(server.get(TILE)[0])
    while len(workers) < 3:
        workers.add(server.get("/healthcheck")[0])
    reporters = set()
    while len(reporters) < 3:
        pid, text = server.get("/metrics")
        reporters.add(pid)
        labels = {"service": "tms", "operation": "gettile", "status": "200"}
        assert value(parsed(text), "mastaba_requests_total", **labels) == 200
    samples = server.samples()
    assert value(samples, "mastaba_workers") == 3
    assert value(samples, "mastaba_threads") == 6
    # The request for the page is not counted.
    assert value(samples, "mastaba_threads_busy") == 0

    # Each worker publishes its cache counters once a second. The debug header needs no further
    # look-up.
    def all_lookups_are_counted() -> bool:
        samples = server.samples()
        name = "mastaba_index_cache_requests_total"
        return value(samples, name, result="hit") + value(samples, name, result="miss") == 200

    server.wait_until(all_lookups_are_counted)


def test_counters_survive_worker_restarts_and_reloads(server: Server) -> None:
    for _ in range(50):
        server.get(TILE)
    before = server.children()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    server.wait_until(lambda: len(server.children()) == 3 and not server.children() & before)
    for _ in range(50):
        server.get(TILE)
    assert server.tiles() == 100

    before = server.children()
    server.process.send_signal(signal.SIGHUP)
    server.wait_until(lambda: not server.children() & before)
    for _ in range(50):
        server.get(TILE)
    assert server.tiles() == 150
    samples = server.samples()
    assert value(samples, "mastaba_reloads_total") == 1
    assert value(samples, "mastaba_workers") == 3


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_children_do_not_count_what_their_parent_counted(client: Client) -> None:
    """A supervisor reads descriptors, before and between the forks of its workers."""
    site = client.application.site
    scoreboard = Scoreboard(workers=2, threads=1)
    counting(replace(site, scoreboard=scoreboard))
    table = table_of(site=replace(site, scoreboard=scoreboard))
    indices = site.catalogue.indices
    indices.hits += 4
    table.sample()
    for number in (1, 2):
        child = os.fork()
        if child == 0:
            try:
                scoreboard.bind_worker(number - 1)
                indices.hits += 10 * number
                table.sample()
                indices.hits += 100
                table.sample()
            finally:
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        indices.hits += 7
    assert [table.process_sum("index_hits", [slot]) for slot in range(3)] == [110, 120, 4]
    table.sample()
    assert table.process_sum("index_hits") == 110 + 120 + 4 + 14


COMPARING = """
from mastaba import hookimpl
from mastaba.services.base import Service
from mastaba_server.web.response import message


class Comparing(Service):
    name, title, operations = "comparing", "Comparing", ("compare",)

    def respond(self, request):
        request.name_operation("compare" if request.path else "gettile")
        return message(200, "here", "text/plain")

    def error_response(self, error, request):
        return message(500, "error", "text/plain")

    def gauges(self):
        return {"pairs": {"waiting": 3, "compared": 4}}


@hookimpl
def register_services():
    return [Comparing]
"""


def test_operations_and_gauges_of_a_service(
    tmp_path: Path,
    write: Callable[..., Path],
    open_client: Callable[[Path], Client],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = tmp_path / "plugins"
    directory.mkdir()
    (directory / "comparing.py").write_text(COMPARING)
    monkeypatch.setenv("MASTABA_PLUGINS_DIR", str(directory))
    client = open_client(write("tms", services_overrides={"comparing": {"enabled": True}}))
    for path in ("/comparing/a", "/comparing/b?REQUEST=GetMap", "/comparing", TILE):
        assert client.get(path).status_code == 200
    samples = samples_of(client)
    for service, operation_name, count in (
        ("comparing", "compare", 2),
        ("comparing", "gettile", 1),
        ("tms", "gettile", 1),
    ):
        labels = {"service": service, "operation": operation_name, "status": "200"}
        assert value(samples, "mastaba_requests_total", **labels) == count
    # A metric takes one method of its service, and nothing elsewhere.
    assert value(samples, "mastaba_comparing_pairs", kind="waiting") == 3
    assert value(samples, "mastaba_comparing_pairs", kind="compared") == 4
