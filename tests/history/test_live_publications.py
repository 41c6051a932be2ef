"""Publications and rollbacks while workers serve many readers (time.md section 4)."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pytest
from tests.admin.conftest import SECRET, Server, ask
from tests.build.conftest import built, plan_in
from tests.build.ground import read_payloads
from tests.build.test_history import CHEAP, updated
from tests.build.test_updates import FIRST, SIDE, write_sheet
from tests.sizes import sized
from werkzeug.test import Client

from mastaba.api.catalogue import digest_of
from mastaba.api.tools import create_application
from mastaba_build.output.storage import OutputStore
from mastaba_build.pyramid.history import rollback
from mastaba_writer.installation import write_installation

pytestmark = pytest.mark.thorough

READERS = 50
PUBLICATIONS = sized(8, 500)
PAUSE = sized(0.05, 0.2)
"""Seconds between two requests of a reader."""
LAST = SIDE * SIDE - 1
LEVEL = str(CHEAP["bottom"])
CELL = 156543.03392804097 / 2 ** int(CHEAP["bottom"])
HALF = 20037508.342789244


def get_map(layer: str) -> str:
    """Return the address of a map that shows both sheets, pixel by pixel."""
    size = 256 * CELL
    left, top = FIRST * size - HALF, HALF - FIRST * size
    box = f"{left},{top - SIDE * size},{left + SIDE * size},{top}"
    return (
        "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&CRS=EPSG:3857&FORMAT=image/png"
        f"&TRANSPARENT=TRUE&WIDTH=160&HEIGHT=160&BBOX={box}&LAYERS={layer}"
    )


class Pyramid:
    """A pyramid with versions that differ in two tiles far from each other.

    Attributes:
        tiles: of the finest level of each version, by generation.
        maps: of each version.
        number: of the version of each generation.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sheets = folder / "sheets"
        self._sheets.mkdir()
        self.tiles: dict[str, dict[tuple[int, int], bytes]] = {}
        self.maps: dict[str, bytes] = {}
        self.number: dict[str, int] = {}
        self._seed = 0
        self._write()
        self._descriptor = built(plan_in(folder, self._sheets, **CHEAP))
        document = json.loads((folder / "out/map.layer.json").read_text())
        self.server_json = write_installation(
            folder / "server",
            layers={"map": document},
            services=("health", "tms", "wms", "history"),
            services_overrides={"admin": {"enabled": True, "secret": SECRET}},
        )
        self.layer = json.dumps(document).encode()
        self._remember()

    @property
    def generation(self) -> str:
        return digest_of(json.loads(self._descriptor.read_text()))

    def publish(self) -> None:
        """Publish a further version."""
        self._write()
        updated(plan_in(self._folder, self._sheets, **CHEAP))
        self._remember()

    def roll_back(self, generation: str) -> None:
        """Publish a version again."""
        number = self.number[generation]
        rollback(OutputStore.of_directory(self._folder / "out"), "map", number)
        assert self.generation == generation

    def _write(self) -> None:
        self._seed += 1
        write_sheet(self._sheets, 0, self._seed)
        write_sheet(self._sheets, LAST, self._seed + 10_000)

    def _remember(self) -> None:
        generation = self.generation
        found = read_payloads(self._descriptor)
        self.tiles[generation] = {
            (row, column): data for (level, row, column), data in found.items() if level == LEVEL
        }
        client = Client(create_application(str(self.server_json)))
        self.maps[generation] = client.get(get_map("map")).data
        self.number[generation] = len(self.number) + 1


class Readers:
    """Ask for versions and for what is published, and note what is wrong.

    Attributes:
        known: generations that the server has loaded.
    """

    def __init__(self, server: Server, pyramid: Pyramid) -> None:
        self._server = server
        self._pyramid = pyramid
        self._done = threading.Event()
        self.wrong: list[str] = []
        self.counts = {"tokens": 0, "maps": 0}
        self.known = list(pyramid.maps)

    @contextmanager
    def reading(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._read, args=(one,)) for one in range(READERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._done.set()
            for thread in threads:
                thread.join()

    def _read(self, seed: int) -> None:
        dice, connection = random.Random(seed), self._server.connect()
        while not self._done.is_set():
            generation = dice.choice(self.known)
            try:
                if dice.random() < 0.5:
                    self._read_tile(connection, dice, generation)
                else:
                    self._read_map(connection)
            except (OSError, http.client.HTTPException) as error:
                self.wrong.append(repr(error))
                connection = self._server.connect()
            # The publications need the processors too.
            self._done.wait(PAUSE)
        connection.close()

    def _read_tile(
        self, connection: http.client.HTTPConnection, dice: random.Random, generation: str
    ) -> None:
        (row, column), data = dice.choice(list(self._pyramid.tiles[generation].items()))
        path = f"/tms/1.0.0/map~{generation}/{LEVEL}/{column}/{row}.png"
        status, body = _get(connection, path)
        if (status, body) != (200, data):
            self.wrong.append(f"{path}: {status}")
        self.counts["tokens"] += 1

    def _read_map(self, connection: http.client.HTTPConnection) -> None:
        status, body = _get(connection, get_map("map"))
        if status != 200 or body not in list(self._pyramid.maps.values()):
            self.wrong.append(f"map: {status}")
        self.counts["maps"] += 1


def _get(connection: http.client.HTTPConnection, path: str) -> tuple[int, bytes]:
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read()


@pytest.mark.timeout(1800)
def test_no_reader_sees_a_mixture_of_versions(tmp_path: Path) -> None:
    """Publications, of which most are rollbacks; after each, all workers serve it."""
    pyramid, dice = Pyramid(tmp_path), random.Random(1)
    for _ in range(9):
        pyramid.publish()
    server = Server(pyramid.server_json, 2)
    try:
        workers = list(server.connect_to_all().values())
        readers = Readers(server, pyramid)
        with readers.reading():
            rollbacks: list[float] = []
            for number in range(PUBLICATIONS):
                if number % 25 == 24:
                    pyramid.publish()
                else:
                    others = [one for one in pyramid.number if one != pyramid.generation]
                    started = time.monotonic()
                    pyramid.roll_back(dice.choice(others))
                    rollbacks.append(time.monotonic() - started)
                answer = ask(workers[0], "PUT", "/admin/layers/map", pyramid.layer)
                assert answer.status in (200, 204), answer.status
                expected = pyramid.maps[pyramid.generation]
                assert {_get(one, get_map("map"))[1] for one in workers} == {expected}, number
                readers.known = list(pyramid.maps)
                assert not readers.wrong, readers.wrong[:5]
            server.wait_until(lambda: min(readers.counts.values()) > 100)
        assert not readers.wrong, readers.wrong[:5]
        print(
            readers.counts, f"rollback: {median(rollbacks):.3f} s, at most {max(rollbacks):.3f} s"
        )
    finally:
        server.stop()
