"""Versions at addresses of their own behind real caches: nothing has to be purged."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from tests.build.conftest import built, plan_in
from tests.build.ground import Tile, grid, read_payloads, write_raster
from tests.build.test_history import updated
from tests.edge.conftest import Edge
from tests.live.client import Answer, ask_many
from tests.live.processes import public_folder, wait_until
from tests.sizes import sized

from mastaba.api.catalogue import digest_of

pytestmark = pytest.mark.live

TOP, BOTTOM, SIDE = 8, 12, sized(8, 96)
"""Levels, and tiles of the finest one in a row and in a column: 85 or 12,276 in all levels."""
ROWS = 8
"""Rows of tiles in a sheet."""
CELL = 156543.03392804097 / 2**BOTTOM
DOCUMENTS = "public, max-age=0, s-maxage=1"
Pages = dict[Tile, Answer]


class Pyramid:
    """A pyramid of many tiles, and what its tiles are in each version."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.folder = folder / name
        self.sheets = self.folder / "sheets"
        self.sheets.mkdir(parents=True)
        # Between the sheets, tiles are missing.
        self._write(0, 0)
        self._write(1, 0)
        self.plan: dict[str, Any] = {
            "slab": [4, 4],
            "top": str(TOP),
            "bottom": str(BOTTOM),
            "format": "png",
        }
        self.descriptor = built(plan_in(self.folder, self.sheets, name=name, **self.plan))
        self.tiles = {self.token: read_payloads(self.descriptor)}

    @property
    def token(self) -> str:
        return digest_of(json.loads(self.descriptor.read_text()))

    def publish(self, seed: int) -> None:
        self._write(0, seed)
        updated(plan_in(self.folder, self.sheets, name=self.name, **self.plan))
        self.tiles[self.token] = read_payloads(self.descriptor)

    def _write(self, number: int, seed: int) -> None:
        size = 256 * CELL
        first, count = (0, SIDE - 5) if number == 0 else (SIDE - 2, 2)
        generator = np.random.default_rng([seed, number])
        # Some rows of tiles at a time: all of them together may need gigabytes.
        for top in range(first, first + count, ROWS):
            rows = min(ROWS, first + count - top)
            squares = generator.integers(0, 256, (3, 4 * rows, 4 * count), np.uint8)
            pixels = squares.repeat(64, 1).repeat(64, 2)
            place = grid(first * size, -top * size, CELL)
            write_raster(self.sheets / f"{number}-{top}.tif", pixels, place, "EPSG:3857")


class Clients:
    """Clients that know a layer by its TileJSON only."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge

    def template(self, layer: str) -> str:
        document = json.loads(self._edge.get(f"/maps/tms/1.0.0/{layer}/metadata.json").body)
        (template,) = document["tiles"]
        return urlsplit(template).path

    def tiles(self, layer: Pyramid, template: str) -> Pages:
        """Ask for all tiles of the levels, also those that are missing."""
        paths: dict[Tile, str] = {}
        for level in range(TOP, BOTTOM + 1):
            first, count = 2 ** (level - 1), max(1, SIDE >> (BOTTOM - level))
            for row, column in product(range(first, first + count), repeat=2):
                path = template.replace("{z}", str(level)).replace("{x}", str(column))
                paths[str(level), row, column] = path.replace("{y}", str(row))
        answers = ask_many(self._edge.url, paths.values(), 4)
        return dict(zip(paths, answers, strict=True))


def check(answers: Pages, tiles: Mapping[Tile, bytes]) -> None:
    """Check that each tile is that of one version."""
    for key, answer in answers.items():
        stored = tiles.get(key)
        expected = 404 if stored is None else 200
        assert answer.status == expected, key
        assert stored is None or answer.body == stored, key


def caches(answers: Pages) -> Counter[str]:
    return Counter(answer.headers["x-cache"] for answer in answers.values())


@pytest.fixture(params=["nginx-fastcgi", "nginx-http", "varnish"])
def published(request: pytest.FixtureRequest) -> Iterator[tuple[Edge, Pyramid, Pyramid]]:
    """A cache, which nobody purges, and two layers whose documents name versions."""
    with public_folder() as folder, ExitStack() as stack:
        pyramids = [Pyramid(folder, name) for name in ("changed", "same")]
        edge = Edge(request.param, folder, stack)
        edge.server.stop()
        edge.caches = []
        installation = folder / "installation"
        with (installation / "layers.txt").open("a") as listed:
            for one in pyramids:
                document = json.loads((one.folder / "out" / f"{one.name}.layer.json").read_text())
                path = installation / "layers" / f"{one.name}.json"
                path.write_text(json.dumps(document))
                listed.write(f"{path}\n")
        path = installation / "services.json"
        services = json.loads(path.read_text())
        services["history"] = {"enabled": True, "versioned_addresses": True}
        services["global"]["caching"]["documents"] = DOCUMENTS
        path.write_text(json.dumps(services))
        edge.start()
        # Varnish has seen that the server was stopped.
        wait_until(lambda: edge.get("/maps/tms/1.0.0/same/metadata.json").status == 200)
        yield edge, *pyramids


def test_a_publication_needs_no_purge(published: tuple[Edge, Pyramid, Pyramid]) -> None:
    edge, changed, same = published
    clients = Clients(edge)
    before = changed.token
    old = clients.template("changed")
    beside = clients.template("same")
    assert f"/changed~{before}-" in old
    for _ in range(2):
        answers = clients.tiles(changed, old)
        check(answers, changed.tiles[before])
        others = clients.tiles(same, beside)
        check(others, same.tiles[same.token])
    assert {answer.status for answer in answers.values()} == {200, 404}
    count = len(answers)
    assert count > SIDE * SIDE
    assert caches(answers) == caches(others) == {"HIT": count}

    for seed in sized((5,), (5, 6)):
        changed.publish(seed)
        edge.server.send(signal.SIGHUP)
        wait_until(lambda: f"~{changed.token}-" in clients.template("changed"))
        new = clients.template("changed")
        first = clients.tiles(changed, new)
        check(first, changed.tiles[changed.token])
        assert caches(first) == {"MISS": count}
        second = clients.tiles(changed, new)
        check(second, changed.tiles[changed.token])
        assert caches(second) == {"HIT": count}
        # The other layer, and clients that have the document of before, notice nothing.
        assert clients.template("same") == beside
        others = clients.tiles(same, beside)
        check(others, same.tiles[same.token])
        answers = clients.tiles(changed, old)
        check(answers, changed.tiles[before])
        assert caches(others) == caches(answers) == {"HIT": count}
