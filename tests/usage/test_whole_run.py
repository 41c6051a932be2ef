"""Usage is the access log, line by line, through reloads and kills; so is the log of the front."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.access.identification.conftest import Credentials
from tests.live.pipeline import Asked, Pipeline
from tests.live.processes import Mastaba, Process, accepts, changed, free_port, program, wait_until
from tests.sizes import sized
from tests.tiny import tiny_installation

from mastaba.commands.main import main
from mastaba_usage.database import Database
from mastaba_usage.meter import outcome
from mastaba_usage.roll_up import roll_up

pytestmark = [pytest.mark.live, pytest.mark.timeout(14_400)]

REQUESTS = sized(4_000, 1_000_000)
REQUESTS_WITH_KILLS = sized(3_000, 1_000_000)
CLIENTS = 4
AT_ONCE = 16
"""Requests that a client sends before it reads the answers."""
RELOADS = 4
KILLS = 10
EVER = ("0000-00-00", "9999-99-99")
RULES = {
    "default": "deny",
    "rules": [
        {"name": "open", "what": {"layers": ["RGB_JPG"]}, "allow": {}},
        {"name": "partners", "who": ["group:partners"], "allow": {}},
    ],
}
MAP = "SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&CRS=CRS:84&BBOX=-9,-9,9,9&WIDTH=8&HEIGHT=8"
HIDDEN = "RGB_PNG"
"""A layer that the public may not see."""
# Addresses with the place of a key, their services and layers.
ASKED = (
    ("/tms{}/1.0.0/RGB_PNG/3/4/2.png", "tms", "RGB_PNG"),
    ("/tms{}/1.0.0/RGB_PNG/4/9/6.png", "tms", "RGB_PNG"),
    ("/tms{}/1.0.0/RGB_JPG/3/4/2.jpg", "tms", "RGB_JPG"),
    ("/tms{}/1.0.0/RGB_PNG/17/1/1.png", "tms", "RGB_PNG"),
    ("/tms{}", "tms", ""),
    ("/wmts{}?SERVICE=WMTS&REQUEST=GetCapabilities", "wmts", ""),
    (f"/wms{{}}?{MAP}&LAYERS=RGB_JPG&FORMAT=image/png", "wms", "RGB_JPG"),
    (f"/wms{{}}?{MAP}&LAYERS=NOWHERE&FORMAT=image/png", "wms", "unknown"),
    ("/nothing/here", "", ""),
)
NGINX = """daemon off; user root; worker_processes 2; pid {folder}/nginx.pid;
error_log {folder}/nginx.error;
events {{ worker_connections 512; }}
http {{
  access_log {folder}/front.log combined;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  upstream mastaba {{ server 127.0.0.1:{server}; keepalive 16; }}
  server {{
    listen 127.0.0.1:{port}; keepalive_requests 100000000;
    location / {{
      proxy_pass http://mastaba; proxy_http_version 1.1;
      proxy_set_header Connection ""; proxy_next_upstream off;
    }}
  }}
}}
"""

Cell = tuple[str, str, str, str]
Sums = dict[Cell, tuple[int, int]]


class Answer(NamedTuple):
    """What a client asked and got; status 0 for no answer."""

    cell: Cell
    status: int
    size: int


class Run:
    """A server with four workers, keys and rules, and what clients got from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.credentials = Credentials(folder)
        keys = [self.credentials.key(groups=["partners"], label=f"Partner {n}") for n in range(2)]
        # Public ids are the eight characters behind the prefix.
        self.keys = {key: key.removeprefix("mk_")[:8] for key in keys}
        (folder / "rules.json").write_text(json.dumps(RULES))
        installation = tiny_installation(folder / "installation")
        services = installation.parent / "services.json"
        own = {"enabled": True, "endpoint_uri": "http://localhost/usage", "root_path": "/usage"}
        services.write_text(json.dumps(json.loads(services.read_text()) | {"usage": own}))
        self.directory = folder / "usage"
        access = {"rules": str(folder / "rules.json"), **self.credentials.section()}
        self.server_json = changed(
            installation,
            folder / "server.json",
            workers=4,
            logger={
                "output": "static_file",
                "file_prefix": str(folder / "log"),
                "level": "info",
                "format": "json",
                "access": "json",
            },
            plugins={"access": access, "usage": {"directory": str(self.directory)}},
        )
        self.answers: list[Answer] = []
        self._done = 0

    def _questions(self, count: int, seed: int) -> Iterator[tuple[Cell, str]]:
        """Yield what one of the clients asks."""
        source, wanted = random.Random(seed), ["", *self.keys]
        for _ in range(count):
            path, service, layer = source.choice(ASKED)
            key = source.choice(wanted) if service else ""
            client = self.keys.get(key, "anonymous")
            cell = service, counted_as(layer, client), client, ""
            yield cell, path.format(f"/~{key}" if key else "")

    def ask(self, port: int, count: int, seed: int) -> None:
        """Send requests on one connection, as one of the clients; several are on their way."""
        questions, found = self._questions(count, seed), []
        pipeline = Pipeline(f"http://127.0.0.1:{port}")
        while asked := list(islice(questions, AT_ONCE)):
            pipeline.send(Asked(target) for _, target in asked)
            for (cell, _), answer in zip(asked, pipeline.receive(), strict=True):
                found.append(Answer(cell, answer.status, len(answer.body)))
            self._done += len(asked)
        pipeline.close()
        self.answers += found

    def ask_one_by_one(self, port: int, count: int, seed: int) -> None:
        """Send requests to a server whose workers are killed; not all are answered."""
        found = []
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for cell, target in self._questions(count, seed):
            try:
                connection.request("GET", target)
                response = connection.getresponse()
                found.append(Answer(cell, response.status, len(response.read())))
            except (OSError, http.client.HTTPException):
                connection.close()
                found.append(Answer(cell, 0, 0))
            self._done += 1
        connection.close()
        self.answers += found

    def go(self, port: int, count: int, server: Mastaba, *, kills: int, reloads: int) -> None:
        """Send requests with all clients while workers are killed and the server reloads."""
        ask = self.ask_one_by_one if kills else self.ask
        clients = [
            threading.Thread(target=ask, args=(port, count // CLIENTS, seed))
            for seed in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        events = [True] * kills + [False] * reloads
        random.Random(7).shuffle(events)
        for number, is_kill in enumerate(events, 1):
            wait_until_long(lambda at=number: self._done >= count * at // (len(events) + 1))
            if is_kill:
                self._kill(server)
            else:
                server.send(signal.SIGHUP)
        for client in clients:
            client.join()

    def _kill(self, server: Mastaba) -> None:
        counting: set[int] = set()

        def some() -> bool:
            counting.update(int(path.name.split("-")[3]) for path in self.directory.glob("*.cells"))
            counting.intersection_update(server.children())
            return bool(counting)

        wait_until(some)
        victim = sorted(counting)[0]
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: victim not in server.children())

    def counted(self) -> Sums:
        """Return what was counted, once the server has ended."""
        database = Database(self.directory)
        roll_up(self.directory, database)
        assert not list(self.directory.glob("*.cells"))
        return summed(database)

    def received(self) -> Sums:
        """Return what clients got."""
        return sums_of(
            ((*one.cell[:3], outcome(one.status)), one.size) for one in self.answers if one.status
        )

    def logged(self) -> Sums:
        """Return what the access log says."""
        meaning = {
            path.format("").partition("?")[0]: (service, layer) for path, service, layer in ASKED
        }

        def lines() -> Iterable[tuple[Cell, int]]:
            for text in (self.folder / "log").read_text().splitlines():
                line = json.loads(text)
                if "status" not in line:
                    continue
                service, layer = meaning[line["path"]]
                if service == "wms":
                    layer = "unknown" if "NOWHERE" in line["query"] else "RGB_JPG"
                key = "anonymous" if line["key"] == "-" else line["key"]
                cell = service, counted_as(layer, key), key, outcome(line["status"])
                yield cell, line["bytes"] or 0

        return sums_of(lines())


def counted_as(layer: str, key: str) -> str:
    """Return the layer in the tables of a client, which name none that it may not see."""
    return "" if layer == HIDDEN and key == "anonymous" else layer


def wait_until_long(condition: Any) -> None:
    while not condition():
        threading.Event().wait(0.02)


def summed(database: Database) -> Sums:
    rows = database.sums(*EVER, ["service", "layer", "key", "status"])
    return {
        (row["service"], row["layer"], row["key"], row["status"]): (row["hits"], row["bytes"])
        for row in rows
        if row["hits"]
    }


def sums_of(hits: Iterable[tuple[Cell, int]]) -> Sums:
    counts: Counter[Cell] = Counter()
    sizes: Counter[Cell] = Counter()
    for cell, size in hits:
        counts[cell] += 1
        sizes[cell] += size
    return {cell: (count, sizes[cell]) for cell, count in counts.items()}


def test_usage_the_access_log_and_the_log_of_the_front_are_equal(tmp_path: Path) -> None:
    run, behind, port = Run(tmp_path), free_port(), free_port()
    (tmp_path / "nginx.conf").write_text(
        NGINX.format(folder=tmp_path, server=behind, port=port), encoding="ascii"
    )
    command = [program("nginx", "nginx"), "-p", tmp_path, "-c", tmp_path / "nginx.conf"]
    with ExitStack() as stack:
        server = stack.enter_context(Mastaba(run.server_json, tmp_path, http=behind))
        front = stack.enter_context(Process("nginx", command, tmp_path))
        front.wait_for(lambda: accepts(f"127.0.0.1:{port}"))
        run.go(port, REQUESTS, server, kills=0, reloads=RELOADS)
        server.send(signal.SIGTERM)
        assert server.wait() == 0
    received = run.received()
    assert sum(hits for hits, _ in received.values()) == REQUESTS // CLIENTS * CLIENTS
    assert len({cell[2] for cell in received}) == 1 + len(run.keys)
    counted = run.counted()
    assert counted == received
    assert counted == run.logged()
    log = str(tmp_path / "front.log")
    assert main(["usage", "-f", str(run.server_json), "import", "--format", "nginx", log]) == 0
    assert summed(Database(run.directory)) == received
    labels = Database(run.directory).sums(*EVER, ["label"])
    assert {row["label"] for row in labels} == {"", "Partner 0", "Partner 1"}


def test_killed_workers_lose_one_request_each(tmp_path: Path) -> None:
    run, port = Run(tmp_path), free_port()
    with Mastaba(run.server_json, tmp_path, http=port) as server:
        run.go(port, REQUESTS_WITH_KILLS, server, kills=KILLS, reloads=2)
        server.send(signal.SIGTERM)
        assert server.wait() == 0
    failed = sum(not one.status for one in run.answers)
    # A killed worker had at most one request of each client.
    assert failed <= KILLS * CLIENTS
    counted, received, logged = run.counted(), run.received(), run.logged()
    for cell, (hits, size) in received.items():
        assert counted[cell][0] >= hits, cell
        assert counted[cell][1] >= size, cell
    more = sum(hits for hits, _ in counted.values()) - sum(hits for hits, _ in received.values())
    assert more <= failed
    # Lines that a killed worker had not written are lost, hits are not.
    assert all(counted[cell][0] >= hits for cell, (hits, _) in logged.items())
