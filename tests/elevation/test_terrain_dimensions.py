"""Terrain at a time (time.md section 2.5)."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import numpy as np
import pytest
from PIL import Image
from tests.series import series_document, write_value
from werkzeug.test import Client

from mastaba_writer.installation import write_installation

_HEIGHTS = {"1950": 100.0, "1975": 200.0, "2023": 300.0}
_TILE = "terrarium/3/4/2.png"


@pytest.fixture(scope="module")
def client(
    tmp_path_factory: pytest.TempPathFactory, open_client: Callable[[Path], Client]
) -> Client:
    directory = tmp_path_factory.mktemp("series")
    document = series_document(directory, [{"time": time} for time in _HEIGHTS])
    for variant, height in zip(document["variants"], _HEIGHTS.values(), strict=True):
        path = write_value(
            directory, f"heights_{height:.0f}", (int(height),), format="TIFF_ZIP_FLOAT32"
        )
        variant |= {"pyramids": [{"path": str(path)}], "final": True}
    levels = {"bottom_level": "3", "top_level": "2"}
    document["pyramids"] = [{**document["variants"][-1]["pyramids"][0], **levels}]
    document["dimensions"] = [{"name": "time", "nearest": True}]
    return open_client(
        write_installation(
            directory,
            layers={"DEM": document},
            services=["elevation", "terrain"],
            services_overrides={"elevation": {"datasets": [{"id": "both", "layers": ["DEM"]}]}},
        )
    )


def _height(client: Client, path: str) -> float:
    response = client.get(path)
    assert response.status_code == 200, response.text
    red, green, blue = np.asarray(Image.open(io.BytesIO(response.data)).convert("RGB"))[0, 0]
    return float(red) * 256 + float(green) + float(blue) / 256 - 32768


def _document(client: Client, path: str) -> Any:
    response = client.get(path)
    assert response.status_code == 200, response.text
    return json.loads(response.data)


def _followed(base: str, address: str) -> str:
    found = urlsplit(urljoin(f"http://localhost{base}", address))
    return f"{found.path}?{found.query}"


@pytest.mark.parametrize("dataset", ["DEM", "both"])
def test_values_in_names_and_queries(client: Client, dataset: str) -> None:
    assert _height(client, f"/terrain/{dataset}/{_TILE}") == 300
    for time, height in _HEIGHTS.items():
        assert _height(client, f"/terrain/{dataset}/{_TILE}?time={time}") == height
        assert _height(client, f"/terrain/{dataset};time={time}/{_TILE}") == height
        assert _height(client, f"/terrain/{dataset};time={time}/{_TILE}?time={time}-01") == height
    # The nearest value is shown, but no other than that of the name.
    assert client.get(f"/terrain/{dataset};time=1950/{_TILE}?time=2023").status_code == 400
    assert _height(client, f"/terrain/{dataset};time=1950/{_TILE}?time=default") == 100
    assert _height(client, f"/terrain/{dataset}/{_TILE}?time=1974") == 200
    assert client.get(f"/terrain/{dataset}/{_TILE}?time=yesterday").status_code == 400
    assert client.get(f"/terrain/{dataset};height=3/{_TILE}").status_code == 404


def test_caches_keep_final_values_only_where_they_are_named(client: Client) -> None:
    for query, is_final in (("?time=1975", True), ("?time=1974", False), ("", False)):
        kept = client.get(f"/terrain/DEM/{_TILE}{query}").headers.get("Cache-Control", "")
        assert ("s-maxage=31536000" in kept) is is_final, query


@pytest.mark.parametrize("dataset", ["DEM", "both"])
@pytest.mark.parametrize("name", ["{};time=1975/terrarium.json", "{}/terrarium.json?time=1974"])
def test_tilejson_names_the_value(client: Client, dataset: str, name: str) -> None:
    (address,) = _document(client, f"/terrain/{name.format(dataset)}")["tiles"]
    path = urlsplit(address.replace("{z}/{x}/{y}", "3/4/2")).path
    assert _height(client, path) == 200


@pytest.mark.parametrize("dataset", ["DEM", "both"])
def test_meshes(client: Client, dataset: str) -> None:
    """The lowest height in the head of each mesh is that of its value."""
    versions = set()
    for time, height in _HEIGHTS.items():
        for base in (
            f"/terrain/{dataset};time={time}/mesh/layer.json",
            f"/terrain/{dataset}/mesh/layer.json?time={time}",
        ):
            document = _document(client, base)
            versions.add(document["version"])
            (address,) = document["tiles"]
            tile = address.replace("{z}/{x}/{y}", "3/8/5").replace("{version}", document["version"])
            response = client.get(_followed(base, tile))
            assert response.status_code == 200, response.text
            (lowest,) = np.frombuffer(response.data, "<f4", 1, 24)
            assert lowest == pytest.approx(height)
    assert len(versions) == len(_HEIGHTS)


def test_styles_and_contours_name_the_value(client: Client) -> None:
    style = _document(client, "/terrain/DEM/style.json?time=1950")
    for source in style["sources"].values():
        document = _document(client, urlsplit(source["url"]).path)
        assert "/DEM;time=1950/" in document["tiles"][0]
