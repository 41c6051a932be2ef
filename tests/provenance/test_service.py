"""Sources at points, of views and of pixels, against sheets of known places."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyproj
import pytest
from lxml import etree
from tests.forked import run as mastaba
from tests.provenance.conftest import LEVEL, PLACES, SIZE, position, write
from tests.support.memory import peak_of, small_pieces
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_provenance.forms import line_of
from mastaba_provenance.tables import SourceTable, SourceTables
from mastaba_writer.installation import layer_document, write_installation

TO_DEGREES = pyproj.Transformer.from_crs("EPSG:3857", "EPSG:4326", always_xy=True)


@pytest.fixture(scope="module")
def client(pyramid: Path, tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client(create_application(str(write(tmp_path_factory.mktemp("server"), pyramid))))


def degrees(column: float, row: float) -> tuple[float, float]:
    longitude, latitude = TO_DEGREES.transform(*position(column, row))
    return longitude, latitude


def sheet_at(column: int, row: int) -> int | None:
    """Return the uppermost sheet at a pixel."""
    found = None
    for number, (left, top, height) in enumerate(PLACES):
        if left <= column < left + SIZE and top <= row < top + height:
            found = number
    return found


def expected(column: int, row: int) -> tuple[int | None, bool]:
    """Return the sheet at a pixel, and whether there are others around it."""
    around = {sheet_at(column + i, row + j) for i in (-1, 0, 1) for j in (-1, 0, 1)} - {None}
    sheet = sheet_at(column, row)
    return sheet, sheet is not None and len(around) > 1


def send(client: Client, document: Any, layer: str = "MAP") -> Any:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return client.post(f"/provenance/{layer}/at", data=body, content_type="application/json")


def test_points(client: Client, number_of: dict[int, int]) -> None:
    generator = np.random.default_rng(4)
    chosen = generator.integers(-5, [345, 110], (2000, 2)).tolist()
    seams = [(column, row) for column in (99, 100, 199, 200, 219, 220) for row in (0, 49, 50, 99)]
    chosen += seams
    wanted = [expected(*one) for one in chosen]
    assert {sheet for sheet, _ in wanted} == {None, 0, 1, 2, 3}
    places = [(column + 0.5, row + 0.5) for column, row in chosen]
    features = [
        {"type": "Feature", "properties": {}, "geometry": {"type": "Point", "coordinates": at}}
        for at in map(degrees, *zip(*places, strict=True))
    ]
    document = send(client, {"type": "FeatureCollection", "features": features}).json
    native = {
        "type": "MultiPoint",
        "coordinates": [position(*one) for one in places],
        "crs": "EPSG:3857",
    }
    assert send(client, native).json == document
    found = [(one["number"], one["mixed"]) for one in document["points"]]
    assert found == [(number_of.get(sheet), mixed) for sheet, mixed in wanted]  # type: ignore[arg-type]
    assert {one["level"] for one in document["points"] if one["number"]} == {str(LEVEL)}
    rows = {row["number"]: row for row in document["sources"]}
    assert rows.keys() == set(number_of.values())
    assert rows[number_of[3]]["date"] == "2023-07-01"
    assert "footprint" not in rows[number_of[3]]
    longitude, latitude = degrees(150.5, 50.5)
    for turn in (0, 360):
        one = client.get(f"/provenance/MAP/at?lon={longitude + turn}&lat={latitude}")
        assert one.json["points"][0]["number"] == number_of[1]


def test_views(client: Client, number_of: dict[int, int]) -> None:
    west, south = degrees(-10, 100)
    east, north = degrees(150, 0)
    url = f"/provenance/MAP/view?bbox={west},{south - 1},{east},{north + 1}&zoom=9&width=9&height=9"
    document = client.get(url).json
    shares = {one["number"]: one["share"] for one in document["sources"]}
    assert shares == {
        number_of[0]: round(1 / 3, 6),
        number_of[1]: round(1 / 3, 6),
        number_of[3]: round(1 / 3, 6),
    }
    assert document["exact"]
    assert document["text"] == "© B & <C> 1998, A 2021–2023"
    assert client.get("/provenance/MAP/view?bbox=10,10,11,11").json["sources"] == []


def test_tables(client: Client, number_of: dict[int, int]) -> None:
    def numbers(query: str) -> set[int]:
        response = client.get(f"/provenance/MAP/sources?{query}")
        assert response.status_code == 200, response.data
        return {row["number"] for row in response.json["sources"]}

    def of(*sheets: int) -> set[int]:
        return {number_of[one] for one in sheets}

    assert numbers("") == of(0, 1, 2, 3)
    assert numbers("datetime=2021") == of(1, 2)
    assert numbers("datetime=2021-05-31T23:00:00Z/..") == of(1, 2, 3)
    assert numbers("datetime=../1998-06") == of(0)
    west, south = degrees(230, 60)
    east, north = degrees(300, 10)
    assert numbers(f"bbox={west},{south},{east},{north}") == of(2)
    assert len(numbers("limit=2")) == 2
    features = client.get("/provenance/MAP/sources.geojson").json["features"]
    assert {one["id"] for one in features} == {str(one) for one in number_of.values()}
    last = next(one for one in features if one["id"] == str(number_of[2]))
    assert last["properties"]["end_datetime"] == "2023-09-30T23:59:59Z"
    assert last["geometry"]["type"] in ("Polygon", "MultiPolygon")
    rows = list(csv.DictReader(io.StringIO(client.get("/provenance/MAP/sources.csv").text)))
    assert {row["attribution"] for row in rows} == {"A", "B & <C>"}
    document = client.get("/provenance/MAP/attribution.json").json
    newest = max(document["collections"], key=lambda one: one["summaries"]["linz:priority"])
    assert (newest["id"], len(document["collections"])) == ("G0", 2)
    assert newest["summaries"]["linz:zoom"] == {"min": LEVEL - 1, "max": LEVEL}
    assert newest["extent"]["temporal"]["interval"] == [
        ["1998-01-01T00:00:00Z", "2023-09-30T23:59:59Z"]
    ]


@pytest.mark.parametrize("name", ["sources", "sources.geojson", "sources.csv"])
def test_large_tables_take_little_memory(
    client: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Answers are in a file until the client has read them; they once were kept several times."""
    known = client.get("/provenance/MAP/sources").json["sources"][0]
    ring = [[round(k / 7, 3), round(k / 11, 3)] for k in range(20)]
    geometry = {"type": "Polygon", "coordinates": [ring]}
    row = {**known, "title": "x" * 400, "footprint": geometry}
    rows = {number: {**row, "number": number} for number in range(1, 2001)}
    small_pieces(monkeypatch)
    real = SourceTables.table_of

    def table_of(tables: SourceTables, *of: Any) -> SourceTable | None:
        found = real(tables, *of)
        return found and replace(found, rows=rows)

    monkeypatch.setattr(SourceTables, "table_of", table_of)
    path = f"/provenance/MAP/{name}?limit=10000"
    answer, peak = peak_of(lambda: client.get(path, buffered=False))
    assert answer.status_code == 200
    assert len(answer.data) > 800_000
    assert answer.data.count(b"x" * 400) == len(rows)
    assert peak < 400_000
    answer.close()
    assert client.get(path, headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304


def test_feature_info(client: Client, number_of: dict[int, int]) -> None:
    west, north = position(0, 0)
    east, south = position(200, 100)

    def wms(layer: str, kind: str, more: str = "") -> Any:
        return client.get(
            "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetFeatureInfo&STYLES=&FORMAT=image/png&CRS=EPSG:3857"
            f"&LAYERS={layer}&QUERY_LAYERS={layer}&BBOX={west},{south},{east},{north}"
            f"&WIDTH=200&HEIGHT=100&I=10&J=20&INFO_FORMAT={kind}{more}"
        )

    (found,) = wms("MAP", "application/json").json["features"]
    source = found["properties"]["source"]
    assert (source["number"], source["date"]) == (number_of[3], "2023-07-01")
    root = etree.fromstring(wms("MAP", "text/xml").data)
    assert root.find("Source").get("date") == "2023-07-01"
    assert b"<td>2023-07-01</td>" in wms("MAP", "text/html").data
    assert wms("MAP", "text/plain").data == wms("PLAIN", "text/plain").data == b"40.00"
    assert b"date: 2023-07-01" in wms("MAP", "text/plain", "&PROVENANCE=true").data
    assert "source" not in wms("PLAIN", "application/json").json["features"][0]["properties"]
    tile = (
        f"SERVICE=WMTS&VERSION=1.0.0&LAYER=MAP&STYLE=normal&TILEMATRIXSET=PM&TILEMATRIX={LEVEL}"
        "&TILEROW=1440&TILECOL=2060&FORMAT=image/x-bil;bits=32&I=10&J=70"
    )
    answer = client.get(f"/wmts?{tile}&REQUEST=GetFeatureInfo&INFOFORMAT=application/json")
    assert answer.json["features"][0]["properties"]["source"]["number"] == number_of[0]


@pytest.mark.parametrize(
    "path",
    [
        "MAP/at?lon=nan&lat=1",
        "MAP/at?lon=1",
        "MAP/at?lon=1&lat=91",
        "MAP/at?lon=1e999&lat=1_0",
        "MAP/at?lon=1&lat=１",
        "MAP/view?bbox=1,2,3",
        "MAP/view?bbox=1,2,3,2",
        "MAP/view?bbox=1,2,3,inf",
        "MAP/view?zoom=x",
        "MAP/sources?limit=10001",
        "MAP/sources?limit=0",
        "MAP/sources?datetime=2023-13",
        "MAP/sources?datetime=0000",
        "MAP/sources?datetime=0001-01-01T00:00:00%2B23:59",
        "MAP/sources?datetime=2023/2021",
        f"MAP/sources?datetime={'9' * 10000}",
    ],
)
def test_bad_parameters(client: Client, path: str) -> None:
    response = client.get(f"/provenance/{path}")
    assert (response.status_code, response.mimetype) == (400, "application/problem+json")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 100_000,
        b"[]",
        {"type": "MultiPoint", "coordinates": []},
        {"type": "MultiPoint", "coordinates": [[1, 2]] * 5001},
        {"type": "MultiPoint", "coordinates": [[1, 2], [1]]},
        {"type": "Point", "coordinates": [True, 2]},
        {"type": "Point", "coordinates": [10**400, 2]},
        {"type": "Point", "coordinates": [1, 2], "crs": "EPSG:99999"},
        {"type": "Point", "coordinates": [1, 2], "crs": {"name": 1}},
        {"type": "Point", "coordinates": [1, 100]},
        b'{"type": "Point", "coordinates": [NaN, 1]}',
        {"type": "FeatureCollection", "features": [{"geometry": None}]},
        {"type": "FeatureCollection", "features": [1]},
        {"type": "Polygon", "coordinates": [[[1, 2]]]},
    ],
)
def test_bad_bodies(client: Client, body: Any) -> None:
    response = send(client, body)
    assert (response.status_code, response.mimetype) == (400, "application/problem+json")


def test_the_list_of_layers_leads_to_all_addresses(client: Client) -> None:
    (entry,) = client.get("/provenance").json["layers"]
    document = client.get(urlsplit(entry["href"]).path).json
    assert (document["layer"], document["title"]) == ("MAP", "Map")
    for link in document["links"]:
        href = urlsplit(link["href"].format(lon="1", lat="1"))
        response = client.get(f"{href.path}?{href.query}")
        assert (response.status_code, response.mimetype) == (200, link["type"])


def test_layers_without_sources(client: Client) -> None:
    assert [one["layer"] for one in client.get("/provenance").json["layers"]] == ["MAP"]
    for path in ("PLAIN", "PLAIN/sources", "none/at", "MAP/none", "MAP/at/1"):
        assert client.get(f"/provenance/{path}").status_code == 404
    assert client.post("/provenance/MAP/sources").status_code == 405


def test_versions_have_their_own_sources(
    pyramid: Path, tmp_path: Path, number_of: dict[int, int]
) -> None:
    table = json.loads(pyramid.with_name("map.sources.json").read_text())
    west = {**table["sources"][0], "number": 1, "title": "of the second pyramid"}
    other = pyramid.with_name("other.json")
    other.write_text(json.dumps({**json.loads(pyramid.read_text()), "provenance": "o.json"}))
    pyramid.with_name("o.json").write_text(json.dumps({**table, "sources": [west]}))
    layer = layer_document(pyramid, title="Map", get_feature_info={"type": "PYRAMID"})
    levels = {key: one for key, one in layer["pyramids"][0].items() if key != "path"}
    layer["dimensions"] = [{"name": "time", "default": "2020"}]
    layer["variants"] = [
        {"at": {"time": text}, "pyramids": [{"path": str(path), **levels}]}
        for text, path in (("2020", pyramid), ("2021", other))
    ]
    server = write_installation(tmp_path, layers={"MAP": layer}, services=["provenance"])
    client = Client(create_application(str(server)))
    for name, count in (("MAP", 4), ("MAP;time=2020", 4), ("MAP;time=2021", 1)):
        assert client.get(f"/provenance/{name}/sources").json["numberMatched"] == count
    assert client.get("/provenance/MAP/sources?time=2021").json["numberMatched"] == 1
    (item,) = client.get("/provenance/MAP/sources.geojson?time=2021").json["features"]
    assert item["collection"] == "MAP;time=2021"
    assert item["links"][0]["href"].endswith("/provenance/MAP%3Btime%3D2021/sources")
    longitude, latitude = degrees(10.5, 80.5)
    found = client.get(f"/provenance/MAP/at?lon={longitude}&lat={latitude}&time=2021").json
    assert found["sources"][0]["title"] == "of the second pyramid"
    assert client.get("/provenance/MAP;time=1900/sources").status_code in (400, 404)
    assert client.get("/provenance/MAP~0123/sources").status_code == 404
    # A table that the layer names is that of its default, and a variant may name another one.
    layer["provenance"] = str(pyramid.with_name("map.sources.json"))
    further = pyramid.with_name("further.sources.json")
    further.write_text(json.dumps({**table, "sources": table["sources"][:2]}))
    for own, count in ({}, 1), ({"provenance": str(further)}, 2), ({"provenance": False}, None):
        layer["variants"][1] |= own
        server = write_installation(tmp_path, layers={"MAP": layer}, services=["provenance"])
        client = Client(create_application(str(server)))
        for name, expected in (("MAP", 4), ("MAP;time=2020", 4), ("MAP;time=2021", count)):
            found = client.get(f"/provenance/{name}/sources")
            assert found.json.get("numberMatched") == expected, (name, own)


def test_nothing_is_told_of_what_an_area_hides(
    pyramid: Path, tmp_path: Path, number_of: dict[int, int]
) -> None:
    # The area is the left half of the first sheet, without its upper 60 rows.
    (west, south), (east, north) = degrees(0, 100), degrees(50, 60)
    ring = f"{west} {south}, {east} {south}, {east} {north}, {west} {north}, {west} {south}"
    rules = {
        "default": "allow",
        "areas": {"part": {"wkt": f"POLYGON(({ring}))", "crs": "CRS:84"}},
        "rules": [{"name": "part", "limit": {"area": "part"}}],
    }
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    access = {"rules": str(tmp_path / "rules.json")}
    server = write(tmp_path / "server", pyramid, server_overrides={"plugins": {"access": access}})
    client = Client(create_application(str(server)))
    places = [(25.5, 80.5), (25.5, 50.5), (49.5, 60.5), (50.5, 60.5), (150.5, 80.5), (25.5, 10.5)]
    document = send(client, {"type": "MultiPoint", "coordinates": [degrees(*at) for at in places]})
    first = number_of[0]
    numbers = [one["number"] for one in document.json["points"]]
    assert numbers == [first, None, first, None, None, None]
    (row,) = client.get("/provenance/MAP/sources").json["sources"]
    assert row["number"] == first
    assert "pixels" not in row
    assert row["box"] == pytest.approx([west, south, east, north], abs=1e-3)
    (item,) = client.get("/provenance/MAP/sources.geojson").json["features"]
    assert np.array(item["geometry"]["coordinates"][0]).max(axis=0) == pytest.approx(
        [east, north], abs=1e-3
    )
    shares = client.get("/provenance/MAP/view").json["sources"]
    assert [(one["number"], one["share"]) for one in shares] == [(first, 1.0)]


def test_exports_name_the_sources_of_their_area(pyramid: Path, tmp_path: Path) -> None:
    agency = {"title": "Agency", "url": "https://example.org"}
    server = write_installation(
        tmp_path / "server",
        layers={"MAP": layer_document(pyramid, title="Map", attribution=agency)},
        services=["provenance"],
    )
    # The right one of two tiles has one source.
    (west, south), (east, north) = degrees(270, 90), degrees(310, 60)
    for name, words, expected in (
        ("part", [f"--bbox={west},{south},{east},{north}", "--crs", "CRS:84"], ["B & <C>"]),
        ("whole", [], ["A", "B & <C>"]),
    ):
        out = tmp_path / name
        words = ["MAP", str(out), "--format", "dir", "--level", str(LEVEL), *words]
        ended = mastaba("export", "-f", str(server), *words)
        assert ended.returncode == 0, ended.stderr
        documents = [json.loads(path.read_text()) for path in out.glob("*.json")]
        (text,) = {one["attribution"] for one in documents}
        assert text.startswith("Agency; © ")
        assert [one for one in ("A", "B & <C>") if f" {one} " in text] == expected


@pytest.mark.parametrize("words", [["tif"], ["cog", "--compression", "deflate"]], ids=str)
def test_exported_rasters_name_the_sources_of_their_area(
    pyramid: Path, tmp_path: Path, words: list[str], number_of: dict[int, int]
) -> None:
    import rasterio

    server = write_installation(
        tmp_path / "server",
        layers={"MAP": layer_document(pyramid, title="Map")},
        services=["provenance"],
    )
    (west, south), (east, north) = degrees(10, 40), degrees(60, 5)
    out = tmp_path / "map.tif"
    box = [f"--bbox={west},{south},{east},{north}", "--crs", "CRS:84", "--fit", "exact"]
    command = ["export", "-f", str(server), "MAP", str(out), "--format", *words, *box]
    for more in ([], ["--verify"]):
        ended = mastaba(*command, *more)
        assert ended.returncode == 0, ended.stderr
    with rasterio.open(out) as dataset:
        found = dataset.tags()
    (row,) = json.loads(found["SOURCES"])
    assert (row["number"], row["share"]) == (number_of[3], 1)
    assert found["TIFFTAG_DATETIME"] == "2023:07:01 00:00:00"


def test_measures_of_heights(client: Client) -> None:
    """IGN's altimetry names the source of each pixel, and its accuracy if that is known."""
    places = [(10.5, 75.5), (150.5, 20.5), (10.5, 20.5)]
    lon, lat = ("|".join(map(str, axis)) for axis in zip(*(degrees(*at) for at in places)))  # noqa: B905
    path = "/elevation/1.0/calcul/alti/rest/elevation.json?measures=true&resource="
    answer = client.get(f"{path}MAP&lon={lon}&lat={lat}")
    assert answer.status_code == 200, answer.text
    measures = [point["measures"][0] for point in answer.json["elevations"]]
    assert [one["source_name"] for one in measures] == ["sheet0.tif", "sheet1.tif", "sheet3.tif"]
    assert {one["source_measure"] for one in measures} == {"Pixel value"}
    assert [one["acc"] for one in measures] == [0.4, "", ""]
    plain = client.get(f"{path}PLAIN&lon={lon}&lat={lat}").json["elevations"][0]["measures"][0]
    assert (plain["source_name"], plain["source_measure"]) == ("PLAIN", "Fixed value")


def test_years_of_a_line_reach_to_the_last_one() -> None:
    def row(date: str) -> dict[str, Any]:
        first, _, last = date.partition("/")
        dates = {"start": first, "end": last} if last else {"date": first}
        return {"number": 1, "attribution": {"title": "A"}, **dates}

    assert line_of([row("2000"), row("1990/2023")]) == "© A 1990–2023"
    assert line_of([row("2021"), row("2019/2020")]) == "© A 2019–2021"
    assert line_of([row("2021"), row("2021-05")]) == "© A 2021"
