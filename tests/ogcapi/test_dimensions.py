"""Dimensions over OGC API Maps and Tiles (time.md section 2.4)."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import rasterio
from tests.history.test_values import write_history
from tests.ogcapi.conftest import OpenClient, ReadPixels
from tests.series import colour_of, series_installation
from werkzeug.test import Client

from mastaba_ogcapi import resources
from mastaba_ogcapi.dataset import Collection, Dataset

_VALUES = (
    {"time": "1950", "elevation": "0"},
    {"time": "1975", "elevation": "0"},
    {"time": "2023", "elevation": "0"},
    {"time": "2023", "elevation": "500"},
)
_DIMENSIONS = (
    {"name": "time"},
    {"name": "elevation", "units": "CRS:88", "unit_symbol": "m", "default": "0"},
)
_MAP = "/ogcapi/collections/ORTHO/map"
_TILE = "map/tiles/PM/3/2/4"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    directory = tmp_path_factory.mktemp("series")
    return open_client(
        series_installation(
            directory,
            _VALUES,
            dimensions=_DIMENSIONS,
            default=2,
            services=("ogcapi",),
            names="ORTHO_{time}_{elevation}",
        )
    )


def _read(client: Client, path: str) -> Any:
    return json.loads(client.get(path).data)


@pytest.mark.parametrize(
    ("query", "shown", "header"),
    [
        ("", 2, "2023-01-01T00:00:00Z/2023-12-31T23:59:59Z"),
        ("datetime=1950", 0, "1950-01-01T00:00:00Z/1950-12-31T23:59:59Z"),
        ("datetime=1975-01-01T00:00:00.000Z", 1, "1975-01-01T00:00:00Z/1975-12-31T23:59:59Z"),
        ("datetime=../1960", 0, "1950-01-01T00:00:00Z/1950-12-31T23:59:59Z"),
        ("datetime=/1980", 1, "1950-01-01T00:00:00Z/1975-12-31T23:59:59Z"),
        ('subset=time("1950")', 0, "1950-01-01T00:00:00Z/1950-12-31T23:59:59Z"),
        ('subset=T("1950":"1980")', 1, "1950-01-01T00:00:00Z/1975-12-31T23:59:59Z"),
        ('subset=datetime("1950-06-01T00:00Z")', 0, "1950-01-01T00:00:00Z/1950-12-31T23:59:59Z"),
        ('subset=time(*:"1960"),elevation(0)', 0, None),
        ("subset=Elevation(500)&datetime=2023", 3, None),
        ('datetime=1950&subset=time("1950-01-01")', 0, None),
    ],
)
def test_map_and_tile(
    client: Client, pixels: ReadPixels, query: str, shown: int, header: str | None
) -> None:
    for path in (f"{_MAP}?f=png&width=64&", f"/ogcapi/collections/ORTHO/{_TILE}?"):
        response = client.get(path + query)
        assert response.status_code == 200, response.text
        assert tuple(pixels(response)[20, 20, :3]) == colour_of(shown)
        is_newest = header is not None and header.count("1950") and header.count("1975")
        if header and not (is_newest and _TILE in path):
            assert response.headers["OGCAPI-datetime"] == header
        # The standard requires another name of maps, and only of them (/req/core/map-response).
        written = response.headers.get("Content-Datetime")
        assert written == (None if _TILE in path else response.headers["OGCAPI-datetime"])


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("datetime=1066", 204),
        ("datetime=1960", 204),
        ('subset=time("1800":"1900")', 204),
        ("datetime=yesterday", 400),
        ("datetime=2023-13", 400),
        ("datetime=2000/1950", 400),
        ('datetime=1950&subset=time("2023")', 400),
        ('subset=depth("5")', 400),
        ('subset=time("1950"),t("1950")', 400),
    ],
)
def test_nothing_or_an_error(client: Client, query: str, status: int) -> None:
    assert client.get(f"{_MAP}?f=png&width=64&{query}").status_code == status
    if "depth" not in query:
        assert client.get(f"/ogcapi/collections/ORTHO/{_TILE}?{query}").status_code == status


@pytest.mark.parametrize("name", ["ORTHO;time=1950;elevation=0", "ORTHO_1950_0"])
def test_qualified_collections(client: Client, pixels: ReadPixels, name: str) -> None:
    path = f"/ogcapi/collections/{quote(name, safe='')}"
    for below in ("map?width=64&f=png", _TILE, f"{_TILE}?f=png"):
        response = client.get(f"{path}/{below}")
        assert tuple(pixels(response)[20, 20, :3]) == colour_of(0), below
    document = _read(client, f"{path}?f=json")
    assert document["id"] == "ORTHO;time=1950;elevation=0"
    interval = document["extent"]["temporal"]["interval"]
    assert interval == [["1950-01-01T00:00:00Z", "1950-12-31T23:59:59Z"]]
    assert client.get(f"{path}/map/tiles?f=json").status_code == 200
    tileset = _read(client, f"{path}/map/tiles/PM?f=json")
    (item, *_) = [link for link in tileset["links"] if link["rel"] == "item"]
    assert quote("ORTHO;time=1950;elevation=0", safe="") in item["href"]


@pytest.mark.parametrize(
    ("name", "query", "shown"),
    [
        ("ORTHO;time=2023", "subset=Elevation(500)", 3),
        ("ORTHO;elevation=500", "datetime=2023", 3),
        ("ORTHO;time=2023", "subset=elevation(0)", 2),
        ("ORTHO;time=2023", "datetime=2023-06", 2),
    ],
)
def test_values_beside_a_name_with_other_values(
    client: Client, pixels: ReadPixels, name: str, query: str, shown: int
) -> None:
    path = f"/ogcapi/collections/{quote(name, safe='')}"
    for below in ("map?width=64&f=png", f"{_TILE}?", f"{_TILE}?f=png"):
        response = client.get(f"{path}/{below}&{query}")
        assert response.status_code == 200, response.text
        assert tuple(pixels(response)[20, 20, :3]) == colour_of(shown), below


def test_values_that_contradict_a_name(client: Client) -> None:
    for query in ("datetime=1950", 'subset=time("1950"),elevation(500)'):
        path = "/ogcapi/collections/ORTHO%3Btime%3D2023/map?width=64&f=png"
        assert client.get(f"{path}&{query}").status_code == 400


@pytest.mark.parametrize(
    ("name", "status"),
    [("ORTHO;time=1066", 404), ("ORTHO;time=x", 400), ("ORTHO;depth=1", 404), ("ORTHO~x", 404)],
)
def test_unknown_collections(client: Client, name: str, status: int) -> None:
    path = f"/ogcapi/collections/{quote(name, safe='')}"
    for below in ("", "/map", f"/{_TILE}", "/map/tiles"):
        assert client.get(path + below).status_code == status, below


def test_documents(client: Client) -> None:
    extent = _read(client, "/ogcapi/collections/ORTHO?f=json")["extent"]
    assert extent["temporal"]["interval"] == [["1950-01-01T00:00:00Z", "2023-12-31T23:59:59Z"]]
    assert extent["temporal"]["grid"] == {"cellsCount": 3, "coordinates": ["1950", "1975", "2023"]}
    assert extent["elevation"]["interval"] == [[0, 500]]
    assert extent["elevation"]["vrs"].endswith("/88")
    classes = _read(client, "/ogcapi/conformance?f=json")["conformsTo"]
    for name in ("maps-1/1.0/conf/datetime", "maps-1/1.0/conf/general-subsetting"):
        assert f"http://www.opengis.net/spec/ogcapi-{name}" in classes
    assert "http://www.opengis.net/spec/ogcapi-tiles-1/1.0/conf/datetime" in classes
    links = _read(client, "/ogcapi/collections/ORTHO/map/tiles/PM?f=json")["links"]
    assert any("datetime={datetime}" in link["href"] for link in links)
    definition = _read(client, "/ogcapi/api?f=json")
    assert "datetime" in definition["components"]["parameters"]


@pytest.mark.parametrize("name", ["ORTHO", "ORTHO;time=1950", "ORTHO;time=2023;elevation=500"])
def test_collections_have_pages(client: Client, name: str) -> None:
    answer = client.get(f"/ogcapi/collections/{quote(name)}?f=html")
    assert answer.status_code == 200
    assert "/map?width=512" in answer.text


def test_coverage(tmp_path: Path, open_client: OpenClient) -> None:
    sections = {"ogcapi": {"coverages": True}}
    path = series_installation(
        tmp_path, services=("ogcapi",), services_overrides=sections, coverages=True
    )
    client = open_client(path)
    point = "subset=Lon(20),Lat(40)"
    for name, query, position in (
        ("ORTHO", f"{point}&datetime=1950", 0),
        ("ORTHO", f'{point},time("1975")', 1),
        ("ORTHO", point, 2),
        ("ORTHO%3Btime%3D1950", point, 0),
    ):
        response = client.get(f"/ogcapi/collections/{name}/coverage?f=json&{query}")
        assert tuple(dict(response.json or {}).values()) == colour_of(position), name
    assert client.get("/ogcapi/collections/ORTHO/coverage?datetime=1066").status_code == 404
    box = client.get('/ogcapi/collections/ORTHO/coverage?bbox=20,40,21,41&subset=time("1950")')
    assert box.headers["OGCAPI-datetime"] == "1950-01-01T00:00:00Z/1950-12-31T23:59:59Z"


def _colours(client: Client, listed: Any) -> set[tuple[int, ...]]:
    """Return the colours of the files of a list of parts."""
    found = set()
    for feature in listed.json["features"]:
        address = feature["properties"]["href"].removeprefix("http://localhost")
        with rasterio.open(io.BytesIO(client.get(address).data)) as file:
            found |= set(map(tuple, file.read().reshape(3, -1).T.tolist()))
    return found


def test_parts_of_a_coverage_are_those_of_the_value(
    tmp_path: Path, open_client: OpenClient
) -> None:
    sections = {"ogcapi": {"coverages": {"limits": {"tiles": 1}}}}
    path = series_installation(
        tmp_path, services=("ogcapi", "history"), services_overrides=sections, coverages=True
    )
    versions = []
    for number in (0, 2):
        descriptor = tmp_path / f"pyramids/value_{number}.json"
        versions.append(write_history(descriptor, 3, "new"))
        descriptor.with_name(f"value_{number}_2.json").write_text(descriptor.read_text())
    client = open_client(path)
    parts = "/ogcapi/collections/{}/coverage/parts"
    cases = [
        ("ORTHO", "datetime=1950", 0),
        ("ORTHO", 'subset=time("1975")', 1),
        ("ORTHO", "datetime=../1980", 1),
        ("ORTHO", "", 2),
        ("ORTHO;time=1950", "", 0),
        (f"ORTHO;time=1950~{versions[0]}", "", 0),
        (f"ORTHO~{versions[1]}", "", 2),
    ]
    # In both directions: what is kept of one value is not that of another one.
    for name, query, position in (*cases, *cases[::-1]):
        listed = client.get(f"{parts.format(quote(name))}?{query}")
        assert listed.status_code == 200, listed.text
        year = ("1950", "1975", "2023")[position]
        assert listed.headers["OGCAPI-datetime"].startswith(year), name
        assert _colours(client, listed) == {colour_of(position)}, (name, query)
        texts = client.get(f"{parts.format(quote(name))}?f=txt&{query}").text.split()
        assert texts == [feature["properties"]["href"] for feature in listed.json["features"]]
        # Programs that follow the links get the same list.
        (own,) = [link["href"] for link in listed.json["links"] if link["rel"] == "self"]
        assert client.get(own.removeprefix("http://localhost")).json == listed.json
        is_version = listed.headers.get("Cache-Control") == "max-age=86400"
        assert is_version is ("~" in name)
    refused = client.get("/ogcapi/collections/ORTHO/coverage?datetime=1950")
    assert refused.status_code == 413
    assert _colours(client, client.get(refused.json["parts"].removeprefix("http://localhost"))) == {
        colour_of(0)
    }


@pytest.mark.parametrize("document", ["coverage/parts", "coverage/domainset", "schema"])
def test_documents_of_a_coverage_without_the_value(
    tmp_path: Path, open_client: OpenClient, document: str
) -> None:
    sections = {"ogcapi": {"coverages": True}}
    client = open_client(
        series_installation(
            tmp_path, services=("ogcapi",), services_overrides=sections, coverages=True
        )
    )
    address = f"/ogcapi/collections/ORTHO/{document}"
    assert client.get(f"{address}?datetime=1950").status_code == 200
    assert client.get(f"{address}?datetime=1066").status_code == 404
    assert client.get(f"{address}?datetime=yesterday").status_code == 400


def test_parts_of_a_value_are_listed_once(
    tmp_path: Path, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = series_installation(
        tmp_path,
        services=("ogcapi",),
        services_overrides={"ogcapi": {"coverages": True}},
        coverages=True,
    )
    listed: list[str] = []
    make = resources.parts_document

    def noted(dataset: Dataset, collection: Collection) -> dict[str, Any]:
        listed.append(collection.id)
        return make(dataset, collection)

    monkeypatch.setattr(resources, "parts_document", noted)
    client = open_client(path)
    address = "/ogcapi/collections/ORTHO/coverage/parts"
    answers = {}
    for year in ("1950", "1975", "1950"):
        for form in ("json", "txt"):
            answer = client.get(f"{address}?datetime={year}&f={form}")
            assert answers.setdefault((year, form), answer.data) == answer.data
    assert len(set(answers.values())) == 4
    assert listed == ["ORTHO;time=1950", "ORTHO;time=1975"]


def test_documents_that_a_collection_without_default_value_links_to(
    tmp_path: Path, open_client: OpenClient
) -> None:
    client = open_client(
        series_installation(
            tmp_path,
            dimensions=({"name": "time", "default": "none"},),
            services=("ogcapi",),
            services_overrides={"ogcapi": {"coverages": True}},
            coverages=True,
        )
    )
    collection = "/ogcapi/collections/ORTHO"
    links = _read(client, f"{collection}?f=json")["links"]
    addresses = {link["href"].removeprefix("http://localhost") for link in links}
    named = {
        f"{collection}/{one}" for one in ("schema", "coverage/domainset", "coverage/rangetype")
    }
    assert named <= addresses
    for address in sorted(named):
        answer = client.get(address)
        assert answer.status_code == 200, answer.text
        assert client.get(f"{address}?subset=Lat(46:47)").status_code == 200
        own = client.get(f"{address}?datetime=1950")
        assert own.headers["OGCAPI-datetime"].startswith("1950")
        assert client.get(f"{address}?datetime=1066").status_code == 404
    # A file has values of one of them, and so have its parts.
    parts = f"{collection}/coverage/parts"
    assert parts not in addresses
    for form in ("json", "txt"):
        answer = client.get(f"{parts}?f={form}")
        assert answer.status_code == 400
        assert "needs a value of time" in answer.text
        assert client.get(f"{parts}?f={form}&datetime=1950").status_code == 200
    assert client.get(f"{collection}/coverage").status_code == 400


@pytest.mark.parametrize("document", ["schema", "coverage/domainset", "coverage/rangetype"])
def test_documents_of_a_coverage_with_a_part_of_the_values(
    tmp_path: Path, open_client: OpenClient, document: str
) -> None:
    client = open_client(
        series_installation(
            tmp_path,
            [{"time": "1950", "elevation": "0"}, {"time": "1975", "elevation": "10"}],
            dimensions=(
                {"name": "time", "default": "none"},
                {"name": "elevation", "default": "none"},
            ),
            services=("ogcapi",),
            services_overrides={"ogcapi": {"coverages": True}},
            coverages=True,
        )
    )
    address = f"/ogcapi/collections/ORTHO/{document}"
    assert client.get(address).status_code == 200
    both = client.get(f"{address}?datetime=1950&subset=elevation(0)")
    assert both.status_code == 200, both.text
    for query in ("datetime=1950", "subset=elevation(0)", "subset=Time(%221950%22)"):
        answer = client.get(f"{address}?{query}")
        assert answer.status_code == 400, query
        assert "needs a value of" in answer.text


def test_many_values_are_listed_in_pages(
    tmp_path: Path, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("collection", "dimensions"):
        monkeypatch.setattr(f"mastaba_ogcapi.{module}.MOST_COORDINATES", 3)
    years = [str(1900 + number * number) for number in range(8)]
    client = open_client(
        series_installation(tmp_path, [{"time": one} for one in years], services=("ogcapi",))
    )
    (listed,) = _read(client, "/ogcapi/collections?f=json")["collections"]
    document = _read(client, "/ogcapi/collections/ORTHO?f=json")
    grid = document["extent"]["temporal"]["grid"]
    assert listed["extent"]["temporal"]["grid"] == grid
    assert grid["cellsCount"] == 8
    pages = [grid["coordinates"]]
    links = {link["rel"]: link["href"] for link in document["links"]}
    assert "prev" not in links
    while "next" in links:
        document = _read(client, links["next"].removeprefix("http://localhost"))
        pages.append(document["extent"]["temporal"]["grid"]["coordinates"])
        links = {link["rel"]: link["href"] for link in document["links"]}
    assert [len(page) for page in pages] == [3, 3, 2]
    assert [text for page in pages for text in page] == years
    before = _read(client, links["prev"].removeprefix("http://localhost"))
    assert before["extent"]["temporal"]["grid"]["coordinates"] == pages[1]
    for offset, status in (("7", 200), ("8", 400), ("-1", 400), ("x", 400), ("9" * 5000, 400)):
        answer = client.get(f"/ogcapi/collections/ORTHO?f=json&offset={offset}")
        assert answer.status_code == status, offset
    assert client.get("/ogcapi/collections/NONE?offset=3").status_code == 404
    first = client.get("/ogcapi/collections/ORTHO?f=json")
    assert client.get("/ogcapi/collections/ORTHO?f=json&offset=0").data == first.data


def test_pages_of_a_dimension_with_fewer_values_than_another_one(
    tmp_path: Path, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("collection", "dimensions"):
        monkeypatch.setattr(f"mastaba_ogcapi.{module}.MOST_COORDINATES", 3)
    values = [
        {"time": str(1900 + number * number), "elevation": height}
        for number in range(5)
        for height in ("0", "10", "500")
    ]
    client = open_client(
        series_installation(tmp_path, values, dimensions=_DIMENSIONS, services=("ogcapi",))
    )
    document = _read(client, "/ogcapi/collections/ORTHO?f=json&offset=3")
    assert document["extent"]["temporal"]["grid"]["coordinates"] == ["1909", "1916"]
    # The schema of extents wants at least one.
    assert "coordinates" not in document["extent"]["elevation"]["grid"]
    (own,) = [link["href"] for link in document["links"] if link["rel"] == "self"]
    assert own.endswith("offset=3")
