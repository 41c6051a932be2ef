"""The capabilities of 1.3.0 (wms.md section 2)."""

from __future__ import annotations

import gzip
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyproj
import pytest
from lxml import etree
from PIL import Image
from werkzeug.test import Client, TestResponse

from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import geographic, web_mercator

Find = Callable[..., list[Any]]
OpenClient = Callable[[Path], Client]

QUERY = {"SERVICE": "WMS", "REQUEST": "GetCapabilities"}
XLINK = "http://www.w3.org/1999/xlink"
LAYERS = "/wms:WMS_Capabilities/wms:Capability/wms:Layer/wms:Layer"


@pytest.fixture(scope="module")
def document(client: Client) -> TestResponse:
    response = client.get("/wms", query_string=QUERY)
    assert response.status_code == 200
    return response


@pytest.fixture(scope="module")
def inspire(client: Client) -> TestResponse:
    return client.get("/wms", query_string=QUERY | {"INSPIRE": "true"})


def test_service_section(document: TestResponse, find: Find) -> None:
    service = find(document, "/wms:WMS_Capabilities/wms:Service")[0]
    texts = [
        (node.tag.rpartition("}")[2], node.text or "")
        for node in service.iter()
        if not len(node) and node is not service
    ]
    assert texts == [
        ("Name", "WMS"),
        ("Title", "Maps & more"),
        ("Abstract", "About"),
        ("Keyword", "one"),
        ("Keyword", "two"),
        ("OnlineResource", ""),
        ("ContactPerson", "N"),
        ("ContactOrganization", "P & Q"),
        ("ContactPosition", "Chief"),
        ("AddressType", ""),
        ("Address", ""),
        ("City", "C"),
        ("StateOrProvince", ""),
        ("PostCode", ""),
        ("Country", ""),
        ("ContactElectronicMailAddress", "e@p.example"),
        ("Fees", "none"),
        ("AccessConstraints", "none"),
        ("LayerLimit", "3"),
        ("MaxWidth", "1024"),
        ("MaxHeight", "768"),
    ]
    assert find(document, "string(//wms:Service/wms:OnlineResource/@xlink:href)") == [
        "http://p.example/"
    ]


def test_schema_location_is_the_official_one(document: TestResponse, find: Find) -> None:
    # W-12
    assert find(document, "string(/*/@xsi:schemaLocation)") == [
        "http://www.opengis.net/wms http://schemas.opengis.net/wms/1.3.0/capabilities_1_3_0.xsd"
    ]


def test_operations(document: TestResponse, find: Find) -> None:
    # W-13, W-14
    operations = {
        node.tag.rpartition("}")[2]: [child.text for child in node.iterfind("{*}Format")]
        for node in find(document, "//wms:Request/*")
    }
    assert operations == {
        "GetCapabilities": ["text/xml"],
        "GetMap": [
            "image/png",
            "image/jpeg",
            "image/tiff",
            "image/geotiff",
            "image/x-bil;bits=32",
            "text/asc",
        ],
        "GetFeatureInfo": ["text/plain", "text/xml", "text/html", "application/json"],
    }
    get = find(document, "//wms:Request//wms:Get/wms:OnlineResource/@xlink:href")
    assert set(get) == {"http://maps.example/wms?SERVICE=WMS&"}
    post = find(document, "//wms:Request/*[.//wms:Post]")
    assert [node.tag.rpartition("}")[2] for node in post] == ["GetCapabilities", "GetMap"]
    assert set(find(document, "//wms:Post/wms:OnlineResource/@xlink:href")) == {
        "http://maps.example/wms?"
    }
    assert find(document, "//wms:Exception/wms:Format/text()") == ["XML", "INIMAGE", "BLANK"]


def test_update_sequence_is_not_published(document: TestResponse, find: Find) -> None:
    # W-11
    assert find(document, "count(/*/@updateSequence)") == [0.0]


def test_layers_are_the_published_raster_ones_in_order(document: TestResponse, find: Find) -> None:
    assert find(document, f"{LAYERS}/wms:Name/text()") == [
        "EL.Almost",
        "OI.OrthoimageCoverage",
        "a & b's {é}",
        "cover",
        "geo",
        "grey",
        "ground",
        "heights",
        "inspired",
        "plain",
    ]
    assert find(document, "count(//wms:Capability/wms:Layer/wms:Name)") == [0.0]
    assert find(document, "string(//wms:Capability/wms:Layer/wms:Title)") == ["Everything"]


def test_one_layer_in_full(document: TestResponse, find: Find) -> None:
    layer = find(document, f"{LAYERS}[wms:Name='ground']")[0]
    assert dict(layer.attrib) == {"queryable": "1", "opaque": "0"}
    assert [child.tag.rpartition("}")[2] for child in layer] == [
        "Name",
        "Title",
        "Abstract",
        "KeywordList",
        "CRS",
        "CRS",
        "CRS",
        "CRS",
        "EX_GeographicBoundingBox",
        *["BoundingBox"] * 6,
        "Attribution",
        "MetadataURL",
        "Style",
        "MinScaleDenominator",
        "MaxScaleDenominator",
    ]
    box = layer.find("{*}BoundingBox")
    assert box.get("CRS") == "EPSG:3857"
    edge = 20037508.3427892
    corners = [float(box.get(name)) for name in ("minx", "miny", "maxx", "maxy")]
    assert corners == pytest.approx([0, 0, edge / 2, edge / 2], abs=1e-3)
    smallest = float(layer.findtext("{*}MinScaleDenominator"))
    largest = float(layer.findtext("{*}MaxScaleDenominator"))
    assert smallest == pytest.approx(559082264.0287178 / 2**4)
    assert largest == pytest.approx(559082264.0287178 / 2**2)
    metadata = layer.find("{*}MetadataURL")
    assert metadata.get("type") == "ISO19115:2003"
    assert metadata.find("{*}OnlineResource").get("{http://www.w3.org/1999/xlink}href") == (
        "http://r.example/?a&b"
    )
    logo = layer.find("{*}Attribution/{*}LogoURL")
    assert (logo.get("width"), logo.get("height")) == ("20", "10")


def test_geographic_layer_has_scales_in_metres(document: TestResponse, find: Find) -> None:
    (text,) = find(document, f"{LAYERS}[wms:Name='geo']/wms:MinScaleDenominator/text()")
    cell_size = next(m["cellSize"] for m in geographic()["tileMatrices"] if m["id"] == "3")
    assert float(text) == pytest.approx(cell_size * 6378137 * math.pi / 180 / 0.00028)


def test_texts_are_escaped(document: TestResponse, find: Find) -> None:
    layer = find(document, f"{LAYERS}[starts-with(wms:Name, 'a &')]")[0]
    assert layer.findtext("{*}Title") == "<T & \ufffd>"
    assert layer.findtext("{*}Abstract") == 'A "quoted" text'
    assert [node.text for node in layer.iter("{*}Keyword")] == ["k<1>", "k&2"]
    assert layer.find("{*}MetadataURL").get("type") == "two_words"


def test_boxes_are_in_listed_crs_once_each(document: TestResponse, inspire: TestResponse) -> None:
    # W-16
    for response in (document, inspire):
        root = etree.fromstring(response.data).find(".//{*}Capability/{*}Layer")
        assert root is not None
        shared = {node.text for node in root.iterfind("{*}CRS")}
        for layer in [root, *root.iterfind("{*}Layer")]:
            own = {node.text for node in layer.iterfind("{*}CRS")}
            boxes = [node.get("CRS") for node in layer.iterfind("{*}BoundingBox")]
            assert boxes
            assert len(set(boxes)) == len(boxes)
            assert set(boxes) <= shared | own
            assert layer.find("{*}EX_GeographicBoundingBox") is not None


def test_root_layer_has_the_common_crs(document: TestResponse, find: Find) -> None:
    # W-17
    shared = find(document, "//wms:Capability/wms:Layer/wms:CRS/text()")
    assert shared == ["EPSG:3857", "CRS:84", "EPSG:4326"]


def test_crs_of_layers(document: TestResponse, find: Find) -> None:
    # EPSG:5070 is valid in the United States only, where the layer is not; EPSG:4326 is global.
    assert find(document, f"{LAYERS}[wms:Name='ground']/wms:CRS/text()") == [
        "EPSG:3857",
        "EPSG:32637",
        "EPSG:3035",
        "IGNF:WGS84G",
    ]
    assert find(document, f"{LAYERS}[wms:Name='geo']/wms:CRS/text()") == ["EPSG:4326"]


@pytest.mark.parametrize("mode", ["document", "inspire"])
def test_geographic_boxes(request: pytest.FixtureRequest, find: Find, mode: str) -> None:
    # W-18, W-19
    response = request.getfixturevalue(mode)
    compared = 0
    for layer in find(response, LAYERS):
        sides = [
            layer.findtext(f"{{*}}EX_GeographicBoundingBox/{{*}}{name}")
            for name in (
                "westBoundLongitude",
                "southBoundLatitude",
                "eastBoundLongitude",
                "northBoundLatitude",
            )
        ]
        west, south, east, north = map(float, sides)
        assert -180 <= west < east <= 180
        assert -90 <= south < north <= 90
        for box in layer.iterfind("{*}BoundingBox"):
            corners = [box.get(name) for name in ("minx", "miny", "maxx", "maxy")]
            if box.get("CRS").endswith("4326"):
                assert corners == [sides[1], sides[0], sides[3], sides[2]]
                compared += 1
            elif box.get("CRS").endswith("84"):
                assert corners == sides
                compared += 1
    assert compared


def test_styles_and_legends(document: TestResponse, find: Find) -> None:
    # W-20
    styles = find(document, f"{LAYERS}[wms:Name='grey']/wms:Style")
    assert [style.findtext("{*}Name") for style in styles] == ["normal", "ember"]
    assert styles[0].find("{*}LegendURL") is None
    own = find(document, f"{LAYERS}[wms:Name='OI.OrthoimageCoverage']//wms:LegendURL")[0]
    assert dict(own.attrib) == {"width": "20", "height": "30"}
    assert find(document, "count(//wms:Capability/wms:Layer/wms:Style)") == [0.0]


def test_announced_legends_are_there(client: Client, document: TestResponse, find: Find) -> None:
    # W-15
    announced = [
        node
        for node in find(document, "//wms:LegendURL")
        if "GetLegendGraphic" in node.find("{*}OnlineResource").get(f"{{{XLINK}}}href")
    ]
    assert len(announced) == 3
    for node in announced:
        url = urlsplit(node.find("{*}OnlineResource").get(f"{{{XLINK}}}href"))
        response = client.get(f"{url.path}?{url.query}")
        assert response.content_type == node.findtext("{*}Format")
        with Image.open(io.BytesIO(response.data)) as picture:
            assert picture.size == (int(node.get("width")), int(node.get("height")))


def test_inspire_document(inspire: TestResponse, find: Find) -> None:
    assert find(inspire, f"{LAYERS}/wms:Name/text()") == ["OI.OrthoimageCoverage", "inspired"]
    extended = find(inspire, "//inspire_vs:ExtendedCapabilities")[0]
    assert [(node.tag.rpartition("}")[2], node.text) for node in extended.iter() if node.text] == [
        ("URL", "http://r.example/"),
        ("MediaType", "text/xml"),
        ("Language", "fre"),
        ("Language", "fre"),
    ]
    get = find(inspire, "//wms:Request//wms:Get/wms:OnlineResource/@xlink:href")
    assert set(get) == {"http://maps.example/wms?INSPIRE=1&SERVICE=WMS&"}
    boxes = find(inspire, f"{LAYERS}[wms:Name='inspired']/wms:BoundingBox/@CRS")
    assert boxes == ["EPSG:3857", "CRS:84", "EPSG:4326"]
    assert "inspire_vs.xsd" in find(inspire, "string(/*/@xsi:schemaLocation)")[0]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [(None, True), ("false", False), ("0", False), ("1", True), ("TRUE", True), ("maybe", True)],
)
def test_inspire_mode_is_the_operators_choice_unless_the_client_has_another(
    tmp_path: Path, open_client: OpenClient, asked: str | None, expected: bool
) -> None:
    client = open_client(write_simple(tmp_path, {}, inspire=True))
    query = QUERY | ({} if asked is None else {"INSPIRE": asked})
    response = client.get("/wms", query_string=query)
    assert ("inspire_vs:ExtendedCapabilities" in response.text) is expected


def test_document_is_sent_once(client: Client) -> None:
    first = client.get("/wms", query_string=QUERY)
    again = client.get("/wms", query_string=QUERY, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    packed = client.get("/wms", query_string=QUERY, headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(packed.data) == first.data


def write_simple(directory: Path, layers: dict[str, Any], **general: Any) -> Path:
    return write_installation(
        directory,
        layers=layers,
        services=["wms"],
        public_url="http://maps.example",
        services_overrides={"global": general},
    )


@pytest.fixture
def descriptor(tmp_path: Path) -> Path:
    return write_pyramid(
        tmp_path / "pyramids",
        "p",
        tile_matrix_set=web_mercator(),
        format="TIFF_RAW_UINT8",
        channels=1,
        levels=[LevelPlan("2", 1, 1, 2, 2)],
        tile=tiny_integer_tile(1),
    )


def test_without_reprojection_only_the_native_crs_is_offered(
    tmp_path: Path, descriptor: Path, open_client: OpenClient, find: Find
) -> None:
    layers = {"p": layer_document(descriptor, extra_crs=["EPSG:32637"])}
    client = open_client(write_simple(tmp_path, layers, map={"reprojection": False}))
    response = client.get("/wms", query_string=QUERY)
    root = "//wms:Capability/wms:Layer"
    assert find(response, f"{root}/wms:CRS/text()") == ["EPSG:3857"]
    assert find(response, f"{root}/wms:BoundingBox/@CRS") == []
    assert find(response, f"{LAYERS}/wms:CRS/text()") == ["EPSG:3857"]


def test_equivalents_of_the_native_crs_are_offered(
    tmp_path: Path, descriptor: Path, open_client: OpenClient, find: Find
) -> None:
    equals = tmp_path / "equals.json"
    equals.write_text('{"EPSG:3857": ["EPSG:999999", "EPSG:3785"], "IGNF:LAMB93": ["EPSG:2154"]}')
    server_json = write_simple(
        tmp_path, {"p": descriptor}, crs_equivalences=str(equals), map={"reprojection": False}
    )
    client = open_client(server_json)
    response = client.get("/wms", query_string=QUERY)
    assert find(response, f"{LAYERS}/wms:CRS/text()") == ["EPSG:3857", "EPSG:3785"]


def test_installation_without_layers_has_capabilities(
    tmp_path: Path, open_client: OpenClient, find: Find
) -> None:
    response = open_client(write_simple(tmp_path, {})).get("/wms", query_string=QUERY)
    assert find(response, "//wms:Capability/wms:Layer/wms:CRS/text()") == ["CRS:84", "EPSG:4326"]
    assert find(response, "count(//wms:GetFeatureInfo)") == [0.0]


def test_service_without_site_and_contact_stays_complete(
    tmp_path: Path, open_client: OpenClient, find: Find
) -> None:
    client = open_client(write_simple(tmp_path, {}, provider=""))
    response = client.get("/wms", query_string=QUERY)
    assert find(response, "string(//wms:Service/wms:OnlineResource/@xlink:href)") == [
        "http://maps.example/wms"
    ]
    assert find(response, "count(//wms:ContactInformation)") == [0.0]


def test_crs_are_looked_up_once_for_all_layers(
    tmp_path: Path, descriptor: Path, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = ["EPSG:32637", "EPSG:32638", "EPSG:2154"]
    document = layer_document(descriptor, extra_crs=codes)
    layers = {f"layer{number:03}": document for number in range(50)}
    loaded: list[str] = []
    load = pyproj.CRS.from_user_input

    def counted(value: Any, **options: Any) -> Any:
        loaded.append(str(value))
        return load(value, **options)

    monkeypatch.setattr(pyproj.CRS, "from_user_input", counted)
    client = open_client(write_simple(tmp_path, layers))
    assert client.get("/wms", query_string=QUERY).text.count("<Layer ") == 50
    # Once for the CRS itself, and once for the transformation of the box.
    assert all(loaded.count(code) <= 2 for code in loaded)
