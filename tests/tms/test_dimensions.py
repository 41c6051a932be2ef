"""Dimensions in the names of TileMaps, and in TileJSON (time.md section 2.3)."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.series import colour_of, series_installation
from tests.tms.conftest import OpenClient
from werkzeug.test import Client, TestResponse

_ROOT = "/tms/1.0.0"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    directory = tmp_path_factory.mktemp("series")
    names = {"template": "ORTHO_{time}", "listed": True}
    return open_client(series_installation(directory, services=("tms",), names=names))


def _colour(response: TestResponse) -> tuple[int, ...]:
    assert response.status_code == 200, response.text
    image = np.asarray(Image.open(io.BytesIO(response.data)))
    return tuple(int(value) for value in image[128, 128, :3])


def _read(client: Client, path: str) -> Any:
    return json.loads(client.get(path).data)


@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("ORTHO", 2),
        ("ORTHO;time=1950", 0),
        ("ORTHO;time=1975-01-01T00:00:00Z", 1),
        ("ORTHO_1950", 0),
        ("ORTHO;time=1950@PM", 0),
    ],
)
def test_tiles(client: Client, name: str, position: int) -> None:
    # The second request is answered from the table of stored tiles.
    for _ in range(2):
        assert _colour(client.get(f"{_ROOT}/{name}/3/4/2.png")) == colour_of(position)


@pytest.mark.parametrize(
    ("name", "status"), [("ORTHO;time=1066", 404), ("ORTHO;time=x", 400), ("ORTHO;x=1", 404)]
)
def test_unknown_values(client: Client, name: str, status: int) -> None:
    for below in ("/3/4/2.png", "", "/metadata.json"):
        assert client.get(f"{_ROOT}/{name}{below}").status_code == status


def test_tilejson(client: Client) -> None:
    document = _read(client, f"{_ROOT}/ORTHO/metadata.json")
    time = document["dimensions"]["time"]
    assert (time["default"], time["values"]) == ("2023", ["1950", "1975", "2023"])
    assert time["template"].endswith("/ORTHO;time={time}/{z}/{x}/{y}.png")
    for path in ("ORTHO/metadata.json?time=1950", "ORTHO;time=1950/metadata.json"):
        document = _read(client, f"{_ROOT}/{path}")
        assert document["tiles"][0].endswith("/ORTHO;time=1950/{z}/{x}/{y}.png")
        assert "dimensions" not in document
    address = time["template"].format(time="1975", z=3, x=4, y=2)
    assert _colour(client.get(address[address.index("/tms/") :])) == colour_of(1)


def test_tile_maps(client: Client) -> None:
    listed = client.get(_ROOT).text
    assert "/ORTHO_1950" in listed
    assert "/ORTHO;time=1950/bottom/3" in client.get(f"{_ROOT}/ORTHO;time=1950").text


def test_value_must_be_named(tmp_path: Path, open_client: OpenClient) -> None:
    dimensions = [{"name": "time", "default": "none"}]
    client = open_client(series_installation(tmp_path, services=("tms",), dimensions=dimensions))
    assert client.get(f"{_ROOT}/ORTHO/3/4/2.png").status_code == 400
    assert _read(client, f"{_ROOT}/ORTHO/metadata.json")["dimensions"]["time"]["default"] == ""
    assert _colour(client.get(f"{_ROOT}/ORTHO;time=1950/3/4/2.png")) == colour_of(0)
