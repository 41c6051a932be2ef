"""Layers with times: pages and data of single values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.series import series_installation
from werkzeug.test import Client

YEARS = [{"time": year} for year in ("1950", "1975", "2023")]


@pytest.fixture(scope="module")
def client(
    tmp_path_factory: pytest.TempPathFactory, open_client: Callable[[Path], Client]
) -> Client:
    directory = tmp_path_factory.mktemp("times")
    services = ("tms", "wms", "wmts", "viewer")
    return open_client(series_installation(directory, YEARS, services=services))


def data_of(client: Client, name: str) -> dict[str, Any]:
    response = client.get(f"/viewer/data/layers/{quote(name, safe='')}.json")
    assert response.status_code == 200
    found: dict[str, Any] = response.json  # type: ignore[assignment]
    return found


def test_the_slider_gets_the_values(client: Client) -> None:
    times = data_of(client, "ORTHO")["times"]
    texts = ["1950", "1975", "2023"]
    assert times == {"base": "ORTHO", "texts": texts, "value": "2023", "others": ""}
    page = client.get("/viewer/ORTHO").text
    assert '<div class="field" id="time-field"><label' in page
    assert 'min="0" max="2"' in page


def test_addresses_and_snippets_have_the_value(client: Client) -> None:
    found = data_of(client, "ORTHO;time=1950")
    assert found["id"] == "ORTHO;time=1950"
    assert found["times"]["value"] == "1950"
    assert found["times"]["base"] == "ORTHO"
    templates = {one["id"]: one["styles"][0]["template"] for one in found["sources"]}
    # As in its own documents.
    assert "/ORTHO;time=1950/" in templates["tms"]
    for name in ("wms", "wmts"):
        assert "ORTHO%3Btime%3D1950" in templates[name]
    # ArcGIS gets the address of a service, and shows its layers.
    texts = [one["text"] for one in found["snippets"] if one["id"] != "arcgis"]
    assert texts
    assert all("time=1950" in text or "time%3D1950" in text for text in texts)


def test_the_page_of_a_value(client: Client) -> None:
    page = client.get("/viewer/ORTHO;time=1975").text
    data = json.loads(page.partition('application/json" id="data">')[2].partition("</script>")[0])
    assert data["layer"]["id"] == "ORTHO;time=1975"
    assert '<option value="ORTHO" selected>' in page


def test_two_values_are_compared(client: Client) -> None:
    page = client.get("/viewer/compare/ORTHO;time=1950/ORTHO;time=2023").text
    data = json.loads(page.partition('application/json" id="data">')[2].partition("</script>")[0])
    assert [one["id"] for one in data["sides"]] == ["ORTHO;time=1950", "ORTHO;time=2023"]
    assert page.count('<option value="ORTHO;time=1950" selected>') == 1
    assert page.count('<option value="ORTHO;time=2023" selected>') == 1


@pytest.mark.parametrize("name", ["ORTHO;time=1951", "ORTHO;time=x", "ORTHO;x=1", "NONE;time=1950"])
def test_values_that_do_not_exist_are_unknown(client: Client, name: str) -> None:
    assert client.get(f"/viewer/{name}").status_code == 404
    assert client.get(f"/viewer/data/layers/{name}.json").status_code == 404
