"""Requests for an archive in an object store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.container_pmtiles.test_archives import LAYER, MVT, archive
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_conformance.object_server import S3_KEYS, ObjectServer
from mastaba_pmtiles.tile_ids import ZoomIds
from mastaba_render.api.decoding import read_tiles

SIDE = range(1 << 3)


def tile(generation: int, row: int, column: int) -> bytes:
    name = f"{generation}/{row}/{column}".encode().ljust(7 + generation)
    layer = b"\x0a" + bytes([len(name)]) + name + b"\x78\x02"
    return b"\x1a" + bytes([len(layer)]) + layer


def world(generation: int) -> bytes:
    """Return an archive of zoom 3; generation 1 has its tiles elsewhere."""
    ids = ZoomIds(3)
    tiles = {ids.of(row, column): tile(generation, row, column) for row in SIDE for column in SIDE}
    root, data = [], LAYER * generation
    for number, payload in sorted(tiles.items()):
        root.append((number, 1, len(payload), len(data)))
        data += payload
    return archive(root, data, kind=MVT, zooms=(3, 3))


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ObjectServer, Client]:
    key, secret = next(iter(S3_KEYS.items()))
    server = ObjectServer()
    monkeypatch.setenv("ROK4_S3_URL", server.url)
    monkeypatch.setenv("ROK4_S3_KEY", key)
    monkeypatch.setenv("ROK4_S3_SECRETKEY", secret)
    server.put("maps", "world.pmtiles", world(0))
    config = tiny_installation(tmp_path, services=["tms"])
    document = {"title": "w", "abstract": "", "pyramids": [{"path": "s3://maps/world.pmtiles"}]}
    (tmp_path / "layers" / "WORLD.json").write_text(json.dumps(document))
    (tmp_path / "layers.txt").write_text(f"{tmp_path}/layers/WORLD.json\n")
    return server, Client(create_application(str(config)))


def address(row: int, column: int) -> str:
    return f"/tms/1.0.0/WORLD/3/{column}/{row}.pbf"


def test_tiles_of_an_object_are_read_once_each(served: tuple[ObjectServer, Client]) -> None:
    server, client = served
    with server:
        before = len(server.requests)
        answers = [client.get(address(row, column)) for row in SIDE for column in SIDE]
        assert [answer.data for answer in answers] == [tile(0, r, c) for r in SIDE for c in SIDE]
        assert len(server.requests) - before == len(answers)
        fresh = client.get(address(0, 0), headers={"If-None-Match": answers[0].headers["ETag"]})
        assert fresh.status_code == 304
        assert len(server.requests) - before == len(answers)
        server.delete("maps", "world.pmtiles")
        assert client.get(address(0, 0)).status_code == 503


def test_neighbours_of_an_object_are_read_together(
    served: tuple[ObjectServer, Client],
) -> None:
    server, client = served
    with server:
        application: Any = client.application
        reader = application.site.catalogue.readers["WORLD"]["3"]
        before = len(server.requests)
        places = [(row, column) for row in (2, 3, 4) for column in (3, 4, 5)]
        assert read_tiles(reader, places) == [tile(0, *place) for place in places]
        assert len(server.requests) - before <= 6
