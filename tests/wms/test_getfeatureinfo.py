"""GetFeatureInfo of pyramids (wms.md section 4, conformance.md W-42 and W-43)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lxml import etree, html
from numpy.typing import NDArray
from werkzeug.test import Client, TestResponse

MapQuery = Callable[..., dict[str, str]]
Fault = Callable[[TestResponse], tuple[int, str, str | None]]
ReadImage = Callable[[TestResponse], NDArray[Any]]
INFO_FORMATS = ["text/plain", "text/xml", "text/html", "application/json"]

# Extents of one map in several CRSs; some are on the grid of a level, some beyond all data.
MAPS = [
    {"BBOX": "2600000,3000000,3400000,3600000"},
    {"BBOX": "0,7514065.628545966,2504688.542848654,10018754.171394622"},
    {"BBOX": "0,7514065.628545966,2504688.542848654,10018754.171394622", "WIDTH": 256},
    {"BBOX": "2600000,1000000,9000000,9000000", "WIDTH": 997, "HEIGHT": 701},
    {"BBOX": "-500000,2000000,1500000,4500000", "WIDTH": 33, "HEIGHT": 17},
    {"BBOX": "2600000,3000000,2600100,3000080"},
    {"CRS": "EPSG:4326", "BBOX": "10,20,40,70", "WIDTH": 211, "HEIGHT": 127},
    {"CRS": "CRS:84", "BBOX": "-10,-10,30,20", "WIDTH": 90, "HEIGHT": 90},
    {"CRS": "CRS:84", "BBOX": "30,80,60,100", "WIDTH": 90, "HEIGHT": 60},
    {"CRS": "EPSG:32637", "BBOX": "100000,3000000,900000,4000000", "WIDTH": 300, "HEIGHT": 377},
    {"CRS": "EPSG:3035", "BBOX": "1500000,3000000,4500000,6500000", "WIDTH": 150, "HEIGHT": 170},
    {"DPI": 300, "BBOX": "2600000,3000000,3400000,3600000"},
]


def values_of(response: TestResponse) -> list[float]:
    assert (response.status_code, response.content_type) == (200, "text/plain"), response.text
    return [float(text) for text in response.text.split(",")]


@pytest.mark.sampled
@pytest.mark.parametrize("number", range(len(MAPS)))
@pytest.mark.parametrize("layer", ["ground", "grey", "heights"])
def test_value_is_that_of_the_map_without_style(
    client: Client,
    map_query: MapQuery,
    info_query: MapQuery,
    image: ReadImage,
    layer: str,
    number: int,
) -> None:
    where = {"LAYERS": layer, "FORMAT": "image/tiff"} | MAPS[number]
    if layer != "ground" and where.get("CRS") in ("EPSG:32637", "EPSG:3035"):
        return  # offered for one layer only
    whole = image(client.get("/wms", query_string=map_query(**where), buffered=True))
    height, width, _ = whole.shape
    generator = np.random.default_rng(number)
    points = [(0, 0), (width - 1, height - 1), (width - 1, 0), (width // 2, height // 2)]
    points += [(int(generator.integers(width)), int(generator.integers(height))) for _ in range(12)]
    for i, j in points:
        response = client.get("/wms", query_string=info_query(**where, I=i, J=j))
        expected = whole[j, i]
        if layer == "heights":
            # Two decimals, and rounding noise of sums in another order.
            assert values_of(response) == pytest.approx(expected.tolist(), abs=0.0075)
        else:
            assert values_of(response) == expected.tolist()


def test_style_has_no_effect_on_the_values(client: Client, info_query: MapQuery) -> None:
    plain = client.get("/wms", query_string=info_query(LAYERS="grey"))
    styled = client.get("/wms", query_string=info_query(LAYERS="grey", STYLES="ember"))
    assert styled.data == plain.data


def test_place_without_data_has_the_nodata_value(client: Client, info_query: MapQuery) -> None:
    query = info_query(LAYERS="heights", BBOX="-9000000,-9000000,-8000000,-8000000")
    assert client.get("/wms", query_string=query).text == "-99999.00"


@pytest.mark.parametrize("info_format", INFO_FORMATS)
def test_answer_has_the_requested_type(
    client: Client, info_query: MapQuery, info_format: str
) -> None:
    # W-42
    for name in (info_format, info_format.upper(), f" {info_format} "):
        response = client.get("/wms", query_string=info_query(INFO_FORMAT=name))
        assert (response.status_code, response.headers["Content-Type"]) == (200, info_format)
        assert "Content-Security-Policy" not in response.headers


def test_bodies_of_one_layer(client: Client, info_query: MapQuery) -> None:
    def body(info_format: str) -> bytes:
        return client.get("/wms", query_string=info_query(INFO_FORMAT=info_format)).data

    texts = body("text/plain").decode().split(",")
    assert len(texts) == 3
    root = etree.fromstring(body("text/xml"))
    assert (root.tag, [(child.tag, child.text) for child in root]) == (
        "Pixel",
        [("Band", text) for text in texts],
    )
    assert json.loads(body("application/json")) == {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "geometry": {"type": "Point", "coordinates": [24.2994284354, 29.1519490823]},
                "properties": {"pixel": [int(text) for text in texts]},
            }
        ],
    }
    page = html.fromstring(body("text/html").decode())
    assert page.xpath("string(body/b)") == "Pixel value :"
    assert page.xpath("body/ul/li/text()") == texts


def test_bodies_of_several_layers(client: Client, info_query: MapQuery) -> None:
    def body(info_format: str) -> bytes:
        query = info_query(LAYERS="ground,grey,cover", QUERY_LAYERS="grey,ground")
        return client.get("/wms", query_string=query | {"INFO_FORMAT": info_format}).data

    one, other = (
        client.get("/wms", query_string=info_query(LAYERS=layer)).text.split(",")
        for layer in ("grey", "ground")
    )
    assert body("text/plain").decode() == f"{','.join(one)}\n{','.join(other)}"
    root = etree.fromstring(body("text/xml"))
    assert root.tag == "Pixels"
    assert [(pixel.tag, pixel.get("layer"), [band.text for band in pixel]) for pixel in root] == [
        ("Pixel", "grey", one),
        ("Pixel", "ground", other),
    ]
    features = json.loads(body("application/json"))["features"]
    assert [feature["properties"] for feature in features] == [
        {"pixel": [int(text) for text in one], "layer": "grey"},
        {"pixel": [int(text) for text in other], "layer": "ground"},
    ]
    page = html.fromstring(body("text/html").decode())
    assert page.xpath("body/h2/text()") == ["grey", "ground"]
    assert [entry.xpath("li/text()") for entry in page.xpath("body/ul")] == [one, other]


@pytest.mark.parametrize("count", [None, "", "1", "10", "0", "-1", "many", "9" * 5000])
def test_feature_count_is_never_an_error(
    client: Client, info_query: MapQuery, count: str | None
) -> None:
    response = client.get("/wms", query_string=info_query(FEATURE_COUNT=count))
    assert response.status_code == 200


def test_background_and_transparency_are_of_no_account(
    client: Client, info_query: MapQuery
) -> None:
    query = info_query(BGCOLOR="no", TRANSPARENT="no")
    assert client.get("/wms", query_string=query).status_code == 200


def test_format_and_styles_may_be_absent(client: Client, info_query: MapQuery) -> None:
    whole = client.get("/wms", query_string=info_query(STYLES=""))
    short = client.get("/wms", query_string=info_query(FORMAT=None, STYLES=None))
    assert short.status_code == 200
    assert short.data == whole.data


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"LAYERS": None}, "MissingParameterValue", "LAYERS"),
    ({"LAYERS": "nowhere"}, "LayerNotDefined", "LAYERS"),
    ({"QUERY_LAYERS": None}, "MissingParameterValue", "QUERY_LAYERS"),
    ({"QUERY_LAYERS": ""}, "MissingParameterValue", "QUERY_LAYERS"),
    ({"QUERY_LAYERS": "nowhere"}, "LayerNotDefined", "QUERY_LAYERS"),
    ({"QUERY_LAYERS": "ground,nowhere"}, "LayerNotDefined", "QUERY_LAYERS"),
    ({"QUERY_LAYERS": "ground," * 4}, "InvalidParameterValue", "QUERY_LAYERS"),
    ({"LAYERS": "cover", "QUERY_LAYERS": "cover"}, "LayerNotQueryable", "QUERY_LAYERS"),
    ({"LAYERS": "ground", "QUERY_LAYERS": "cover"}, "LayerNotQueryable", "QUERY_LAYERS"),
    ({"LAYERS": "ground", "QUERY_LAYERS": "grey"}, "LayerNotDefined", "QUERY_LAYERS"),
    ({"QUERY_LAYERS": "nowhere", "WIDTH": "0"}, "LayerNotDefined", "QUERY_LAYERS"),
    ({"WIDTH": "0"}, "InvalidParameterValue", "WIDTH"),
    ({"CRS": "EPSG:2154"}, "InvalidCRS", "CRS"),
    ({"FORMAT": "image/bogus"}, "InvalidFormat", "FORMAT"),
    ({"BBOX": "3,3,1,1"}, "InvalidParameterValue", "BBOX"),
    ({"STYLES": "no"}, "StyleNotDefined", "STYLES"),
    ({"EXCEPTIONS": "no"}, "InvalidParameterValue", "EXCEPTIONS"),
    ({"INFO_FORMAT": "image/png"}, "InvalidFormat", "INFO_FORMAT"),
    ({"I": None}, "MissingParameterValue", "I"),
    ({"J": ""}, "MissingParameterValue", "J"),
    ({"I": "80"}, "InvalidPoint", "I"),
    ({"J": "60"}, "InvalidPoint", "J"),
    ({"I": "-1"}, "InvalidPoint", "I"),
    ({"J": "1.5"}, "InvalidPoint", "J"),
    ({"I": "ten"}, "InvalidPoint", "I"),
    ({"J": "9" * 5000}, "InvalidPoint", "J"),
    (
        {"BBOX": "0,0,1e8,1e8", "DPI": "1", "WIDTH": "1024", "HEIGHT": "768"},
        "InvalidParameterValue",
        "BBOX",
    ),
]


@pytest.mark.parametrize(("changes", "code", "locator"), FAULTS)
def test_errors_are_reported(
    client: Client,
    info_query: MapQuery,
    fault: Fault,
    changes: dict[str, Any],
    code: str,
    locator: str,
) -> None:
    response = client.get("/wms", query_string=info_query(**changes))
    assert fault(response) == (400, code, locator)


def test_reports_are_xml_for_every_requested_format(
    client: Client, info_query: MapQuery, fault: Fault
) -> None:
    # W-43
    for way in ("XML", "INIMAGE", "BLANK"):
        response = client.get("/wms", query_string=info_query(I="-1", EXCEPTIONS=way))
        assert fault(response) == (400, "InvalidPoint", "I")
