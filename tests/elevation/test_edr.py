"""OGC API EDR: documents, queries, and the requests of the test suite (elevation.md 2)."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import covjson_pydantic.coverage as covjson
import edr_pydantic.capabilities as edr_capabilities
import edr_pydantic.collections as edr_collections
import jsonschema
import numpy as np
import pytest
import rasterio
import shapely
from lxml import html
from openapi_spec_validator import validate
from pyproj import Geod
from tests.elevation.conftest import Open, post, read
from tests.elevation.world import ALPS, MERC, WORLD, plain_sample
from werkzeug.test import Client, TestResponse

from mastaba.api.catalogue import CRS, WGS84, transform_points
from mastaba.wsgi import create_application
from mastaba_elevation.edr.names import OUTPUT
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

EDR = "/elevation/edr"
PUBLIC = "http://maps.example/elevation/edr"
COVERAGE = "application/vnd.cov+json"


def ask(client: Client, collection: str, query: str, **parameters: Any) -> TestResponse:
    names = {name.replace("_", "-"): str(value) for name, value in parameters.items()}
    return client.get(f"{EDR}/collections/{collection}/{query}", query_string=names)


def coverage(response: TestResponse) -> Any:
    """Return a coverage that an independent reader accepts."""
    content = read(response)
    assert response.content_type == COVERAGE
    covjson.Coverage.model_validate_json(response.data)
    return content


def in_degrees(x: float, y: float) -> tuple[float, float]:
    lon, lat = transform_points(CRS.from_code("EPSG:2154"), WGS84, np.array([x]), np.array([y]))
    return float(lon[0]), float(lat[0])


TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
QUERY = {
    "type": "object",
    "required": [
        *("query_type", "title", "description", "output_formats", "default_output_format"),
        "crs_details",
    ],
    "properties": {
        **dict.fromkeys(("query_type", "title", "description", "default_output_format"), TEXT),
        **dict.fromkeys(("output_formats", "within_units", "width_units", "height_units"), TEXTS),
        "crs_details": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["crs", "wkt"],
                "properties": {"crs": TEXT, "wkt": TEXT},
            },
        },
    },
}


def query_schema(*more: str) -> dict[str, Any]:
    """Return the schema of a query whose link has more than the common variables."""
    variables = {**QUERY, "required": [*QUERY["required"], *more]}
    link = {"type": "object", "required": ["href", "rel"], "properties": {"variables": variables}}
    return {"type": "object", "required": ["link"], "properties": {"link": link}}


COLLECTION = {
    "type": "object",
    "required": [
        *("links", "id", "extent", "data_queries", "parameter_names", "output_formats", "crs")
    ],
    "properties": {
        **dict.fromkeys(("id", "title", "description"), TEXT),
        **dict.fromkeys(("keywords", "output_formats", "crs"), TEXTS),
        "data_queries": {
            "type": "object",
            "additionalProperties": query_schema(),
            "properties": {
                "radius": query_schema("within_units"),
                "cube": query_schema("height_units"),
                "corridor": query_schema("width_units", "height_units"),
            },
        },
    },
}
"""What the schema of EDR 1.2 (19-086r6 clause 8.3) requires of a collection."""


# ---------------------------------------------------------------- documents


def test_landing_page(client: Client) -> None:
    response = client.get(EDR)
    content = read(response)
    edr_capabilities.LandingPageModel.model_validate_json(response.data)
    rels = {item["rel"] for item in content["links"]}
    assert rels == {"self", "service-desc", "service-doc", "conformance", "data"}
    for item in content["links"]:
        assert item["href"].startswith(PUBLIC)
        path = item["href"].removeprefix("http://maps.example")
        assert client.get(path).status_code == 200
        assert client.get(path).content_type.partition(";")[0] == item["type"].partition(";")[0]


def test_conformance(client: Client) -> None:
    response = client.get(f"{EDR}/conformance")
    edr_capabilities.ConformanceModel.model_validate_json(response.data)
    classes = read(response)["conformsTo"]
    for version in (
        "http://www.opengis.net/spec/ogcapi-edr-1/1.0",
        "http://www.opengis.net/spec/ogcapi-edr-1/1.1",
    ):
        for name in ("core", "collections", "queries", "json", "covjson", "oas30", "html"):
            assert f"{version}/conf/{name}" in classes
    for version in (
        "http://www.opengis.net/spec/ogcapi-edr-1/1.1",
        "https://www.opengis.net/spec/ogcapi-edr-1/1.2",
    ):
        assert f"{version}/conf/edr-geojson" in classes
    # The suite then demands a query that a raster cannot answer, or a class by another name.
    assert not any(item.endswith("/geojson") for item in classes)
    assert not any("/1.0/" in item and "geojson" in item for item in classes)


def test_collections(client: Client) -> None:
    response = client.get(f"{EDR}/collections")
    content = read(response)
    edr_collections.Collections.model_validate_json(response.data)
    assert [item["id"] for item in content["collections"]] == ["stack", "alps", "merc", "world"]
    definitions: dict[str, str] = {}
    for item in content["collections"]:
        whole = read(client.get(f"{EDR}/collections/{item['id']}"))
        jsonschema.validate(item, COLLECTION)
        jsonschema.validate(whole, COLLECTION)
        for name, query in item["data_queries"].items():
            details = query["link"]["variables"].pop("crs_details")
            wanted = whole["data_queries"][name]["link"]["variables"].pop("crs_details")
            assert [one["crs"] for one in details] == [one["crs"] for one in wanted]
            for one, known in zip(details, wanted, strict=True):
                # Each CRS is described once, where it is named first.
                first = one["crs"] not in definitions
                assert one["wkt"] == (known["wkt"] if first else "")
                definitions.setdefault(one["crs"], known["wkt"])
        assert item == whole
    texts = sum(map(len, definitions.values()))
    assert len(response.data) < 9000 * len(content["collections"]) + 2 * texts


def test_a_filtered_list_of_collections_describes_its_crs(client: Client) -> None:
    (item,) = read(client.get(f"{EDR}/collections?bbox=-20,-50,-10,-40"))["collections"][1:]
    first, *others = item["data_queries"].values()
    assert item["id"] == "world"
    assert all(one["wkt"] == "" for one in first["link"]["variables"]["crs_details"])
    assert {one["crs"] for one in others[0]["link"]["variables"]["crs_details"]} == set(item["crs"])


def test_collection(client: Client) -> None:
    content = read(client.get(f"{EDR}/collections/alps"))
    assert content["crs"][-2:] == ["EPSG:4326", "CRS84"]
    assert content["output_formats"] == ["CoverageJSON", "GeoJSON", "CSV", "GeoTIFF"]
    assert content["extent"]["temporal"]["interval"] == [["2020-01-02T00:00:00Z"] * 2]
    assert set(content["data_queries"]) == {
        *("position", "radius", "area", "cube", "trajectory", "corridor")
    }
    for name, query in content["data_queries"].items():
        link = query["link"]
        assert link["href"] == f"{PUBLIC}/collections/alps/{name}"
        assert link["rel"] == "data"
        assert link["templated"] is False
        variables = link["variables"]
        assert variables["query_type"] == name
        assert variables["default_output_format"] == "CoverageJSON"
        assert [item["crs"] for item in variables["crs_details"]] == content["crs"]
        assert all("CRS" in item["wkt"] for item in variables["crs_details"])
    radius = content["data_queries"]["radius"]["link"]["variables"]
    assert radius["within_units"] == radius["within-units"] == ["m", "km", "mi", "ft"]
    corridor = content["data_queries"]["corridor"]["link"]["variables"]
    for name in ("width_units", "width-units", "height_units", "height-units"):
        assert corridor[name] == ["m", "km", "mi", "ft"]
    assert any(item["rel"] in ("data", "collection") and item["type"] for item in content["links"])
    elevation = content["parameter_names"]["elevation"]
    assert "NGF-IGN69" in elevation["description"]
    assert elevation["unit"]["symbol"]["value"] == "m"


def test_list_is_filtered_by_box(client: Client) -> None:
    pacific = read(client.get(f"{EDR}/collections?bbox=-170,-50,-160,-40"))
    assert [item["id"] for item in pacific["collections"]] == ["stack", "world"]
    assert client.get(f"{EDR}/collections?bbox=1,2").status_code == 400
    assert client.get(f"{EDR}/collections?datetime=2020-01-01").status_code == 200
    assert client.get(f"{EDR}/collections?datetime=yesterday").status_code == 400


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("2020-01-02", True),
        ("2020", True),
        ("2020-01-02T00:00:00Z", True),
        ("2020-01-03", False),
        ("2019", False),
        ("2019-01-01/2021-01-01", True),
        ("../2020-01-01", False),
        ("../2020-01-02", True),
        ("2020-01-02T00:00:01Z/..", False),
        ("null", True),
    ],
)
def test_list_is_filtered_by_time(client: Client, value: str, found: bool) -> None:
    """The layer alps is of 2020-01-02; the others have times until the start of the server."""
    response = client.get(f"{EDR}/collections", query_string={"datetime": value})
    names = [item["id"] for item in read(response)["collections"]]
    assert ("alps" in names) is found
    assert "world" in names


def test_temporal_extent_can_be_left_out(open_with: Open) -> None:
    client = open_with({"facades": {"edr": {"temporal": False}}})
    assert "temporal" not in read(client.get(f"{EDR}/collections/alps"))["extent"]


def test_definition_is_valid_and_describes_every_query(client: Client) -> None:
    response = client.get(f"{EDR}/api")
    assert response.content_type == "application/vnd.oai.openapi+json;version=3.0"
    content = response.get_json()
    validate(content)
    assert content["servers"] == [{"url": PUBLIC}]
    for path, item in content["paths"].items():
        parameters = {entry["name"]: entry for entry in item["get"]["parameters"]}
        end = path.rpartition("/")[2]
        if end in ("position", "area", "trajectory", "radius", "corridor"):
            coords = parameters["coords"]
            assert (coords["required"], coords["explode"]) == (True, False)
            assert coords["schema"] == {"type": "string"}
        if end == "cube":
            assert parameters["bbox"]["required"]
            assert "oneOf" in parameters["bbox"]["schema"]
        if end in content["paths"]["/collections/alps"]:
            assert {"crs", "f", "datetime", "parameter-name"} <= set(parameters)


def test_page_for_people(client: Client) -> None:
    response = client.get(f"{EDR}/api?f=html")
    assert response.content_type.startswith("text/html")
    assert "/collections/alps/position" in response.text
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    # The forms are sent to the host of the page, which need not be the public one.
    assert "form-action 'self'" in policy
    assert all(form.action.startswith(EDR) for form in html.fromstring(response.text).forms)


def test_every_form_of_the_page_finds_something(client: Client) -> None:
    page = html.fromstring(client.get(f"{EDR}/api?f=html").text)
    paths = client.get(f"{EDR}/api").get_json()["paths"]
    forms = {form.action.removeprefix(EDR) or "/": form for form in page.forms}
    assert forms.keys() == paths.keys()
    for path, form in forms.items():
        assert (form.method, len(form.xpath(".//button"))) == ("GET", 1)
        names = [item["name"] for item in paths[path]["get"]["parameters"]]
        assert [name for name, _ in form.form_values()] == names
        # A browser sends the empty fields, too.
        answer = client.get(f"{EDR}{path}".rstrip("/"), query_string=form.form_values())
        assert answer.status_code == 200, (path, form.form_values(), answer.text)


def test_examples_are_in_the_middle_of_the_finest_level(tmp_path: Path) -> None:
    levels = (LevelPlan("2", 0, 3, 0, 3), LevelPlan("4", 2, 3, 4, 5))
    write_pyramid(
        tmp_path / "pyramids",
        "HEIGHT",
        tile_matrix_set=web_mercator(),
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=levels,
        tile=lambda level, row, col: np.full((256, 256), int(level), np.float32),
    )
    file = write_installation(
        tmp_path,
        layers={"HEIGHT": layer_document(tmp_path / "pyramids/HEIGHT.json")},
        services=["elevation"],
        public_url="http://maps.example",
    )
    client = Client(create_application(str(file)))
    paths = client.get(f"{EDR}/api").get_json()["paths"]
    entries = paths["/collections/HEIGHT/position"]["get"]["parameters"]
    (coords,) = (entry["example"] for entry in entries if entry["name"] == "coords")
    content = coverage(ask(client, "HEIGHT", "position", coords=coords))
    assert content["ranges"]["elevation"]["values"] == [4]


def test_forms_offer_the_words_of_the_definition(client: Client) -> None:
    page = html.fromstring(client.get(f"{EDR}/api?f=html").text)
    (form,) = (form for form in page.forms if form.action.endswith("/alps/radius"))
    assert form.inputs["within-units"].value == "m"
    assert "" not in form.inputs["within-units"].value_options
    assert form.inputs["f"].value_options[:2] == ["", "CoverageJSON"]


# ---------------------------------------------------------------- queries


def test_point(client: Client) -> None:
    lon, lat = in_degrees(900400, 6599700)
    content = coverage(ask(client, "alps", "position", coords=f"POINT({lon} {lat})"))
    height, _ = plain_sample(ALPS, 900400, 6599700)
    assert content["domain"]["domainType"] == "Point"
    assert content["domain"]["axes"] == {"x": {"values": [lon]}, "y": {"values": [lat]}}
    values = content["ranges"]["elevation"]
    assert set(values) == {"type", "dataType", "values"}
    assert values["values"] == [pytest.approx(height, abs=0.02)]
    referencing = content["domain"]["referencing"][0]
    assert referencing["system"]["id"] == "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
    parameter = content["parameters"]["elevation"]
    assert parameter["mastaba:verticalCrs"] == "http://www.opengis.net/def/crs/EPSG/0/5720"


def test_several_points_in_the_order_of_the_request(client: Client) -> None:
    places = [(900400, 6599700), (900100, 6599900), (900400, 6599700), (0, 0)]
    text = ",".join(f"({x} {y})" for x, y in places)
    names = "elevation,layer,resolution"
    content = coverage(
        ask(
            client,
            "alps",
            "position",
            coords=f"MULTIPOINT({text})",
            crs="EPSG:2154",
            parameter_name=names,
        )
    )
    wanted = [plain_sample(ALPS, x, y)[0] for x, y in places]
    assert content["domain"]["domainType"] == "MultiPoint"
    assert content["domain"]["axes"]["composite"]["values"] == [list(map(float, p)) for p in places]
    found = content["ranges"]["elevation"]
    assert (found["shape"], found["axisNames"]) == ([4], ["composite"])
    for value, height in zip(found["values"], wanted, strict=True):
        assert value == (None if height is None else pytest.approx(height, abs=0.0051))
    assert content["ranges"]["layer"]["values"] == ["alps", "alps", "alps", None]
    assert content["ranges"]["resolution"]["values"] == [10, 10, 10, None]


def test_epsg_codes_have_their_own_axis_order(client: Client) -> None:
    wanted = coverage(ask(client, "world", "position", coords="POINT(20.5 10.25)"))
    found = coverage(ask(client, "world", "position", coords="POINT(10.25 20.5)", crs="EPSG:4326"))
    assert found["ranges"] == wanted["ranges"]
    assert found["domain"]["axes"] == wanted["domain"]["axes"]
    assert found["domain"]["referencing"][0]["coordinates"] == ["y", "x"]
    for name in ("CRS84", "CRS:84", "http://www.opengis.net/def/crs/OGC/1.3/CRS84", "OGC:CRS84"):
        named = ask(client, "world", "position", coords="POINT(20.5 10.25)", crs=name)
        assert coverage(named) == wanted


def test_trajectory(client: Client) -> None:
    text = "LINESTRING(900100 6599900,900300 6599700,900350 6599700)"
    content = coverage(ask(client, "alps", "trajectory", coords=text, crs="EPSG:2154", points=20))
    values = content["domain"]["axes"]["composite"]["values"]
    assert content["domain"]["domainType"] == "MultiPoint"
    assert len(values) == 20
    for vertex in ([900100, 6599900], [900300, 6599700], [900350, 6599700]):
        assert vertex in values
    distances = content["ranges"]["distance"]["values"]
    assert distances == sorted(distances)
    assert distances[-1] == pytest.approx(math.hypot(200, 200) + 50, abs=0.01)
    for (x, y), found in zip(values, content["ranges"]["elevation"]["values"], strict=True):
        height, _ = plain_sample(ALPS, x, y)
        assert found == (None if height is None else pytest.approx(height, abs=0.0051))
    default = coverage(ask(client, "alps", "trajectory", coords=text, crs="EPSG:2154"))
    assert len(default["ranges"]["distance"]["values"]) == 200


@pytest.mark.parametrize(
    "coords",
    ["LINESTRINGZ(6 45 0,7 46 10)", "LINESTRING Z (6 45 0,7 46 10)", "linestring(6 45,7 46)"],
)
def test_z_is_ignored(client: Client, coords: str) -> None:
    plain = coverage(ask(client, "world", "trajectory", coords="LINESTRING(6 45,7 46)"))
    assert coverage(ask(client, "world", "trajectory", coords=coords)) == plain


@pytest.mark.parametrize(
    "coords",
    [
        "LINESTRINGM(6 45 1560507000,7 46 1560507600)",
        "LINESTRINGZM(6 45 9 1560507000,7 46 9 1560507600)",
    ],
)
def test_m_is_time(client: Client, coords: str) -> None:
    content = coverage(ask(client, "world", "trajectory", coords=coords, points=3))
    composite = content["domain"]["axes"]["composite"]
    assert content["domain"]["domainType"] == "Trajectory"
    assert composite["coordinates"] == ["t", "x", "y"]
    times = [value[0] for value in composite["values"]]
    assert times[0] == "2019-06-14T10:10:00Z"
    assert times[2] == "2019-06-14T10:20:00Z"
    assert times == sorted(times)


@pytest.mark.parametrize("more", [{}, {"simplify": "minmax"}, {"simplify": "1"}])
def test_m_of_several_lines_is_time(client: Client, more: dict[str, str]) -> None:
    lines = "(6 45 1000000000,7 45 1000000100),(7 45 1000000160,7 46 1000000260,8 46 1000000300)"
    content = coverage(
        ask(client, "world", "trajectory", coords=f"MULTILINESTRINGM({lines})", points=50, **more)
    )
    assert content["domain"]["domainType"] == "Trajectory"
    composite = content["domain"]["axes"]["composite"]
    assert composite["coordinates"] == ["t", "x", "y"]
    start = datetime.fromtimestamp(1000000000, UTC)
    points = [
        (round((datetime.fromisoformat(time) - start).total_seconds()), x, y)
        for time, x, y in composite["values"]
    ]
    times = [time for time, _, _ in points]
    assert times == sorted(times)
    # Nothing lies between the end of a line and the beginning of the next one.
    assert not any(100 < time < 160 for time in times)
    known = {time: (x, y) for time, x, y in points}
    assert (known[0], known[300]) == ((6, 45), (8, 46))
    if not more:
        assert (known[100], known[160], known[260]) == ((7, 45), (7, 45), (7, 46))


@pytest.mark.parametrize(
    "lines",
    [
        "(6 45 10,7 45 20),(7 45 15,7 46 30)",
        "(6 45 10,7 45 20),(7 45 30,7 46 25)",
        "(6 45 10,7 45 20),(7 45 30,7 45 40)",
    ],
    ids=["before the end", "descending", "without length"],
)
def test_m_that_does_not_ascend_is_no_time(client: Client, lines: str) -> None:
    content = coverage(ask(client, "world", "trajectory", coords=f"MULTILINESTRINGM({lines})"))
    assert content["domain"]["domainType"] == "MultiPoint"


@pytest.mark.parametrize("simplify", ["minmax", "50"])
def test_trajectory_is_simplified(client: Client, simplify: str) -> None:
    line = "LINESTRINGM(900020 6599980 0,900900 6599300 1000)"
    parameters = {"coords": line, "crs": "EPSG:2154", "parameter_name": "elevation,distance"}
    fine = coverage(ask(client, "alps", "trajectory", points=5000, **parameters))["ranges"]
    few = coverage(ask(client, "alps", "trajectory", points=20, simplify=simplify, **parameters))
    heights = [h for h in fine["elevation"]["values"] if h is not None]
    kept = [h for h in few["ranges"]["elevation"]["values"] if h is not None]
    distances = few["ranges"]["distance"]["values"]
    assert len(distances) <= 20
    assert distances[0] == 0
    assert distances[-1] == fine["distance"]["values"][-1]
    times = [entry[0] for entry in few["domain"]["axes"]["composite"]["values"]]
    assert times == sorted(times)
    if simplify == "minmax":
        assert max(kept) == max(heights)
        assert min(kept) == min(heights)


def test_several_lines_follow_each_other(client: Client) -> None:
    text = "MULTILINESTRING((6 45,7 46),(10 45,11 46))"
    content = coverage(ask(client, "world", "trajectory", coords=text, points=11))
    values = content["domain"]["axes"]["composite"]["values"]
    assert len(values) == 11
    assert [7, 46] in values
    assert [10, 45] in values


def test_area_in_the_native_crs_has_the_stored_pixels(client: Client) -> None:
    text = "POLYGON((900100 6599900,900400 6599900,900400 6599600,900100 6599900))"
    content = coverage(ask(client, "alps", "area", coords=text, crs="EPSG:2154"))
    axes = content["domain"]["axes"]
    assert axes["x"] == {"start": 900105, "stop": 900395, "num": 30}
    assert axes["y"] == {"start": 6599895, "stop": 6599605, "num": 30}
    values = content["ranges"]["elevation"]
    assert values["axisNames"] == ["y", "x"]
    heights = np.array(values["values"], float).reshape(values["shape"])
    for row in range(30):
        for column in range(30):
            stored = ALPS.pixel("2", 10 + column, 10 + row)
            # The triangle is on and above the diagonal.
            if column > row and stored is not None:
                assert heights[row, column] == pytest.approx(stored, abs=0.0051)
            elif column < row:
                assert np.isnan(heights[row, column])


def test_area_in_degrees(client: Client) -> None:
    content = coverage(ask(client, "merc", "area", coords="POLYGON((5 55,6 55,6 56,5 56,5 55))"))
    axes, values = content["domain"]["axes"], content["ranges"]["elevation"]["values"]
    shape = content["ranges"]["elevation"]["shape"]
    assert shape == [axes["y"]["num"], axes["x"]["num"]]
    xs = np.linspace(axes["x"]["start"], axes["x"]["stop"], axes["x"]["num"])
    ys = np.linspace(axes["y"]["start"], axes["y"]["stop"], axes["y"]["num"])
    east, south = np.array([6.0]), np.array([55.0])
    outside = transform_points(WGS84, CRS.from_code("EPSG:3857"), east, south)
    mx, my = transform_points(WGS84, CRS.from_code("EPSG:3857"), *np.meshgrid(xs, ys))
    for x, y, value in zip(mx.ravel(), my.ravel(), values, strict=True):
        height, _ = plain_sample(MERC, x, y)
        if x > outside[0] or y < outside[1]:
            height = None
        assert value == (None if height is None else pytest.approx(height, abs=0.01))


def test_large_area_is_answered_from_a_coarser_level(open_with: Open) -> None:
    client = open_with({"limits": {"tiles": 3}})
    world = "POLYGON((-180 -90,180 -90,180 90,-180 90,-180 -90))"
    content = coverage(ask(client, "world", "area", coords=world))
    assert content["ranges"]["elevation"]["shape"] == [16, 32]


def test_radius(client: Client) -> None:
    x, y = 900400, 6599700
    parameters = {"within": 0.05, "within_units": "km", "crs": "EPSG:2154"}
    content = coverage(ask(client, "alps", "radius", coords=f"POINT({x} {y})", **parameters))
    axes, found = content["domain"]["axes"], content["ranges"]["elevation"]
    xs = np.linspace(axes["x"]["start"], axes["x"]["stop"], axes["x"]["num"])
    ys = np.linspace(axes["y"]["start"], axes["y"]["stop"], axes["y"]["num"])
    for value, px, py in zip(
        found["values"], np.tile(xs, len(ys)), np.repeat(ys, len(xs)), strict=True
    ):
        distance = math.hypot(px - x, py - y)
        # Half a diagonal of a cell: those on the edge belong to the circle.
        if distance > 57.2:
            assert value is None
        elif distance < 49.5:
            height, _ = plain_sample(ALPS, px, py)
            assert value == (None if height is None else pytest.approx(height, abs=0.0051))


def to_segment(x: float, y: float, ax: float, ay: float, bx: float, by: float) -> float:
    """Return the distance of a point to a segment."""
    along = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / math.hypot(bx - ax, by - ay) ** 2
    along = min(max(along, 0.0), 1.0)
    return math.hypot(x - ax - along * (bx - ax), y - ay - along * (by - ay))


def cells(content: Any) -> Iterator[tuple[float, float, float | None]]:
    """Yield x, y and height of each cell of a grid."""
    axes, found = content["domain"]["axes"], content["ranges"]["elevation"]
    xs = np.linspace(axes["x"]["start"], axes["x"]["stop"], axes["x"]["num"])
    ys = np.linspace(axes["y"]["start"], axes["y"]["stop"], axes["y"]["num"])
    assert found["shape"] == [len(ys), len(xs)]
    places = np.tile(xs, len(ys)).tolist(), np.repeat(ys, len(xs)).tolist()
    yield from zip(*places, found["values"], strict=True)


# The second line crosses itself: what is inside of two pieces is inside.
@pytest.mark.parametrize(
    "line",
    [
        [(900400, 6599700), (900700, 6599500)],
        [(900400, 6599700), (900600, 6599500), (900600, 6599700), (900400, 6599500)],
    ],
)
def test_corridor(client: Client, line: list[tuple[int, int]]) -> None:
    text = ",".join(f"{x} {y}" for x, y in line)
    parameters = {"corridor_width": 100, "width_units": "m", "crs": "EPSG:2154"}
    response = ask(client, "alps", "corridor", coords=f"LINESTRING({text})", **parameters)
    inside = outside = 0
    for x, y, value in cells(coverage(response)):
        distance = min(to_segment(x, y, *a, *b) for a, b in pairwise(line))
        if distance > 57.2:
            outside += 1
            assert value is None
        elif distance < 49.5:
            inside += 1
            height, _ = plain_sample(ALPS, x, y)
            assert value == (None if height is None else pytest.approx(height, abs=0.0051))
    assert inside > 300
    assert outside > 100


NARROW = [0.001, 0.5, 2.0, 5.0, 9.0]
"""Metres; cells have 10."""


@pytest.mark.parametrize("width", NARROW)
@pytest.mark.parametrize("crs", ["EPSG:2154", "CRS84"])
def test_narrow_corridor_has_heights_all_along(client: Client, width: float, crs: str) -> None:
    ends = [(900333.0, 6599777.0), (900466.0, 6599702.0)]
    if crs == "CRS84":
        ends = [in_degrees(*end) for end in ends]
    text = ",".join(f"{x} {y}" for x, y in ends)
    parameters = {"corridor_width": width, "width_units": "m", "crs": crs}
    response = ask(client, "alps", "corridor", coords=f"LINESTRING({text})", **parameters)
    content = coverage(response)
    axes = content["domain"]["axes"]
    half = (axes["x"]["stop"] - axes["x"]["start"]) / (axes["x"]["num"] - 1) / 2
    line, wanted = shapely.LineString(ends), 0
    for x, y, value in cells(content):
        cell = shapely.box(x - half, y - half, x + half, y + half)
        if crs == "CRS84":
            place = transform_points(
                WGS84, CRS.from_code("EPSG:2154"), np.array([x]), np.array([y])
            )
            x, y = (float(part[0]) for part in place)
        height, _ = plain_sample(ALPS, x, y)
        if line.intersection(cell).length > 1e-3 * half:
            wanted += height is not None
            assert value == (None if height is None else pytest.approx(height, abs=0.011))
        elif line.distance(cell) > half:
            assert value is None
    assert wanted > 10


@pytest.mark.parametrize("width", NARROW)
@pytest.mark.parametrize("crs", ["EPSG:2154", "CRS84", "EPSG:3857"])
def test_small_circle_and_polygon_have_heights(client: Client, width: float, crs: str) -> None:
    """Also if no centre of a cell is inside."""
    corners = [(0, 0), (width, 0), (width, width), (0, width), (0, 0)]
    places = np.array([(900333.1 + x, 6599777.1 + y) for x, y in corners])
    native = CRS.from_code("EPSG:2154")
    target = CRS.from_code("CRS:84" if crs == "CRS84" else crs)
    shown = np.column_stack(transform_points(native, target, *places.T)).tolist()
    x, y = shown[0]
    circle = {"coords": f"POINT({x} {y})", "within": width / 2, "within_units": "m"}
    ring = ",".join(f"{a} {b}" for a, b in shown)
    for query, parameters in (("radius", circle), ("area", {"coords": f"POLYGON(({ring}))"})):
        response = ask(client, "alps", query, crs=crs, **parameters)
        assert response.status_code == 200, (query, crs)
        values = coverage(response)["ranges"]["elevation"]["values"]
        around = [
            ALPS.pixel("2", 33 + column, 22 + row) for column in (-1, 0, 1, 2) for row in (-1, 0, 1)
        ]
        known = [height for height in around if height is not None]
        shown_heights = [value for value in values if value is not None]
        assert shown_heights
        assert min(known) - 0.01 <= min(shown_heights) <= max(shown_heights) <= max(known) + 0.01


def test_grid_is_around_the_part_of_a_corridor_that_has_data(client: Client) -> None:
    """A line that leaves the data has the cells of the finest level where it is inside."""
    start, end = in_degrees(900400, 6599700), in_degrees(2_400_400, 6599700)
    line = f"LINESTRING({start[0]} {start[1]},{end[0]} {end[1]})"
    parameters = {"coords": line, "corridor_width": 30, "width_units": "m"}
    content = coverage(ask(client, "alps", "corridor", **parameters))
    axes = content["domain"]["axes"]
    step = (axes["x"]["stop"] - axes["x"]["start"]) / (axes["x"]["num"] - 1)
    assert step * 111_320 == pytest.approx(10, rel=0.05)
    assert axes["x"]["num"] < 200
    heights = np.array(content["ranges"]["elevation"]["values"], float)
    shape = content["ranges"]["elevation"]["shape"]
    assert (~np.isnan(heights.reshape(shape))).any(axis=0).mean() > 0.8


def test_corridor_in_degrees_crosses_the_antimeridian(client: Client) -> None:
    parameters = {"corridor_width": 800, "width_units": "km"}
    response = ask(client, "world", "corridor", coords="LINESTRING(170 60,-170 60)", **parameters)
    for x, y, value in cells(coverage(response)):
        along = min(max(x, 170), 190)
        distance = Geod(ellps="WGS84").inv(x, y, along, 60)[2]
        if distance > 515_000:
            assert value is None
        elif distance < 395_000:
            height, _ = plain_sample(WORLD, (x + 180) % 360 - 180, y)
            assert value == (None if height is None else pytest.approx(height, abs=0.0051))


def test_corridor_ignores_heights_and_is_an_image_too(client: Client) -> None:
    parameters = {"coords": "LINESTRING(900400 6599700,900700 6599500)", "crs": "EPSG:2154"}
    parameters |= {"corridor_width": 0.1, "width_units": "km"}
    plain = ask(client, "alps", "corridor", **parameters)
    high = ask(client, "alps", "corridor", corridor_height=5, height_units="m", **parameters)
    assert plain.data == high.data
    image = ask(client, "alps", "corridor", f="GeoTIFF", **parameters)
    assert image.content_type == "image/tiff;application=geotiff"


def test_cube(client: Client) -> None:
    box = "900100,6599600,900400,6599900"
    content = coverage(ask(client, "alps", "cube", bbox=box, crs="EPSG:2154"))
    assert content["ranges"]["elevation"]["shape"] == [30, 30]
    positions = coverage(
        ask(client, "alps", "cube", bbox=box, crs="EPSG:2154", resolution_x=4, resolution_y=2)
    )
    assert positions["domain"]["axes"] == {
        "x": {"start": 900100, "stop": 900400, "num": 4},
        "y": {"start": 6599900, "stop": 6599600, "num": 2},
    }
    level = ask(client, "alps", "cube", bbox=box, crs="EPSG:2154", resolution_x=0, resolution_y=0)
    assert coverage(level) == content


def test_cube_takes_six_numbers_and_crosses_the_antimeridian(client: Client) -> None:
    flat = coverage(ask(client, "world", "cube", bbox="170,0,-170,10"))
    high = coverage(ask(client, "world", "cube", bbox="170,0,0,-170,10,9000"))
    assert flat == high
    assert flat["domain"]["axes"]["x"]["stop"] > 180


def test_statistics(client: Client) -> None:
    text = "POLYGON((900100 6599900,900400 6599900,900400 6599600,900100 6599600,900100 6599900))"
    response = ask(client, "alps", "area", coords=text, crs="EPSG:2154", stats="true")
    assert response.content_type == "application/geo+json"
    feature = read(response)["features"][0]
    assert feature["geometry"]["type"] == "Polygon"
    assert feature["properties"]["statistics"]["count"] == 900


# ---------------------------------------------------------------- formats


def test_no_answer_contains_the_time_of_the_request(client: Client) -> None:
    # Otherwise its ETag would never match.
    hours = [datetime.now(UTC).strftime("%Y-%m-%dT%H").encode()]
    answers = []
    for path, item in client.get(f"{EDR}/api").get_json()["paths"].items():
        if path.rpartition("/")[2] not in OUTPUT:
            continue
        parameters = {entry["name"]: entry for entry in item["get"]["parameters"]}
        examples = {
            name: entry["example"] for name, entry in parameters.items() if "example" in entry
        }
        if "bbox" in examples:
            examples["bbox"] = ",".join(map(str, examples["bbox"]))
        for form in parameters["f"]["schema"]["enum"]:
            for stats in ["true", "false"] if "stats" in parameters else [""]:
                query = {**examples, "f": form, "stats": stats}
                answers.append((path, query, client.get(f"{EDR}{path}", query_string=query).data))
    hours.append(datetime.now(UTC).strftime("%Y-%m-%dT%H").encode())
    assert len(answers) > 20
    for path, query, data in answers:
        assert not any(hour in data for hour in hours), (path, query)


def test_geojson(client: Client) -> None:
    response = ask(
        client,
        "alps",
        "position",
        coords="MULTIPOINT(900400 6599700,0 0)",
        crs="EPSG:2154",
        f="GeoJSON",
    )
    content = read(response)
    assert response.content_type == "application/geo+json"
    assert content["numberReturned"] == 2
    high, none = (feature["geometry"]["coordinates"] for feature in content["features"])
    assert (len(high), len(none)) == (3, 2)
    properties = content["features"][0]["properties"]
    assert {"datetime", "parameter-name", "label", "edrqueryendpoint", "elevation"} <= set(
        properties
    )
    assert properties["elevation"] == high[2]
    assert content["parameters"][0]["id"] == "elevation"


PARAMETER = {
    "type": "object",
    "required": ["type", "observedProperty"],
    "properties": {
        "type": {"const": "Parameter"},
        "description": {"type": "string"},
        "label": {"type": "string"},
        "observedProperty": {
            "type": "object",
            "required": ["label"],
            "properties": {"id": {"type": "string"}, "label": {"type": "string"}},
        },
        "unit": {"type": "object", "properties": {"label": {"type": "string"}}},
    },
}
EDR_GEOJSON = {
    "type": "object",
    "required": ["type", "features"],
    "properties": {
        "type": {"const": "FeatureCollection"},
        "features": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "geometry", "properties"],
                "properties": {
                    "type": {"const": "Feature"},
                    "properties": {
                        "type": "object",
                        "required": ["datetime", "parameter-name", "label", "edrqueryendpoint"],
                        "properties": {
                            "datetime": {"type": "string"},
                            "parameter-name": {"type": "array", "items": {"type": "string"}},
                            "label": {"type": "string"},
                            "edrqueryendpoint": {"type": "string"},
                        },
                    },
                },
            },
        },
        "parameters": {"type": "array", "items": PARAMETER},
        "numberReturned": {"type": "integer", "minimum": 0},
    },
}
"""What the schema of EDR GeoJSON (19-086r6 clause 9) says about members that are not GeoJSON's."""


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        ("position", {"coords": "MULTIPOINT(20 10,30 20)"}),
        ("trajectory", {"coords": "LINESTRING(20 10,30 20)", "points": 5}),
        ("cube", {"bbox": "20,10,30,20"}),
        ("area", {"coords": "POLYGON((20 10,30 10,30 20,20 10))", "stats": "true"}),
    ],
)
def test_geojson_is_valid(client: Client, query: str, parameters: dict[str, Any]) -> None:
    names = {} if query in ("cube", "area") else {"parameter_name": "elevation,layer,resolution"}
    content = read(ask(client, "world", query, f="GeoJSON", **names, **parameters))
    jsonschema.validate(content, EDR_GEOJSON)
    assert content["numberReturned"] == len(content["features"]) > 0


def test_csv(client: Client) -> None:
    text = "LINESTRING(900100 6599900,900300 6599700)"
    response = ask(
        client,
        "alps",
        "trajectory",
        coords=text,
        crs="EPSG:2154",
        f="CSV",
        points=5,
        parameter_name="elevation,distance,layer",
    )
    assert response.content_type == "text/csv; charset=utf-8; header=present"
    rows = list(csv.DictReader(io.StringIO(response.text, newline="")))
    assert list(rows[0]) == ["x", "y", "elevation", "distance", "layer"]
    assert len(rows) == 5
    assert rows[0]["x"] == "900100.0"


def test_geotiff(client: Client) -> None:
    box = "900100,6599600,900400,6599900"
    response = ask(client, "alps", "cube", bbox=box, crs="EPSG:2154", f="GeoTIFF")
    assert response.content_type == "image/tiff;application=geotiff"
    with rasterio.io.MemoryFile(response.data) as file, file.open() as image:
        assert image.crs.to_epsg() == 2154
        assert image.nodata == -99999
        assert tuple(image.bounds) == (900100, 6599600, 900400, 6599900)
        pixels = image.read(1)
    for row, column in ((0, 0), (5, 7), (29, 29), (1, 14)):
        stored = ALPS.pixel("2", 10 + column, 10 + row)
        assert pixels[row, column] == (-99999 if stored is None else np.float32(stored))


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", COVERAGE),
        ("*/*", COVERAGE),
        ("application/json", COVERAGE),
        ("text/csv", "text/csv; charset=utf-8; header=present"),
        ("application/geo+json, text/html;q=0.5", "application/geo+json"),
    ],
)
def test_accept_selects_the_format(client: Client, accept: str, media_type: str) -> None:
    path = f"{EDR}/collections/world/position?coords=POINT(20+10)"
    response = client.get(path, headers={"Accept": accept})
    if accept == "application/json":
        media_type = response.content_type
        assert "json" in media_type
    assert response.content_type == media_type
    assert client.get(path, headers={"Accept": "image/png"}).status_code == 406


def test_post_is_the_same(client: Client) -> None:
    body = {
        "coords": "MULTIPOINT(20 10,30 20)",
        "parameter-name": ["elevation", "layer"],
        "crs": "CRS84",
    }
    wanted = coverage(
        ask(client, "world", "position", coords=body["coords"], parameter_name="elevation,layer")
    )
    path = f"{EDR}/collections/world/position"
    assert coverage(post(client, path, body)) == wanted
    assert client.post(path, data="x", content_type="text/plain").status_code == 415


def test_no_value_is_204(client: Client) -> None:
    for query, parameters in (
        ("position", {"coords": "POINT(-100 40)"}),
        ("area", {"coords": "POLYGON((0 0,1 0,1 1,0 0))"}),
        ("cube", {"bbox": "0,0,1,1"}),
        ("trajectory", {"coords": "LINESTRING(0 0,1 1)"}),
        ("area", {"coords": "POLYGON((0 0,1 0,1 1,0 0))", "stats": "true"}),
    ):
        response = ask(client, "alps", query, **parameters)
        assert (response.status_code, response.data) == (204, b"")


# ---------------------------------------------------------------- the suite


def middle(content: Any) -> tuple[float, float]:
    west, south, east, north = content["extent"]["spatial"]["bbox"][0]
    return west + (east - west) / 2, south + (north - south) / 2


@pytest.mark.parametrize("name", ["stack", "world", "merc"])
@pytest.mark.parametrize("form", ["CoverageJSON", "GeoJSON"])
def test_requests_of_the_suite(client: Client, name: str, form: str) -> None:
    """Around the middle of the extent, with the last known CRS and the temporal extent."""
    content = read(client.get(f"{EDR}/collections/{name}"))
    x, y = middle(content)
    if name == "merc":
        x, y = 10.0, 52.0
    known = ("CRS:84", "CRS84", "EPSG:4326")
    crs = [item for item in content["crs"] if item in known][-1]
    assert crs == "CRS84"
    interval = "/".join(content["extent"]["temporal"]["interval"][0])
    base = f"{EDR}/collections/{name}"
    end = f"&crs={crs}&f={form}&datetime={interval}"
    paths = (
        f"{base}/position?parameter-name=elevation&coords=POINT({x}+{y}){end}",
        f"{base}/area?parameter-name=elevation&coords=POLYGON(({x - 1}+{y - 1},{x + 1}+{y - 1},"
        f"{x + 1}+{y + 1},{x - 1}+{y + 1},{x - 1}+{y - 1})){end}",
        f"{base}/trajectory?parameter-name=elevation&coords=LINESTRING({x - 1}+{y - 1},{x}+{y},"
        f"{x + 1}+{y + 1})&f={form}&datetime={interval}",
    )
    for path in paths:
        response = client.get(path)
        assert response.status_code == 200, response.data
        assert "Coverage" in response.text or "Feature" in response.text
        assert client.get(path.replace(interval, "null")).status_code == 200


INVALID = [
    ("position", ""),
    ("position", "coords="),
    ("position", "coords=POINT()"),
    ("position", "coords=POINT(1)"),
    ("position", "coords=POINT(1 nan)"),
    ("position", "coords=POINT(1 2"),
    ("position", "coords=POINT(1 2))"),
    ("position", "coords=POINT(1 2)x"),
    ("position", "coords=POINT((1 2))"),
    ("position", "coords=POINT(1 1e11)"),
    ("position", "coords=POINTX(1 2)"),
    ("position", "coords=LINESTRING(1 2,3 4)"),
    ("position", "coords=POINT M(1 2)"),
    ("position", "coords=POINT(1_0 2)"),
    ("area", ""),
    ("area", "coords=POLYGON()"),
    ("area", "coords=POLYGON(1 2,3 4,5 6)"),
    ("area", "coords=POLYGON((1 2,3 4))"),
    ("area", "coords=POINT(1 2)"),
    ("trajectory", "coords=LINESTRING()"),
    ("trajectory", "coords=LINESTRINGM()"),
    ("trajectory", "coords=LINESTRINGZ()"),
    ("trajectory", "coords=LINESTRINGZM()"),
    ("trajectory", "coords=LINESTRINGM(1 2,3 4)"),
    ("trajectory", "coords=LINESTRINGM(1 2 1e300,3 4 2e300)"),
    ("trajectory", "coords=LINESTRING(1 2)"),
    ("trajectory", "coords=LINESTRING(1 2,3 4 5)"),
    ("trajectory", "coords=LINESTRING(1 2,3 4)&simplify=x"),
    ("trajectory", "coords=LINESTRING(1 2,3 4)&simplify=-1"),
    ("radius", "coords=POINT(1 2)"),
    ("radius", "coords=POINT(1 2)&within=1"),
    ("radius", "coords=POINT(1 2)&within=1&within-units=x"),
    ("radius", "coords=POINT(1 2)&within=0&within-units=m"),
    ("radius", "coords=POINT(1 2)&within=1e9&within-units=km"),
    ("corridor", "coords=LINESTRING(1 2,3 4)&width-units=km"),
    ("corridor", "coords=LINESTRING(1 2,3 4)&corridor-width=1"),
    ("corridor", "coords=LINESTRING(1 2,3 4)&corridor-width=1&width-units=x"),
    ("corridor", "coords=LINESTRING(1 2,3 4)&corridor-width=0&width-units=km"),
    ("corridor", "coords=LINESTRING(1 2,3 4)&corridor-width=x&width-units=km"),
    ("corridor", "coords=LINESTRING(1 2,3 91)&corridor-width=1&width-units=km"),
    ("corridor", "coords=LINESTRING()&corridor-width=1&width-units=km"),
    ("corridor", "coords=POINT(1 2)&corridor-width=1&width-units=km"),
    ("corridor", "corridor-width=1&width-units=km"),
    ("cube", ""),
    ("cube", "bbox="),
    ("cube", "bbox=1,2,3"),
    ("cube", "bbox=1,5,3,4"),
    ("cube", "bbox=1,2,3,x"),
    ("cube", "bbox=1,2,3,4&resolution-x=-1"),
    ("cube", "bbox=1,2,3,4&resolution-x=x"),
    ("cube", "bbox=1,2,3,4&resolution-x=2000&resolution-y=2000"),
    ("position", "coords=POINT(1 2)&f=png"),
    ("position", "coords=POINT(1 2)&f=GeoTIFF"),
    ("position", "coords=POINT(1 2)&crs=EPSG:27700"),
    ("position", "coords=POINT(1 2)&crs=x"),
    ("position", "coords=POINT(1 2)&parameter-name=temperature"),
    ("position", "coords=POINT(1 2)&datetime=yesterday"),
    ("position", "coords=POINT(1 2)&datetime=2020-01-01/x"),
    ("position", "coords=POINT(1 2)&z=high"),
    ("position", "coords=POINT(1 2)&interpolation=x"),
]


@pytest.mark.parametrize(("query", "parameters"), INVALID)
def test_invalid_requests_are_400(client: Client, query: str, parameters: str) -> None:
    path = f"{EDR}/collections/world/{query}?{quote(parameters, safe='=&')}"
    content = read(client.get(path), 400)
    assert {"type", "title", "status", "detail", "code", "description"} <= set(content)
    assert content["status"] == 400
    assert content["code"] == "400"


@pytest.mark.parametrize(
    "path",
    [
        "/collections/none",
        "/collections/none/position?coords=POINT(1+2)",
        "/x",
        "/collections/world/items",
        "/collections/world/locations",
        "/collections/world/instances",
    ],
)
def test_unknown_resources_are_404(client: Client, path: str) -> None:
    assert read(client.get(EDR + path), 404)["status"] == 404


@pytest.mark.parametrize(
    "value",
    ["2020-01-01", "2020-01-01T00:00:00Z", "2020-01-01/..", "../2020-01-01", "null", "null/null"],
)
def test_times_are_ignored(client: Client, value: str) -> None:
    wanted = coverage(ask(client, "world", "position", coords="POINT(20 10)"))
    assert (
        coverage(ask(client, "world", "position", coords="POINT(20 10)", datetime=value)) == wanted
    )
    for z in ("10", "0/100", "R5/0/10", "1,2,3"):
        assert coverage(ask(client, "world", "position", coords="POINT(20 10)", z=z)) == wanted


def test_edr_can_be_switched_off(open_with: Open) -> None:
    client = open_with({"facades": {"edr": False}})
    assert client.get(EDR).status_code == 404


def test_default_of_edr_is_on(open_with: Open) -> None:
    assert open_with({}).get(EDR).status_code == 200


def test_heights_agree_in_all_protocols(client: Client) -> None:
    """The same number everywhere; only the rounding differs."""
    heights = []
    for lon, lat in ((20.5, 10.25), (-70.2, -33.3), (140.1, 60.6)):
        plain, _ = plain_sample(WORLD, lon, lat)
        edr = coverage(ask(client, "world", "position", coords=f"POINT({lon} {lat})"))
        heights.append(edr["ranges"]["elevation"]["values"][0])
        google = read(client.get(f"/elevation/v1/world?locations={lat},{lon}"))
        ign = read(
            client.get(
                f"/elevation/1.0/calcul/alti/rest/elevation.json?lon={lon}&lat={lat}&resource=world"
            )
        )
        if plain is None:
            assert heights[-1] is None
            continue
        assert heights[-1] == round(plain, 2)
        assert google["results"][0]["elevation"] == float(str(np.float32(plain)))
        assert ign["elevations"][0]["z"] == round(plain, 2)
    assert any(heights)
