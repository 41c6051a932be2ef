"""The abstract test suite of OGC API – Coverages (annex A of the candidate), against a server.

Each test has the name of an abstract test in a conformance class that is declared.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from email.message import Message
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

import numpy as np
import pytest
import tifffile
from tests.coverage.ground import ORIGIN, Ground
from tests.coverage.test_antimeridian import TILE, World

pytestmark = pytest.mark.live

REL = re.compile(r"https?://www\.opengis\.net/def/rel/ogc/1\.0/coverage")
GEOTIFF = {"Accept": "image/tiff; application=geotiff"}
URI_2154 = "http://www.opengis.net/def/crs/EPSG/0/2154"
URI_CRS84 = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
DECLARED = {
    *("core", "subsetting-spatial", "scaling-spatial", "field-selection", "crs"),
    *("position-query", "geotiff", "cog", "api-operations", "html"),
}
WEST, NORTH = ORIGIN[0] + 320.0, ORIGIN[1] - 448.0
PART = f"subset=E({WEST}:{WEST + 100}),N({NORTH - 80}:{NORTH})&subset-crs={quote('[EPSG:2154]')}"
SHAPE = (80, 100)


@dataclass
class Answer:
    """What the server answers."""

    status_code: int
    headers: Message
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


def fetched(address: str, headers: Mapping[str, str]) -> Answer:
    request = Request(quote(address, safe=":/?&=%,()*;~"), headers=dict(headers))
    try:
        with build_opener(ProxyHandler({})).open(request) as response:
            return Answer(response.status, response.headers, response.read())
    except HTTPError as error:
        return Answer(error.code, error.headers, error.read())


@dataclass
class Client:
    """A client of one collection."""

    root: str
    name: str
    data: Any

    def get(self, query: str = "", **headers: str) -> Answer:
        return fetched(
            f"{self.root}/collections/{self.name}/coverage?{query}",
            {name.replace("_", "-"): value for name, value in headers.items()},
        )

    def document(self, path: str) -> Any:
        response = fetched(f"{self.root}{path}", {})
        assert response.status_code == 200
        return response.json()

    @property
    def collection(self) -> Any:
        return self.document(f"/collections/{self.name}?f=json")

    def tiff(self, query: str, **headers: str) -> Any:
        response = self.get(query, **(GEOTIFF | headers))
        assert response.status_code == 200, response.text
        return tifffile.imread(io.BytesIO(response.content))


@pytest.fixture(scope="module")
def clients(serving: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Client]]:
    """Return clients of a layer of points, of one of colours, and of the world."""
    services = {"ogcapi": {"coverages": True}}
    options: dict[str, Any] = {"services": services, "coverages": True}
    kinds = {
        "points": partial(Ground, registration="post", **options),
        "colours": partial(Ground, name="TIFF_PNG_UINT8", channels=4, **options),
        "world": partial(World, name="degrees", **options),
    }
    found = {}
    with ExitStack() as stack:
        for kind, make in kinds.items():
            written: list[Any] = []
            directory = tmp_path_factory.mktemp(kind)

            def write(
                public_url: str,
                make: Any = make,
                written: Any = written,
                directory: Any = directory,
            ) -> Path:
                written.append(make(directory, public_url=public_url))
                path: Path = written[0].server_json
                return path

            url = stack.enter_context(serving(write))
            stack.callback(written[0].application.site.close_services)
            name = "world" if kind == "world" else "ground"
            found[kind] = Client(f"{url}/ogcapi", name, written[0])
        yield found


@pytest.fixture
def points(clients: dict[str, Client]) -> Client:
    return clients["points"]


@pytest.fixture
def colours(clients: dict[str, Client]) -> Client:
    return clients["colours"]


@pytest.fixture
def world(clients: dict[str, Client]) -> Client:
    return clients["world"]


def refused(response: Answer, *statuses: int) -> bool:
    kind = response.headers["Content-Type"]
    return response.status_code in statuses and kind == "application/problem+json"


# Core


def test_core_conformance_success(points: Client, colours: Client) -> None:
    for client, more in ((points, set()), (colours, {"png"})):
        classes = client.document("/conformance?f=json")["conformsTo"]
        spec = "://www.opengis.net/spec/ogcapi-coverages-1/1.0/conf/"
        for scheme in ("https", "http"):
            start = scheme + spec
            found = {name.removeprefix(start) for name in classes if name.startswith(start)}
            assert found == DECLARED | more


def test_core_collection_description(points: Client) -> None:
    (collection,) = points.document("/collections?f=json")["collections"]
    assert any(REL.fullmatch(link["rel"]) for link in collection["links"])
    described = points.collection
    assert described["storageCrs"] == URI_2154
    box = described["extent"]["spatial"]["storageCrsBbox"][0]
    assert len(box) == 4
    assert box[0] < box[2]
    assert box[1] < box[3]


def test_core_coverage_fields_schema(points: Client, colours: Client) -> None:
    for client in (points, colours):
        fields = client.document(f"/collections/{client.name}/schema")["properties"]
        numbers = [field["x-ogc-propertySeq"] for field in fields.values()]
        assert numbers == list(range(1, len(fields) + 1))
        assert all(field["title"] and field["type"] for field in fields.values())


def test_core_get_coverage(points: Client) -> None:
    links = [link for link in points.collection["links"] if REL.fullmatch(link["rel"])]
    for link in links:
        response = fetched(link["href"], {})
        assert response.status_code == 200
        assert response.headers["Content-Type"].startswith(link["type"])
        assert response.headers["Content-Crs"] == URI_2154
        image = tifffile.imread(io.BytesIO(response.content))
        assert image.ndim == 2


def test_core_response_headers(points: Client, world: Client) -> None:
    headers = points.get(PART).headers
    assert headers["Content-Crs"] == URI_2154
    box = [float(text) for text in headers["Content-Bbox"].split(",")]
    # First and last points.
    assert box == [WEST + 0.5, NORTH - 79.5, WEST + 99.5, NORTH - 0.5]
    # Latitude first.
    headers = world.get("bbox=0,0,22.5,11.25").headers
    box = [float(text) for text in headers["Content-Bbox"].split(",")]
    assert box == pytest.approx([0, 0, 11.25, 22.5])


NAMES = ["nearest-neighbor", "linear", "cubic", "mean"]


def test_core_preference_applied(points: Client) -> None:
    usual = points.get(f"{PART}&width=31")
    for name in [*NAMES, "median"]:
        preference = f"interpolation=[ogc-interpolation:{name}]"
        response = points.get(f"{PART}&width=31", Prefer=preference)
        assert response.status_code == 200
        if response.headers["Content-Interpolation"] != usual.headers["Content-Interpolation"]:
            assert response.headers["Content-Interpolation"] == name
            assert response.headers["Preference-Applied"] == preference
        if name == "median":
            assert "Preference-Applied" not in response.headers
            assert response.content == usual.content


@pytest.mark.parametrize(
    ("handling", "status"), [("handling=lenient, ", 200), ("", 200), ("handling=strict, ", 400)]
)
def test_core_preference_handling_interpolation(handling: str, status: int, points: Client) -> None:
    preference = f"{handling}interpolation=[ogc-interpolation:median]"
    assert points.get(f"{PART}&width=31", Prefer=preference).status_code == status
    known = f"{handling}interpolation=[ogc-interpolation:linear]"
    assert points.get(f"{PART}&width=31", Prefer=known).status_code == 200


def test_core_preference_handling_resolution(points: Client) -> None:
    for handling in ("strict", "lenient"):
        found = points.tiff(PART, Prefer=f"handling={handling}")
        assert np.array_equal(found, points.tiff(PART), equal_nan=True)
        assert found.shape == SHAPE


# Subsetting


def test_subsetting_spatial_subset(points: Client) -> None:
    assert points.tiff(PART).shape == SHAPE
    box = points.collection["extent"]["spatial"]["bbox"][0]
    middle = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    degrees = f"subset=Lat({middle[1]}:{middle[1] + 0.001}),Lon({middle[0]}:{middle[0] + 0.001})"
    assert points.tiff(degrees).size > 100
    value = points.get(f"subset=Lat({middle[1]}),Lon({middle[0]})")
    assert value.headers["Content-Type"] == "application/json"
    # Points are inside of the interval, or on its ends.
    odd = PART.replace(f"E({WEST}:", f"E({WEST + 0.5}:")
    assert points.tiff(odd).shape == SHAPE
    odd = PART.replace(f"E({WEST}:", f"E({WEST + 0.6}:")
    assert points.tiff(odd).shape == (80, 99)


def test_subsetting_spatial_subset_invalid_axis(points: Client) -> None:
    assert refused(points.get("subset=height(1:2)"), 400)
    assert refused(points.get("subset=Q(1:2),N(3:4)&subset-crs=[EPSG:2154]"), 400)


def test_subsetting_spatial_out_of_bounds(points: Client) -> None:
    assert refused(points.get("subset=Lat(-10:-9),Lon(-10:-9)"), 404)
    assert refused(points.get("subset=Lat(-10),Lon(-10)"), 404)


def test_subsetting_spatial_wrap_around(world: Client) -> None:
    found = world.tiff("subset=Lon(157.5:-135),Lat(0:11.25)")
    assert found.shape == (round(11.25 / (360 / 16 / TILE)), 3 * TILE)


def test_subsetting_spatial_subset_bbox_exclusivity(points: Client) -> None:
    assert refused(points.get(f"{PART}&bbox=0,40,10,50"), 400)


def test_subsetting_spatial_wildcard_limits(points: Client) -> None:
    whole = points.tiff("f=geotiff")
    crs = "&subset-crs=[EPSG:2154]"
    assert points.tiff(f"subset=E(*:*),N(*:*){crs}").shape == whole.shape
    rows = points.tiff(f"subset=E(*:{WEST}),N(*:*){crs}").shape[1]
    assert rows + points.tiff(f"subset=E({WEST}:*),N(*:*){crs}").shape[1] == whole.shape[1]


def test_subsetting_spatial_multiple_subset(points: Client) -> None:
    assert points.get(PART.replace("),N(", ")&subset=N(")).content == points.get(PART).content


def test_subsetting_spatial_subset_scaling_exclusivity(points: Client) -> None:
    place = f"subset=E({WEST}),N({NORTH})&subset-crs=[EPSG:2154]"
    assert points.get(place).status_code == 200
    assert refused(points.get(f"{place}&resolution=E(2),N(2)"), 400)
    assert refused(points.get(f"{place}&width=10"), 400)


@pytest.mark.parametrize("text", [URI_2154, "[EPSG:2154]", "EPSG:2154"])
@pytest.mark.parametrize("name", ["subset-crs", "bbox-crs"])
def test_subsetting_spatial_subset_crs_and_bbox_crs(name: str, text: str, points: Client) -> None:
    box = f"bbox={WEST},{NORTH - 80},{WEST + 100},{NORTH}"
    area = PART.partition("&")[0] if name == "subset-crs" else box
    assert points.get(f"{area}&{name}={quote(text)}").content == points.get(PART).content
    # Without an area, it has no meaning.
    assert points.get(f"{name}={quote(text)}&f=cog").content == points.get("f=cog").content


def test_subsetting_spatial_bbox_definition(points: Client, world: Client) -> None:
    box = points.collection["extent"]["spatial"]["bbox"][0]
    four = ",".join(map(str, box))
    six = f"{box[0]},{box[1]},0,{box[2]},{box[3]},9000"
    found = [points.tiff(f"bbox={four}{crs}") for crs in ("", "&bbox-crs=[OGC:CRS84]")]
    found += [points.tiff(f"bbox={four}&bbox-crs={quote(URI_CRS84)}"), points.tiff(f"bbox={six}")]
    assert {one.shape for one in found} == {points.tiff("f=geotiff").shape}
    assert world.tiff("bbox=157.5,0,-135,11.25").shape[1] == 3 * TILE
    # Latitude first in EPSG:4326.
    assert world.tiff("bbox=0,22.5,11.25,45&bbox-crs=[EPSG:4326]").shape == (32, TILE)


# Position query


def test_position_query_position_query(points: Client, colours: Client) -> None:
    place = f"subset=E({WEST + 0.5}),N({NORTH - 0.5})&subset-crs=[EPSG:2154]"
    value = points.get(place).json()
    assert value == points.tiff(PART)[0, 0]
    assert colours.get(place).json().keys() == {"red", "green", "blue", "alpha"}
    assert isinstance(colours.get(f"{place}&properties=green").json(), int)


# Scaling


def test_scaling_spatial_resolution(points: Client) -> None:
    assert points.tiff(f"{PART}&resolution=E(2.5),N(4)").shape == (20, 40)
    degrees = points.get(f"{PART}&crs=[OGC:CRS84]&resolution=Lon(0.0001),Lat(0.0001)")
    with tifffile.TiffFile(io.BytesIO(degrees.content)) as file:
        assert file.pages.first.tags[33550].value[:2] == pytest.approx((0.0001, 0.0001))


def test_scaling_spatial_native_resolution(points: Client) -> None:
    for text in ("resolution=", "resolution=E(),N()"):
        assert points.get(f"{PART}&{text}").content == points.get(PART).content


def test_scaling_spatial_resolution_invalid_axis(points: Client) -> None:
    assert refused(points.get(f"{PART}&resolution=Q(2),N(2)"), 400)


def test_scaling_spatial_width_and_height(points: Client) -> None:
    assert points.tiff(f"{PART}&width=33&height=17").shape == (17, 33)
    assert points.tiff(f"{PART}&width=50").shape == (40, 50)
    assert points.tiff(f"{PART}&height=40").shape == (40, 50)
    whole = points.collection["extent"]["spatial"]["storageCrsBbox"][0]
    beyond = f"bbox={whole[0] - 50},{whole[1]},{whole[2]},{whole[3]}&bbox-crs=[EPSG:2154]"
    assert points.tiff(f"{beyond}&width=30&height=20").shape == (20, 30)


# Fields


def test_field_selection_properties(colours: Client) -> None:
    image = colours.tiff(PART)
    assert np.array_equal(colours.tiff(f"{PART}&properties=blue,red"), image[:, :, [2, 0]])
    assert refused(colours.get(f"{PART}&properties=purple"), 400)


def test_field_selection_exclude_properties(colours: Client) -> None:
    image = colours.tiff(PART)
    assert np.array_equal(colours.tiff(f"{PART}&exclude-properties=green"), image[:, :, [0, 2, 3]])
    assert np.array_equal(colours.tiff(f"{PART}&exclude-properties="), image)
    assert refused(colours.get(f"{PART}&exclude-properties=purple"), 400)
    assert refused(colours.get(f"{PART}&exclude-properties=red&properties=red"), 400)


# CRS


def test_crs_crs_definition(points: Client) -> None:
    described = points.collection
    assert described["storageCrs"] in described["crs"]
    native = described["storageCrs"]
    for uri in described["crs"]:
        response = points.get(f"{PART}&crs={quote(uri)}")
        assert response.status_code == 200
        assert response.headers["Content-Crs"] == uri
        box = [float(text) for text in response.headers["Content-Bbox"].split(",")]
        if uri != native:
            # The box is one in this CRS, in the order of its axes.
            same = points.get(f"bbox={','.join(map(str, box))}&bbox-crs={quote(uri)}")
            assert same.status_code == 200
    assert refused(points.get(f"{PART}&crs=[EPSG:9999999]"), 400)


# Formats


def test_html_coverage(points: Client) -> None:
    response = points.get(Accept="text/html")
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert response.text.lower().startswith("<!doctype html>")
    assert "coverage" in response.text


def test_geotiff_coverage(colours: Client) -> None:
    response = colours.get(PART, **GEOTIFF)
    assert response.headers["Content-Type"] == "image/tiff; application=geotiff"
    expected = colours.data.values("3", 448, 528, 320, 420)
    assert np.array_equal(tifffile.imread(io.BytesIO(response.content)), expected)


def test_geotiff_raster_type(points: Client, colours: Client) -> None:
    for client, kind in ((points, 2), (colours, 1)):
        response = client.get(PART, **GEOTIFF)
        with tifffile.TiffFile(io.BytesIO(response.content)) as file:
            tags = file.pages.first.geotiff_tags
            assert tags is not None
            assert tags["GTRasterTypeGeoKey"] == kind


def test_cog_http_range(points: Client) -> None:
    for query in ("", "resolution=", "resolution=E(),N()"):
        whole = points.get(query)
        assert whole.headers["Accept-Ranges"] == "bytes"
        part = points.get(query, Range="bytes=1000-2999")
        assert part.status_code == 206
        assert part.content == whole.content[1000:3000]


def test_cog_cloud_optimized(points: Client) -> None:
    profile = "<http://www.opengis.net/def/profile/geotiff/cloud-optimized>"
    response = points.get(PART, Accept_Profile=profile, **GEOTIFF)
    assert b"LAYOUT=IFDS_BEFORE_DATA" in response.content[:300]
    assert "profile=cloud-optimized" in response.headers["Content-Type"]


def test_png_coverage(colours: Client) -> None:
    response = colours.get(f"{PART}&properties=red,green,blue", Accept="image/png")
    assert response.headers["Content-Type"] == "image/png"
    assert response.headers["Values-Scale"] == "1"
    assert response.headers["Values-Offset"] == "0"
    assert response.content[:4] == b"\x89PNG"
    assert colours.get(f"{PART}&f=png&properties=red").status_code == 200
    assert refused(colours.get(f"{PART}&f=png&properties=red,alpha"), 400)


# Definition of the API


def test_api_operations_completeness_and_operation_id(points: Client) -> None:
    links = points.document("?f=json")["links"]
    (href,) = [
        link["href"] for link in links if link["rel"] == "service-desc" and "json" in link["type"]
    ]
    document = fetched(href, {}).json()
    path = "/collections/{collectionId}/coverage"
    operation = document["paths"][path]["get"]
    assert operation["operationId"].endswith(".getCoverage")
    named = {
        document["components"]["parameters"][one["$ref"].rpartition("/")[2]]["name"]
        for one in operation["parameters"]
    }
    assert named >= {
        *("bbox", "bbox-crs", "subset", "subset-crs", "width", "height", "resolution", "crs"),
        *("properties", "exclude-properties", "f"),
    }
    server = document["servers"][0]["url"]
    address = server + path.replace("{collectionId}", points.name)
    assert address in {link["href"] for link in points.collection["links"]}
