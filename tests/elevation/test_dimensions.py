"""Heights at a time: EDR and the native route (time.md section 2.5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from tests.series import series_document, write_value
from werkzeug.test import Client

from mastaba_writer.installation import write_installation

_TIMES = ("1950", "1975", "2023")
_EDR = "/elevation/edr/collections"
_POINT = "coords=POINT(20 40)"


@pytest.fixture(scope="module")
def client(
    tmp_path_factory: pytest.TempPathFactory, open_client: Callable[[Path], Client]
) -> Client:
    directory = tmp_path_factory.mktemp("series")
    document = series_document(directory, [{"time": time} for time in _TIMES])
    for variant, height in zip(document["variants"], (1.0, 2.0, 3.0), strict=True):
        name = f"heights_{height:.0f}"
        path = write_value(directory, name, (int(height),), format="TIFF_ZIP_FLOAT32")
        variant["pyramids"] = [{"path": str(path)}]
    levels = {"bottom_level": "3", "top_level": "2"}
    document["pyramids"] = [{**document["variants"][-1]["pyramids"][0], **levels}]
    forecast = {**document, "dimensions": [{"name": "time", "default": "none"}]}
    facades = {"ign": {"default_resource": "DEM"}, "google": {"dataset": "NONE"}, "tileserver": {}}
    settings = {"datasets": [{"id": "BOTH", "layers": ["DEM", "NONE"]}], "facades": facades}
    return open_client(
        write_installation(
            directory,
            layers={"DEM": document, "NONE": forecast},
            services=["elevation", "terrain", "ogcapi", "viewer"],
            services_overrides={"elevation": settings},
        )
    )


def _values(client: Client, collection: str, query: str) -> list[float]:
    response = client.get(f"{_EDR}/{collection}/position?{_POINT}&{query}")
    assert response.status_code == 200, response.text
    values: list[float] = json.loads(response.data)["ranges"]["elevation"]["values"]
    return values


def _read(client: Client, path: str) -> Any:
    return json.loads(client.get(path).data)


def test_one_time(client: Client) -> None:
    for query, value in (("", 3.0), ("datetime=1950", 1.0), ("datetime=null/null", 3.0)):
        assert _values(client, "DEM", query) == [value]
    assert _values(client, "DEM;time=1975", "") == [2.0]


def test_series(client: Client) -> None:
    response = _read(client, f"{_EDR}/DEM/position?{_POINT}&datetime=1950/1980")
    assert response["domain"]["domainType"] == "PointSeries"
    times = response["domain"]["axes"]["t"]["values"]
    assert times == ["1950-01-01T00:00:00Z", "1975-01-01T00:00:00Z"]
    assert response["ranges"]["elevation"]["values"] == [1.0, 2.0]
    features = _read(client, f"{_EDR}/DEM/position?{_POINT}&datetime=1950/1980&f=GeoJSON")[
        "features"
    ]
    assert [one["properties"]["datetime"] for one in features] == times
    table = client.get(f"{_EDR}/DEM/position?{_POINT}&datetime=1950/1980&f=CSV").text.splitlines()
    assert table[0] == "x,y,elevation,datetime"
    assert [line.rpartition(",")[2] for line in table[1:]] == times


def test_features_have_the_time_of_the_value(client: Client) -> None:
    for query, time in (("", "2023"), ("&datetime=1975", "1975")):
        for path in (f"position?{_POINT}", "cube?bbox=20,40,20.5,40.5"):
            answer = _read(client, f"{_EDR}/DEM/{path}{query}&f=GeoJSON")
            found = {one["properties"]["datetime"] for one in answer["features"]}
            assert found == {f"{time}-01-01T00:00:00Z"}


@pytest.mark.parametrize(("query", "status"), [("datetime=1066", 204), ("datetime=yesterday", 400)])
def test_refused(client: Client, query: str, status: int) -> None:
    assert client.get(f"{_EDR}/DEM/position?{_POINT}&{query}").status_code == status


def test_area_and_cube(client: Client) -> None:
    area = "coords=POLYGON((20 40,21 40,21 41,20 40))"
    for path in (f"area?{area}", "cube?bbox=20,40,20.5,40.5"):
        answer = _read(client, f"{_EDR}/DEM/{path}&datetime=1950/1980")
        values: list[Any] = answer["ranges"]["elevation"]["values"]
        assert {value for value in values if value is not None} == {2.0}


def test_links_of_a_value_lead_to_the_value(client: Client) -> None:
    links = _read(client, "/ogcapi/collections/DEM;time=1950?f=json")["links"]
    found = [one["href"] for one in links if one["title"] in ("On a map", "Heights")]
    links = _read(client, f"{_EDR}/DEM;time=1950")["links"]
    found += [one["href"] for one in links if one["rel"] == "related"]
    assert [href.rpartition("/")[2] for href in found] == ["DEM%3Btime%3D1950"] * 3


def test_extent(client: Client) -> None:
    temporal = _read(client, f"{_EDR}/DEM")["extent"]["temporal"]
    assert temporal["interval"] == [["1950-01-01T00:00:00Z", "2023-12-31T23:59:59Z"]]
    assert len(temporal["values"]) == 3


def test_native(client: Client) -> None:
    for query, value in (("", 3.0), ("&time=1950", 1.0)):
        answer = client.get(f"/elevation/points?{_POINT}&dataset=DEM{query}")
        assert json.loads(answer.data)["results"][0]["elevation"] == value, answer.text


@pytest.mark.parametrize("name", ["DEM", "BOTH"])
@pytest.mark.parametrize("in_name", [True, False])
def test_terrain(client: Client, name: str, in_name: bool) -> None:
    """Each value has tiles and documents of its own, which name it in their addresses."""
    shown = set()
    for time in _TIMES:
        path = f"/terrain/{name};time={time}" if in_name else f"/terrain/{name}"
        query = "" if in_name else f"?time={time}"
        tile = client.get(f"{path}/mapbox/3/4/2.png{query}")
        assert tile.status_code == 200, tile.text
        shown.add(tile.data)
        (template,) = _read(client, f"{path}/mapbox.json{query}")["tiles"]
        address = template.format(z=3, x=4, y=2).partition("/terrain/")[2]
        assert client.get(f"/terrain/{address}").data == tile.data
    assert len(shown) == 3
    latest = client.get(f"/terrain/{name}/mapbox/3/4/2.png").data if name == "DEM" else tile.data
    assert latest == tile.data


@pytest.mark.parametrize("query", ["DEM/mesh/layer.json?time={}", "DEM;time={}/mesh/layer.json"])
def test_mesh(client: Client, query: str) -> None:
    versions, meshes = set(), set()
    for time in _TIMES:
        path = f"/terrain/{query.format(time)}"
        document = _read(client, path)
        versions.add(document["version"])
        level = document["available"][document["maxzoom"]][0]
        address = document["tiles"][0].format(
            z=document["maxzoom"], x=level["startX"], y=level["startY"], version="1"
        )
        tile = client.get(urljoin(path, address))
        assert tile.status_code == 200, tile.text
        meshes.add(tile.data)
    assert len(versions) == len(meshes) == 3


@pytest.mark.parametrize("time", ["1066", "yesterday", "1950/"])
def test_refused_terrain(client: Client, time: str) -> None:
    status = client.get(f"/terrain/DEM/mapbox/3/4/2.png?time={time}").status_code
    assert status == (200 if time == "1950/" else 400)


def test_protocols_without_values(client: Client) -> None:
    """They have the default; without one they say that a value is missing."""
    ign = "/elevation/1.0/calcul/alti/rest/elevation.json?lon=20&lat=40&zonly=true"
    assert _read(client, ign)["elevations"] == [3.0]
    for path in (f"{ign}&resource=NONE", "/elevation/v1/NONE?locations=40,20"):
        answer = client.get(path)
        assert answer.status_code == 400, answer.text
        assert "time" in answer.text
    assert _read(client, "/elevation/v1/DEM?locations=40,20")["results"][0]["elevation"] == 3.0


@pytest.fixture(scope="module")
def depths(
    tmp_path_factory: pytest.TempPathFactory, open_client: Callable[[Path], Client]
) -> Client:
    """Return a client of a layer with a time and an elevation; heights are 1 to 4."""
    directory = tmp_path_factory.mktemp("depths")
    values = [{"time": time, "elevation": depth} for time in ("1950", "2023") for depth in "05"]
    dimensions = [{"name": "time"}, {"name": "elevation", "default": "0"}]
    document = series_document(directory, values, dimensions=dimensions)
    for number, variant in enumerate(document["variants"], 1):
        path = write_value(directory, f"d_{number}", (number,), format="TIFF_ZIP_FLOAT32")
        variant["pyramids"] = [{"path": str(path)}]
    levels = {"bottom_level": "3", "top_level": "2"}
    document["pyramids"] = [{**document["variants"][2]["pyramids"][0], **levels}]
    services = ["elevation", "terrain"]
    return open_client(write_installation(directory, layers={"SEA": document}, services=services))


@pytest.mark.parametrize(
    ("name", "query", "height"),
    [
        ("SEA;time=1950", "", 1.0),
        ("SEA;time=1950", "z=5", 2.0),
        ("SEA;elevation=5", "", 4.0),
        ("SEA;elevation=5", "datetime=1950", 2.0),
        ("SEA;time=1950", "z=0&datetime=1950-06", 1.0),
    ],
)
def test_values_beside_a_name_with_other_values(
    depths: Client, name: str, query: str, height: float
) -> None:
    assert _values(depths, name, query) == [height]
    native = query.replace("datetime", "time").replace("z=", "elevation=")
    answer = _read(depths, f"/elevation/points?dataset={name}&{_POINT}&{native}")
    assert [one["elevation"] for one in answer["results"]] == [height]
    assert depths.get(f"/terrain/{name}/mapbox/3/4/3.png?{native}").status_code == 200
    (feature,) = _read(depths, f"{_EDR}/{name}/position?{_POINT}&{query}&f=GeoJSON")["features"]
    again = depths.get(urlsplit(feature["properties"]["edrqueryendpoint"]).path + f"?{_POINT}")
    assert json.loads(again.data)["ranges"]["elevation"]["values"] == [height]


def test_values_that_contradict_a_name(depths: Client) -> None:
    path = f"{_EDR}/SEA;time=1950/position?{_POINT}"
    assert depths.get(f"{path}&datetime=2023").status_code == 400


def test_a_series_has_each_time_once(depths: Client) -> None:
    response = _read(depths, f"{_EDR}/SEA/position?{_POINT}&datetime=1950&z=0/5")
    assert response["domain"]["domainType"] == "Point"
    assert response["ranges"]["elevation"]["values"] == [2.0]
    series = _read(depths, f"{_EDR}/SEA/position?{_POINT}&datetime=1950/2023&z=5")
    assert series["ranges"]["elevation"]["values"] == [2.0, 4.0]
