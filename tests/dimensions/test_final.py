"""Caching of variants that do not change: only of requests that name them (time.md section 4.4)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.series import series_document
from werkzeug.test import Client

from mastaba_writer.installation import write_installation

YEAR = "s-maxage=31536000"
TILE = (
    "/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER=ORTHO&STYLE=normal&FORMAT=image/png"
    "&TILEMATRIXSET=PM&TILEMATRIX=3&TILEROW=2&TILECOL=4"
)
MAP = (
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=ORTHO&STYLES=&CRS=EPSG:3857&WIDTH=2"
    "&HEIGHT=2&FORMAT=image/png&BBOX=7510000,7510000,7520000,7520000"
)


@pytest.fixture(scope="module")
def client(
    tmp_path_factory: pytest.TempPathFactory, open_client: Callable[[Path], Client]
) -> Client:
    directory = tmp_path_factory.mktemp("final")
    values = [{"time": year} for year in ("1950", "1975", "2023")]
    time = {"name": "time", "nearest": True}
    document = series_document(directory, values, dimensions=[time])
    for variant in document["variants"]:
        variant["final"] = True
    return open_client(
        write_installation(directory, layers={"ORTHO": document}, services=["wmts", "wms"])
    )


@pytest.mark.parametrize("address", [TILE, MAP], ids=["tile", "map"])
@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("1950", True),
        ("1950-01-01T00:00:00.000Z", True),
        ("1950-06", True),
        ("1951", False),
        ("1950/1960", False),
        ("../1960", False),
        ("current", False),
    ],
)
def test_only_named_values_are_kept_long(
    client: Client, address: str, text: str, is_named: bool
) -> None:
    response = client.get(f"{address}&TIME={text}")
    assert response.status_code == 200, response.text
    assert (YEAR in response.headers.get("Cache-Control", "")) == is_named


def test_both_forms_stay_apart(client: Client) -> None:
    """A passing answer must not replace the headers of the tile with a name of its own."""
    for _ in range(2):
        assert YEAR in client.get(f"{TILE}&TIME=1975").headers["Cache-Control"]
        assert YEAR not in client.get(f"{TILE}&TIME=1976").headers.get("Cache-Control", "")
