"""The RESTful binding (wmts.md section 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from werkzeug.test import Client, TestResponse

Fault = Callable[[TestResponse], tuple[int, str, list[str | None]]]
Find = Callable[..., list[Any]]
TileQuery = Callable[..., dict[str, str]]

CAPABILITIES = "/wmts/1.0.0/WMTSCapabilities.xml"
TILE = "/wmts/1.0.0/RGB_JPG/normal/PM/4/5/9.jpeg"


def test_capabilities_are_those_of_kvp_and_name_their_own_address(tiny: Client, find: Find) -> None:
    # M-40
    response = tiny.get(CAPABILITIES)
    assert response.status_code == 200
    assert response.data == tiny.get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities").data
    url = find(response, "string(/*/wmts:ServiceMetadataURL/@xlink:href)")
    assert url == [f"http://maps.example{CAPABILITIES}"]


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (None, "text/xml"),
        ("*/*", "text/xml"),
        ("application/xml", "application/xml"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/xml"),
        ("text/*", "text/xml"),
    ],
)
def test_capabilities_have_the_xml_type_that_the_client_takes(
    tiny: Client, accept: str | None, media_type: str
) -> None:
    headers = {"Accept": accept} if accept else {}
    response = tiny.get(CAPABILITIES, headers=headers)
    assert (response.status_code, response.headers["Content-Type"]) == (200, media_type)


@pytest.mark.parametrize("accept", ["example/unknown", "image/png", "text/xml;q=0"])
def test_capabilities_for_a_client_without_xml_are_not_acceptable(
    tiny: Client, fault: Fault, accept: str
) -> None:
    # M-40
    response = tiny.get(CAPABILITIES, headers={"Accept": accept})
    assert fault(response) == (406, "NoApplicableCode", [None])


def test_inspire_form_is_had_by_the_query(rich: Client, find: Find) -> None:
    response = rich.get(f"{CAPABILITIES}?INSPIRE=1")
    assert find(response, "//wmts:Layer/ows:Identifier/text()") == ["inspired"]


@pytest.mark.parametrize("path", [TILE, TILE.replace("jpeg", "jpg"), TILE.replace("PM", "PM_2_4")])
def test_tile_is_the_one_of_kvp(tiny: Client, tile_query: TileQuery, path: str) -> None:
    response = tiny.get(path)
    expected = tiny.get("/wmts", query_string=tile_query())
    assert response.status_code == 200
    assert response.data == expected.data
    assert response.headers == expected.headers


def test_row_comes_before_column(rich: Client) -> None:
    assert rich.get("/wmts/1.0.0/gap/normal/PM/4/5/10.png").status_code == 200
    assert rich.get("/wmts/1.0.0/gap/normal/PM/4/10/5.png").status_code == 404


def test_every_announced_template_leads_to_a_tile(rich: Client, find: Find) -> None:
    # M-40
    response = rich.get(CAPABILITIES)
    for layer in find(response, "//wmts:Layer"):
        template = layer.find("{*}ResourceURL").get("template")
        limits = layer.find(".//{*}TileMatrixLimits")
        first = [child.text for child in limits] if limits is not None else ["0", *"0000"]
        values = {
            "style": layer.findtext("{*}Style/{*}Identifier"),
            "TileMatrixSet": layer.findtext("{*}TileMatrixSetLink/{*}TileMatrixSet"),
            "TileMatrix": first[0],
            "TileRow": first[1],
            "TileCol": first[3],
        }
        url = template.format(**{name: quote(value, safe="") for name, value in values.items()})
        tile = rich.get(url.removeprefix("http://maps.example"))
        assert tile.status_code == 200, url
        assert tile.headers["Content-Type"] == layer.findtext("{*}Format")


def test_file_name_makes_an_attachment(tiny: Client) -> None:
    disposition = tiny.get(f"{TILE}?filename=my.jpg").headers["Content-Disposition"]
    assert disposition == 'attachment; filename="my.jpg"'


INVALID = "InvalidParameterValue"
FAULTS = [
    # Elements that name nothing
    ("/1.0.0/unknown/normal/PM/4/5/9.jpeg", INVALID, ["Layer"]),
    ("/1.0.0/VECTOR/normal/PM/4/5/9.pbf", INVALID, ["Layer"]),
    ("/1.0.0/RGB_JPG/unknown/PM/4/5/9.jpeg", INVALID, ["Style"]),
    ("/1.0.0/RGB_JPG/normal/unknown/4/5/9.jpeg", INVALID, ["TileMatrixSet"]),
    ("/1.0.0/RGB_JPG/normal/PM/unknown/5/9.jpeg", INVALID, ["TileMatrix"]),
    ("/1.0.0/RGB_JPG/normal/PM/4/5/9.tif", INVALID, ["Format"]),
    ("/1.0.0/RGB_JPG/normal/PM/4/5/9.JPEG", INVALID, ["Format"]),
    ("/1.0.0/RGB_JPG/normal/PM/4/5/9.0.jpeg", INVALID, ["Format"]),
    ("/1.0.0/RGB_JPG/normal/PM/4/x/9.jpeg", INVALID, ["TileRow"]),
    ("/1.0.0/RGB_JPG/normal/PM/4/5/+9.jpeg", INVALID, ["TileCol"]),
    ("/1.0.0/RGB_JPG/normal/PM/4/5/%EF%BC%91.jpeg", INVALID, ["TileCol"]),
    ("/1.0.0/RGB_JPG%00/normal/PM/4/5/9.jpeg", INVALID, ["Layer"]),
    ("/1.0.0/%C3%A9/normal/PM/4/5/9.jpeg", INVALID, ["Layer"]),
    ("/1.0.0/%FF%FE/normal/PM/4/5/9.jpeg", INVALID, ["Layer"]),
    ("/1.0.0/../normal/PM/4/5/9.jpeg", INVALID, ["Layer"]),
    ("/1.0.0/%2E%2E/normal/PM/4/5/9.jpeg", INVALID, ["Layer"]),
    ("/1.0.0/" + "x" * 1_000_000 + "/normal/PM/4/5/9.jpeg", INVALID, ["Layer"]),
    # Outside the limits
    ("/1.0.0/RGB_JPG/normal/PM/4/4/9.jpeg", "TileOutOfRange", ["TileRow"]),
    ("/1.0.0/RGB_JPG/normal/PM/4/5/-1.jpeg", "TileOutOfRange", ["TileCol"]),
    ("/1.0.0/RGB_JPG/normal/PM/4/4/8.jpeg", "TileOutOfRange", ["TileRow", "TileCol"]),
    ("/1.0.0/RGB_JPG/normal/PM/7/5/9.jpeg", "TileOutOfRange", ["TileMatrix"]),
    ("/1.0.0/RGB_JPG/normal/PM/4/" + "9" * 5000 + "/9.jpeg", "TileOutOfRange", ["TileRow"]),
    # Paths of no form
    ("/1.0.0", "NoApplicableCode", [None]),
    ("/1.0.0/WMTSCapabilities.xml/Bogus", "NoApplicableCode", [None]),
    ("/1.0.0/wmtscapabilities.xml", "NoApplicableCode", [None]),
    ("/1.1.0/WMTSCapabilities.xml", "NoApplicableCode", [None]),
    ("/1.1.0/RGB_JPG/normal/PM/4/5/9.jpeg", "NoApplicableCode", [None]),
    ("/1.0.0/RGB_JPG//PM/4/5/9.jpeg", "NoApplicableCode", [None]),
    ("/1.0.0/RGB_JPG/normal/PM/4/5/9", "NoApplicableCode", [None]),
    ("/1.0.0/RGB_JPG/normal/PM/4/5/.jpeg", "NoApplicableCode", [None]),
    ("/1.0.0/RGB_JPG/normal/PM/4/5/9/1.txt/x", "NoApplicableCode", [None]),
    ("/1.0.0/RGB%2FJPG/normal/PM/4/5/9.jpeg", "NoApplicableCode", [None]),
    ("/1.0.0/RGB_JPG/normal/PM/4/5%2F9.jpeg/x", "NoApplicableCode", [None]),
    ("/bogus?SERVICE=WMTS&REQUEST=GetCapabilities", "NoApplicableCode", [None]),
    ("/" + "/" * 100_000, "NoApplicableCode", [None]),
]


@pytest.mark.parametrize(("path", "code", "locators"), FAULTS, ids=lambda value: str(value)[:60])
def test_path_that_leads_nowhere_is_not_found(
    tiny: Client, fault: Fault, path: str, code: str, locators: list[str | None]
) -> None:
    # M-40
    assert fault(tiny.get(f"/wmts{path}")) == (404, code, locators)


def test_tile_that_is_not_stored_is_not_found(rich: Client, fault: Fault) -> None:
    response = rich.get("/wmts/1.0.0/gap/normal/PM/4/6/9.png")
    assert fault(response) == (404, "NoApplicableCode", [None])


def test_feature_info_is_not_supported(tiny: Client, fault: Fault) -> None:
    response = tiny.get("/wmts/1.0.0/RGB_JPG/normal/PM/4/5/9/10/20.txt")
    assert fault(response) == (501, "OperationNotSupported", ["GetFeatureInfo"])
    response = tiny.get("/wmts/1.0.0/unknown/normal/PM/4/5/9/10/20.txt")
    assert fault(response) == (404, "InvalidParameterValue", ["Layer"])


def test_post_to_a_resource_is_not_allowed(tiny: Client, fault: Fault) -> None:
    response = tiny.post(TILE)
    assert fault(response) == (405, "NoApplicableCode", [None])
    assert response.headers["Allow"] == "GET, HEAD, OPTIONS"
