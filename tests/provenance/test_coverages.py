"""The sources of stored values in the tags of GeoTIFF files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.provenance.conftest import position
from werkzeug.test import Client

from mastaba.api.catalogue import Layer
from mastaba.api.tools import create_application
from mastaba.errors import StorageError
from mastaba_provenance.service import ProvenanceService
from mastaba_render.api.geotiff import Origin
from mastaba_writer.installation import layer_document, write_installation

AREA = (
    "/wcs?SERVICE=WCS&VERSION=2.0.1&REQUEST=GetCoverage&COVERAGEID={}"
    "&SUBSET=x({},{})&SUBSET=y({},{})"
)
WHOLE = (-5, -5, 330, 105)
UPPER = (10, 5, 60, 40)
"""Of the fourth sheet alone, which is of one day."""
OTHER = (11, 6, 59, 39)
IN_RANGES = "&geotiff:compression=None"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, pyramid: Path) -> Client:
    folder = tmp_path_factory.mktemp("coverages")
    layer = layer_document(pyramid, title="Map", resampling="nn", wcs={"enabled": True})
    layers = {"MAP": layer, "PLAIN": {**layer, "provenance": False}}
    server = write_installation(folder, layers=layers, services=("provenance", "wcs"))
    return Client(create_application(str(server)))


def requested(
    client: Client, layer: str, area: tuple[int, int, int, int], more: str = "", **headers: str
) -> Any:
    left, top = position(area[0], area[1])
    right, bottom = position(area[2], area[3])
    return client.get(AREA.format(layer, left, right, bottom, top) + more, headers=headers)


def tags(client: Client, layer: str, area: tuple[int, int, int, int], more: str = "") -> Any:
    from rasterio.io import MemoryFile

    response = requested(client, layer, area, more)
    assert response.status_code == 200, response.text
    with MemoryFile(response.data) as file, file.open() as dataset:
        return dataset.tags()


def test_a_file_names_the_sources_of_its_area(client: Client, number_of: dict[int, int]) -> None:
    found = tags(client, "MAP", WHOLE)
    rows = json.loads(found["SOURCES"])
    assert {row["number"] for row in rows} == set(number_of.values())
    shares = [row["share"] for row in rows]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1, abs=0.01)
    assert "TIFFTAG_DATETIME" not in found


@pytest.mark.parametrize("more", ["", "&SCALEFACTOR=2"])
def test_a_file_of_one_date_has_it(client: Client, number_of: dict[int, int], more: str) -> None:
    found = tags(client, "MAP", UPPER, more)
    (row,) = json.loads(found["SOURCES"])
    assert (row["number"], row["share"]) == (number_of[3], 1)
    assert found["TIFFTAG_DATETIME"] == "2023:07:01 00:00:00"


def test_a_layer_without_sources_has_no_such_tags(client: Client) -> None:
    assert not {"SOURCES", "TIFFTAG_DATETIME"} & tags(client, "PLAIN", UPPER).keys()


def test_ranges_of_a_file_find_its_sources_once(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def sources_in(_self: Any, layer: Layer, _box: Any) -> Any:
        asked.append(layer.key)
        return [{"number": 1, "share": 1}]

    monkeypatch.setattr(ProvenanceService, "sources_in", sources_in)
    parts = [
        requested(client, "MAP", OTHER, IN_RANGES, Range=f"bytes={n}-{n + 9}") for n in (0, 10)
    ]
    assert [part.status_code for part in parts] == [206, 206]
    assert parts[0].headers["ETag"] == parts[1].headers["ETag"]
    assert asked == ["MAP"]
    clock = SimpleNamespace(monotonic=lambda: math.inf)
    monkeypatch.setattr("mastaba_render.origin.time", clock)
    requested(client, "MAP", OTHER, IN_RANGES)
    assert asked == ["MAP", "MAP"]


def test_a_file_is_never_sent_without_its_sources(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes would be others: a client that fetches ranges would mix them."""

    def sources_in(*_args: Any) -> Any:
        raise StorageError("the table does not answer")

    monkeypatch.setattr(ProvenanceService, "sources_in", sources_in)
    area = (12, 7, 58, 38)
    assert requested(client, "MAP", area, IN_RANGES, Range="bytes=0-99").status_code == 503
    assert requested(client, "MAP", area).status_code == 503


@pytest.mark.parametrize("more", ["&SCALEFACTOR=2", "&geotiff:compression=LZW"])
def test_a_file_that_names_sources_has_no_date_of_slabs(
    client: Client, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    """A table may be rewritten in place."""
    area = (13, 8 + len(more) % 5, 57, 37)
    assert "Last-Modified" in requested(client, "PLAIN", area, more).headers
    names = iter(["one", "two"])

    def sources_in(*_args: Any) -> Any:
        return [{"number": 1, "title": next(names), "share": 1}]

    monkeypatch.setattr(ProvenanceService, "sources_in", sources_in)
    first = requested(client, "MAP", area, more)
    monkeypatch.setattr("mastaba_render.origin.time", SimpleNamespace(monotonic=lambda: math.inf))
    condition = {"If-Modified-Since": "Fri, 31 Dec 2100 00:00:00 GMT"}
    second = requested(client, "MAP", area, more, **condition)
    assert (first.status_code, second.status_code) == (200, 200)
    assert "Last-Modified" not in first.headers
    assert first.headers["ETag"] != second.headers["ETag"]


def test_a_long_list_of_sources_is_cut() -> None:
    rows = [{"number": number, "title": "\u00e9" * 100, "date": "2023"} for number in range(1000)]
    found = Origin.of(rows)
    assert len(found.sources.encode()) <= 8192
    shown = json.loads(found.sources)
    assert 10 < len(shown) < 100
    assert shown == rows[: len(shown)]
    # A year is not a day.
    assert found.date == ""
