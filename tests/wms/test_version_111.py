"""WMS 1.1.1 (OGC 01-068r3), for old clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lxml import etree
from werkzeug.test import Client, TestResponse

MapQuery = Callable[..., dict[str, str]]
QUERY = {"SERVICE": "WMS", "REQUEST": "GetCapabilities", "VERSION": "1.1.1"}


@pytest.fixture(scope="module")
def root(client: Client) -> Any:
    response = client.get("/wms", query_string=QUERY)
    assert response.content_type == "application/vnd.ogc.wms_xml"
    return etree.fromstring(response.data)


@pytest.fixture(scope="module")
def old(map_query: MapQuery) -> MapQuery:
    """Return a function that makes the parameters of a map as 1.1.1 spells them."""
    return lambda **changes: map_query(
        **({"VERSION": "1.1.1", "CRS": None, "SRS": "EPSG:3857"} | changes)
    )


def fault(response: TestResponse) -> tuple[int, str | None]:
    assert response.content_type == "application/vnd.ogc.se_xml"
    report = etree.fromstring(response.data)
    assert (report.tag, report.get("version")) == ("ServiceExceptionReport", "1.1.1")
    exception = report.find("ServiceException")
    assert exception is not None
    assert exception.text
    return response.status_code, exception.get("code")


@pytest.mark.parametrize(
    "version", ["1.1.0", "1.1.1", "0.0.0", "0", "1.0.0", "1.0.7", "1.1", "1.1.2", "1.2", "1.2.99"]
)
def test_capabilities_are_1_1_1_for_any_version_below_1_3_0(client: Client, version: str) -> None:
    """OGC 06-042 clause 6.2.4: the lower of two versions, or the lowest one of all."""
    response = client.get("/wms", query_string=QUERY | {"VERSION": version})
    assert b'<WMT_MS_Capabilities version="1.1.1">' in response.data


@pytest.mark.parametrize(
    "query",
    [
        "WMTVER=1.0.0&REQUEST=capabilities",
        "WMTVER=1.1.1&REQUEST=GetCapabilities",
        "SERVICE=WMS&VERSION=1.1.1&REQUEST=capabilities",
        "service=WMS&wmtver=1.1.0&request=Capabilities",
        "SERVICE=WMS&VERSION=1.1.1&WMTVER=1.3.0&REQUEST=GetCapabilities",
    ],
)
def test_capabilities_by_the_names_of_1_0_0(client: Client, query: str) -> None:
    """OGC 01-068r3 annex A: WMTVER and REQUEST=capabilities of clients of 1.0.0."""
    expected = client.get("/wms", query_string=QUERY)
    response = client.get(f"/wms?{query}")
    assert (response.status_code, response.data) == (200, expected.data)


def test_maps_and_feature_info_by_the_names_of_1_0_0(
    client: Client, old: MapQuery, info_query: MapQuery
) -> None:
    names = {"VERSION": None, "WMTVER": "1.1.1", "SERVICE": None}
    expected = client.get("/wms", query_string=old())
    response = client.get("/wms", query_string=old(REQUEST="map", **names))
    assert (response.content_type, response.data) == ("image/png", expected.data)
    spelt = names | {"CRS": None, "SRS": "EPSG:3857", "I": None, "J": None, "X": "10", "Y": "20"}
    expected = client.get("/wms", query_string=info_query(I="10", J="20"))
    response = client.get("/wms", query_string=info_query(REQUEST="feature_info", **spelt))
    assert (response.status_code, response.data) == (200, expected.data)
    drawn = old(REQUEST="map", EXCEPTIONS="application/vnd.ogc.se_blank", LAYERS="no")
    assert client.get("/wms", query_string=drawn).content_type == "image/png"


def test_info_format_is_plain_text_by_default(client: Client, info_query: MapQuery) -> None:
    """OGC 01-068r3 clause 7.3.3.6: INFO_FORMAT is optional. Clients of 1.3.0 leave it out too."""
    expected = client.get("/wms", query_string=info_query(I="10", J="20"))
    for changes in (
        {},
        {"VERSION": "1.1.1", "CRS": None, "SRS": "EPSG:3857", "X": "10", "Y": "20"},
    ):
        query = info_query(INFO_FORMAT=None, I="10", J="20", **changes)
        response = client.get("/wms", query_string=query)
        assert (response.status_code, response.content_type) == (200, "text/plain")
        assert response.data == expected.data


def test_layers_have_srs_and_boxes_with_x_first(root: Any) -> None:
    shared = [node.text for node in root.iterfind("Capability/Layer/SRS")]
    assert shared == ["EPSG:3857", "EPSG:4326"]
    ground = root.find("Capability/Layer/Layer[Name='ground']")
    assert [node.text for node in ground.iterfind("SRS")] == [
        "EPSG:3857",
        "EPSG:32637",
        "EPSG:3035",
        "IGNF:WGS84G",
    ]
    geo = root.find("Capability/Layer/Layer[Name='geo']")
    box, geographic = geo.find("BoundingBox"), geo.find("LatLonBoundingBox")
    names = ("minx", "miny", "maxx", "maxy")
    assert box.get("SRS") == "EPSG:4326"
    assert [box.get(name) for name in names] == [geographic.get(name) for name in names]
    assert float(box.get("minx")) == pytest.approx(-90)
    hint = ground.find("ScaleHint")
    assert float(hint.get("min")) == pytest.approx(156543.03 / 2**4 * 2**0.5)
    assert float(hint.get("max")) == pytest.approx(156543.03 / 2**2 * 2**0.5)


def test_operations(root: Any) -> None:
    request = root.find("Capability/Request")
    assert [node.tag for node in request] == [
        "GetCapabilities",
        "GetMap",
        "GetFeatureInfo",
        "GetLegendGraphic",
    ]
    assert request.findtext("GetCapabilities/Format") == "application/vnd.ogc.wms_xml"
    assert [node.text for node in request.iterfind("GetLegendGraphic/Format")] == [
        "image/png",
        "image/jpeg",
    ]


def test_map_is_that_of_1_3_0(client: Client, map_query: MapQuery, old: MapQuery) -> None:
    expected = client.get("/wms", query_string=map_query())
    for version in ("1.1.1", "1.1.0"):
        response = client.get("/wms", query_string=old(VERSION=version))
        assert (response.status_code, response.data) == (200, expected.data)


@pytest.mark.parametrize(
    ("srs", "box", "box_130"),
    [
        ("EPSG:4326", "20,10,70,40", "10,20,40,70"),
        ("EPSG:3035", "3000000,1500000,6500000,4500000", "1500000,3000000,4500000,6500000"),
    ],
)
def test_coordinates_are_x_before_y_in_any_crs(
    client: Client, map_query: MapQuery, old: MapQuery, srs: str, box: str, box_130: str
) -> None:
    expected = client.get("/wms", query_string=map_query(CRS=srs, BBOX=box_130))
    response = client.get("/wms", query_string=old(SRS=srs, BBOX=box))
    assert (response.status_code, response.data) == (200, expected.data)


def test_feature_info_has_x_and_y(client: Client, info_query: MapQuery, old: MapQuery) -> None:
    expected = client.get("/wms", query_string=info_query())
    query = info_query() | old(REQUEST="GetFeatureInfo") | {"X": "10", "Y": "20"}
    for name in ("CRS", "I", "J"):
        del query[name]
    response = client.get("/wms", query_string=query)
    assert (response.status_code, response.data) == (200, expected.data)
    del query["X"]
    assert fault(client.get("/wms", query_string=query)) == (400, "MissingParameterValue")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"SRS": None}, "MissingParameterValue"),
        ({"SRS": None, "CRS": "EPSG:3857"}, "MissingParameterValue"),
        ({"SRS": "EPSG:2154"}, "InvalidSRS"),
        ({"LAYERS": "nowhere"}, "LayerNotDefined"),
        ({"FORMAT": "image/bogus"}, "InvalidFormat"),
        ({"STYLES": "no", "EXCEPTIONS": "application/vnd.ogc.se_xml"}, "StyleNotDefined"),
    ],
)
def test_errors_are_reported_in_the_form_of_1_1_1(
    client: Client, old: MapQuery, changes: dict[str, str | None], code: str
) -> None:
    assert fault(client.get("/wms", query_string=old(**changes))) == (400, code)


@pytest.mark.parametrize("way", ["application/vnd.ogc.se_inimage", "application/vnd.ogc.se_blank"])
def test_reports_in_the_image(client: Client, old: MapQuery, way: str) -> None:
    response = client.get("/wms", query_string=old(STYLES="no", EXCEPTIONS=way))
    assert (response.status_code, response.content_type) == (200, "image/png")
