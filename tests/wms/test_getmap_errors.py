"""GetMap: invalid requests, the order of checks and the codes (wms.md section 3.2)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client, TestResponse

from mastaba.errors import StorageUnavailableError
from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

MapQuery = Callable[..., dict[str, str]]
Fault = Callable[[TestResponse], tuple[int, str, str | None]]
OpenClient = Callable[[Path], Client]

MISSING, INVALID = "MissingParameterValue", "InvalidParameterValue"


def test_checks_come_in_the_order_of_the_table(
    client: Client, map_query: MapQuery, fault: Fault
) -> None:
    """Everything is wrong at first; each step puts right what the one before reported."""
    wrong: dict[str, Any] = {
        "LAYERS": None,
        "WIDTH": "0",
        "HEIGHT": "x",
        "CRS": None,
        "FORMAT": None,
        "BBOX": None,
        "EXCEPTIONS": "no",
        "STYLES": None,
        "TRANSPARENT": "perhaps",
        "BGCOLOR": "white",
        "DPI": "0",
    }
    steps: list[tuple[dict[str, Any], str, str]] = [
        ({}, MISSING, "LAYERS"),
        ({"LAYERS": "a,b,c,d"}, INVALID, "LAYERS"),
        ({"LAYERS": "ground,nowhere"}, "LayerNotDefined", "LAYERS"),
        ({"LAYERS": "ground,heights"}, INVALID, "WIDTH"),
        ({"WIDTH": "100000"}, INVALID, "WIDTH"),
        ({"WIDTH": "1024"}, INVALID, "HEIGHT"),
        ({"HEIGHT": None}, MISSING, "HEIGHT"),
        ({"HEIGHT": "768"}, MISSING, "CRS"),
        ({"CRS": "EPSG:0"}, "InvalidCRS", "CRS"),
        ({"CRS": "EPSG:3857"}, MISSING, "FORMAT"),
        ({"FORMAT": "image/gif"}, "InvalidFormat", "FORMAT"),
        ({"FORMAT": "image/tiff"}, MISSING, "BBOX"),
        ({"BBOX": "1,2,3"}, INVALID, "BBOX"),
        ({"BBOX": "3,3,1,1"}, INVALID, "BBOX"),
        ({"BBOX": "0,0,1e9,1e9"}, INVALID, "EXCEPTIONS"),
        ({"EXCEPTIONS": "XML"}, MISSING, "STYLES"),
        ({"STYLES": "normal"}, INVALID, "STYLES"),
        ({"STYLES": "normal,no"}, "StyleNotDefined", "STYLES"),
        ({"STYLES": ",normal"}, INVALID, "TRANSPARENT"),
        ({"TRANSPARENT": "TRUE"}, INVALID, "BGCOLOR"),
        ({"BGCOLOR": "0xFFFFFF"}, INVALID, "DPI"),
        # Bytes and floats in one map come before the number of tiles.
        ({"DPI": "90"}, INVALID, "LAYERS"),
        ({"STYLES": ",steps", "BBOX": "0,0,1e8,1e8", "DPI": "1"}, INVALID, "BBOX"),
        (
            {"DPI": "90", "BBOX": "0,0,1e6,1e6", "FORMAT_OPTIONS": "compression:no"},
            INVALID,
            "FORMAT_OPTIONS",
        ),
    ]
    for changes, code, locator in steps:
        wrong |= changes
        response = client.get("/wms", query_string=map_query(**wrong))
        assert fault(response) == (400, code, locator), changes
    wrong["FORMAT_OPTIONS"] = "compression:lzw"
    assert client.get("/wms", query_string=map_query(**wrong)).status_code == 200


NUMBERS = ["", "0", "-1", "1.5", "80abc", "+80", " 80", "1e2", "0x50", "٨٠", "1025", "9" * 5000]


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize("name", ["WIDTH", "HEIGHT"])
def test_sizes_that_are_refused(
    client: Client, map_query: MapQuery, fault: Fault, name: str, value: str
) -> None:
    response = client.get("/wms", query_string=map_query(**{name: value}))
    assert fault(response) == (400, INVALID if value else MISSING, name)
    assert len(response.data) < 1000


BOXES = [
    "1,2,3",
    "1,2,3,4,5",
    "1,2,3,4,",
    ",,,",
    "a,b,c,d",
    "1,2,3,x",
    "1;2;3;4",
    "nan,0,10,10",
    "0,0,inf,10",
    "-inf,0,10,10",
    "0,0,infinity,10",
    "0,0,1e999,10",
    "-1e999,0,10,10",
    "-1e308,0,1e308,10",
    "0,0,10,10 apples",
    "0,0,10,1_0",
    "0,0,0x10,10",
    "0,0,10,1e",
    "0,0,10,.",
    "0,0,10,--5",
    "٠,0,10,10",
    "10,0,0,10",
    "0,10,10,0",
    "10,10,0,0",
    "5,0,5,10",
    "0,5,10,5",
    "5,5,5,5",
    "0,0,1e-300,1e-300",
    "0,0,1e300,1e300",
    "0," * 100_000,
    "1" * 100_000 + ",2,3,4",
]


@pytest.mark.parametrize("box", BOXES, ids=lambda box: box[:20])
@pytest.mark.parametrize("crs", ["EPSG:3857", "EPSG:4326"])
def test_boxes_that_are_refused(
    client: Client, map_query: MapQuery, fault: Fault, crs: str, box: str
) -> None:
    # W-31
    response = client.get("/wms", query_string=map_query(CRS=crs, BBOX=box))
    assert fault(response) == (400, INVALID, "BBOX")
    assert len(response.data) < 1000


CODES = [
    "UndefinedCRS",
    "EPSG",
    "EPSG:",
    ":3857",
    "EPSG:3857:1",
    "EPSG:3857 ",
    "EPSG:0",
    "EPSG:99999999",
    "EPSG:2154",
    "IGNF:NOSUCH",
    "AUTO2:42001,1,0,0",
    "urn:ogc:def:crs:EPSG::4326",
    "http://www.opengis.net/def/crs/EPSG/0/4326",
    "+proj=longlat +datum=WGS84",
    "+proj=merc",
    'GEOGCS["WGS 84"]',
    "../../etc/passwd",
    "EPSG:3857\x00",
    "<EPSG:3857>",
    "A" * 1_000_000,
    "EPSG:" + "9" * 1_000_000,
]


@pytest.mark.parametrize("code", CODES, ids=lambda code: code[:20])
def test_crs_that_are_refused(client: Client, map_query: MapQuery, fault: Fault, code: str) -> None:
    # W-33
    response = client.get("/wms", query_string=map_query(CRS=code))
    assert fault(response) == (400, "InvalidCRS", "CRS")
    assert len(response.data) < 1000


def test_unknown_codes_do_not_reach_the_projection_library(
    client: Client, map_query: MapQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError(f"asked for {arguments}")

    monkeypatch.setattr("mastaba.model.crs.pyproj.CRS.from_user_input", refuse)
    for code in CODES:
        response = client.get("/wms", query_string=map_query(CRS=code))
        assert b'code="InvalidCRS"' in response.data


@pytest.mark.parametrize(
    "layers", ["nowhere", "nowhere,ground", "ground,nowhere", "GROUND", "hidden", "ground,", " "]
)
def test_layers_that_are_not_defined(
    client: Client, map_query: MapQuery, fault: Fault, layers: str
) -> None:
    # W-34
    response = client.get("/wms", query_string=map_query(LAYERS=layers))
    assert fault(response) == (400, "LayerNotDefined", "LAYERS")


def test_too_many_layers_are_not_even_looked_up(
    client: Client, map_query: MapQuery, fault: Fault
) -> None:
    for layers in (
        ",".join(["ground"] * 4),
        ",".join(f"layer{n}" for n in range(10_000)),
        "," * 99,
    ):
        response = client.get("/wms", query_string=map_query(LAYERS=layers))
        assert fault(response) == (400, INVALID, "LAYERS")
        assert len(response.data) < 1000


@pytest.mark.parametrize(
    ("layers", "styles"),
    [("ground", "no"), ("ground,grey", "no,"), ("grey,ground", ",ember"), ("ground", "NORMAL")],
)
def test_styles_that_are_not_defined(
    client: Client, map_query: MapQuery, fault: Fault, layers: str, styles: str
) -> None:
    # W-36
    response = client.get("/wms", query_string=map_query(LAYERS=layers, STYLES=styles))
    assert fault(response) == (400, "StyleNotDefined", "STYLES")


@pytest.mark.parametrize(
    ("layers", "styles"),
    [("ground", ","), ("ground,grey", "normal"), ("ground,grey", ",,"), ("ground", "," * 100_000)],
)
def test_styles_in_another_number_than_layers(
    client: Client, map_query: MapQuery, fault: Fault, layers: str, styles: str
) -> None:
    response = client.get("/wms", query_string=map_query(LAYERS=layers, STYLES=styles))
    assert fault(response) == (400, INVALID, "STYLES")


@pytest.mark.parametrize(
    "name",
    ["image/gif", "image/webp", "png", "image/png8", "image/png;mode=8bit", "text/xml", "x" * 9999],
)
def test_formats_that_are_refused(
    client: Client, map_query: MapQuery, fault: Fault, name: str
) -> None:
    # W-35
    response = client.get("/wms", query_string=map_query(FORMAT=name))
    assert fault(response) == (400, "InvalidFormat", "FORMAT")


@pytest.mark.parametrize(
    ("changes", "locator"),
    [
        ({"TRANSPARENT": "1"}, "TRANSPARENT"),
        ({"TRANSPARENT": "x" * 100_000}, "TRANSPARENT"),
        ({"BGCOLOR": "0xFFF"}, "BGCOLOR"),
        ({"BGCOLOR": "0xGGGGGG"}, "BGCOLOR"),
        ({"BGCOLOR": "0xFFFFFFFF"}, "BGCOLOR"),
        ({"BGCOLOR": "F" * 100_000}, "BGCOLOR"),
        ({"DPI": "-96"}, "DPI"),
        ({"DPI": "96.5"}, "DPI"),
        ({"DPI": "9" * 5000}, "DPI"),
        ({"str_dpi": "no"}, "DPI"),
        ({"EXCEPTIONS": "PLAIN"}, "EXCEPTIONS"),
        ({"EXCEPTION": "SVG"}, "EXCEPTIONS"),
        ({"FORMAT": "image/tiff", "FORMAT_OPTIONS": "compression:jpeg"}, "FORMAT_OPTIONS"),
        ({"FORMAT": "image/geotiff", "FORMAT_OPTIONS": "compression:"}, "FORMAT_OPTIONS"),
        ({"FORMAT_OPTIONS": "quality:1;" * 1000}, "FORMAT_OPTIONS"),
    ],
)
def test_values_that_are_refused(
    client: Client, map_query: MapQuery, fault: Fault, changes: dict[str, str], locator: str
) -> None:
    response = client.get("/wms", query_string=map_query(**changes))
    assert fault(response) == (400, INVALID, locator)


def test_map_of_too_many_tiles_is_refused(
    client: Client, map_query: MapQuery, fault: Fault
) -> None:
    # Of the finest level; DPI decides it.
    query = map_query(BBOX="0,0,1e8,1e8", DPI=1, WIDTH=1024, HEIGHT=768)
    assert fault(client.get("/wms", query_string=query)) == (400, INVALID, "BBOX")


def test_map_of_too_many_tiles_of_the_coarsest_level_is_an_overview(
    client: Client, map_query: MapQuery
) -> None:
    for box in ("0,0,1e9,1e9", "-1e9,-1e9,1e9,1e9"):
        assert client.get("/wms", query_string=map_query(BBOX=box)).status_code == 200


def test_without_reprojection_only_the_native_crs_is_drawn(
    tmp_path: Path, open_client: OpenClient, map_query: MapQuery, fault: Fault
) -> None:
    descriptor = write_pyramid(
        tmp_path / "pyramids",
        "ground",
        tile_matrix_set=web_mercator(),
        format="TIFF_RAW_UINT8",
        levels=[LevelPlan("2", 1, 1, 2, 2)],
        tile=tiny_integer_tile(3),
    )
    server_json = write_installation(
        tmp_path,
        layers={"ground": layer_document(descriptor, extra_crs=["EPSG:32637"])},
        services=["wms"],
        services_overrides={"global": {"map": {"reprojection": False}}},
    )
    native = open_client(server_json)
    assert native.get("/wms", query_string=map_query()).status_code == 200
    for code in ("CRS:84", "EPSG:4326", "EPSG:32637"):
        response = native.get("/wms", query_string=map_query(CRS=code))
        assert fault(response) == (400, "InvalidCRS", "CRS")


def test_messages_show_what_the_client_wrote_harmlessly(
    client: Client, map_query: MapQuery
) -> None:
    response = client.get("/wms", query_string=map_query(LAYERS='<script>&"\x07'))
    assert '&lt;script&gt;&amp;"_' in response.text


def test_unexpected_failure_shows_nothing_of_the_server(
    client: Client, map_query: MapQuery, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("the secret is /etc/secret")

    monkeypatch.setattr("mastaba_wms.getmap.EncodedMap", fail)
    response = client.get("/wms", query_string=map_query())
    assert fault(response) == (500, "NoApplicableCode", None)
    assert b"secret" not in response.data


def test_storage_out_of_reach_is_said(
    client: Client, map_query: MapQuery, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise StorageUnavailableError("no route to host", storage="s3://b@secret", key="k")

    monkeypatch.setattr("mastaba_wms.getmap.EncodedMap", fail)
    response = client.get("/wms", query_string=map_query())
    assert fault(response) == (503, "NoApplicableCode", None)
    assert b"secret" not in response.data
