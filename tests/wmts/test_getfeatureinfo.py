"""GetFeatureInfo (wmts.md section 4): stored tiles, computed tiles, other servers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pyproj
import pytest
from lxml import etree
from tests.wmts import ground
from werkzeug.test import Client, TestResponse

from mastaba_render.codecs import TileDecoder

Fault = Callable[[TestResponse], tuple[int, str, list[str | None]]]
Find = Callable[..., list[Any]]
OpenClient = Callable[[Path], Client]
TileQuery = Callable[..., dict[str, str]]

FORMATS = ["text/plain", "text/xml", "text/html", "application/json"]
NATIVE = ("MESH", "1", "8", "6")
EXTRA = ("LAMBERT", "3", "24", "26")


@pytest.fixture(scope="module")
def queryable(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    return open_client(ground.write(tmp_path_factory.mktemp("queryable")))


MEDIA_TYPES = {
    "grey": "image/png",
    "rgba": "image/png",
    "sparse": "image/png",
    "jpeg90": "image/jpeg",
    "packbits": "image/tiff",
    "float_raw": "image/x-bil;bits=32",
    "float_lzw": "image/tiff",
}


def query(name: str, place: tuple[str, str, str, str], **changes: str | None) -> dict[str, str]:
    tile_matrix_set, matrix, row, col = place
    parameters: dict[str, str | None] = {
        "SERVICE": "WMTS",
        "VERSION": "1.0.0",
        "REQUEST": "GetFeatureInfo",
        "LAYER": name,
        "STYLE": "normal",
        "FORMAT": MEDIA_TYPES.get(name, "image/png"),
        "TILEMATRIXSET": tile_matrix_set,
        "TILEMATRIX": matrix,
        "TILEROW": row,
        "TILECOL": col,
        "I": "12",
        "J": "34",
        "INFOFORMAT": "application/json",
    } | changes
    return {key: value for key, value in parameters.items() if value is not None}


def ask(
    client: Client, name: str, place: tuple[str, str, str, str], **changes: str | None
) -> TestResponse:
    return client.get("/wmts", query_string=query(name, place, **changes))


def pixel(response: TestResponse) -> list[str]:
    assert response.status_code == 200, response.data
    (feature,) = json.loads(response.data)["features"]
    values = feature["properties"]["pixel"]
    assert all(type(value) in (int, float) for value in values)
    return [f"{value:.6g}" for value in values]


def tile_of(client: Client, name: str, place: tuple[str, str, str, str], shape: Any) -> Any:
    changes = {"REQUEST": "GetTile", "INFOFORMAT": None, "I": None, "J": None}
    return ground.decoded(ask(client, name, place, **changes), shape)


# ---------------------------------------------------------------- values


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["grey", "rgba", "packbits", "jpeg90", "float_raw", "float_lzw"])
@pytest.mark.parametrize(
    ("place", "size"),
    [(NATIVE, ground.TILE), (EXTRA, (80, 56)), (("DOUBLE", "1", "4", "3"), (128, 96))],
)
def test_value_is_that_of_the_tile(
    queryable: Client, name: str, place: tuple[str, str, str, str], size: tuple[int, int]
) -> None:
    _, channels = ground.FORMATS[name]
    tile = tile_of(queryable, name, place, (*size[::-1], channels))
    # The encoder of a computed JPEG tile is lossy; its value is taken before.
    tolerance = 15 if name == "jpeg90" and place != NATIVE else 0
    for i, j in ((0, 0), (size[0] - 1, 0), (0, size[1] - 1), (37, 21)):
        values = pixel(ask(queryable, name, place, I=str(i), J=str(j)))
        if name.startswith("float"):
            assert [float(value) for value in values] == pytest.approx(tile[j, i], rel=1e-5)
            assert all(len(value.replace(".", "")) <= 6 for value in values)
        else:
            assert all(value.isdigit() for value in values)
            difference = np.array([int(value) for value in values]) - tile[j, i]
            assert np.abs(difference).max() <= tolerance


def test_style_has_no_effect(queryable: Client) -> None:
    plain, coloured = (
        pixel(ask(queryable, "grey", NATIVE, STYLE=style)) for style in ("normal", "ember")
    )
    assert len(plain) == 1
    assert plain == coloured


def test_pixel_without_data_is_nodata_and_absent_tile_not_found(
    queryable: Client, fault: Fault
) -> None:
    # Inside a slab that has other tiles, the tile is stored as one of nodata.
    assert pixel(ask(queryable, "sparse", ("MESH", "0", "3", "2"))) == ["7"]
    response = ask(queryable, "sparse", ("MESH", "1", "8", "2"))
    assert fault(response) == (404, "NoApplicableCode", [None])
    # The same ground in another set is a tile that GetTile makes.
    assert pixel(ask(queryable, "sparse", ("LAMBERT", "3", "24", "24"))) == ["7"]


def test_one_tile_is_decoded_for_a_stored_pixel(
    queryable: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    decode = TileDecoder.decode

    def counted(self: TileDecoder, payload: bytes) -> Any:
        decoded.append(len(payload))
        return decode(self, payload)

    monkeypatch.setattr(TileDecoder, "decode", counted)
    # A tile that has not been read before
    ask(queryable, "rgba", ("MESH", "1", "5", "3"))
    assert len(decoded) == 1


# ---------------------------------------------------------------- bodies


def test_bodies(queryable: Client) -> None:
    values = pixel(ask(queryable, "rgba", NATIVE))
    assert len(values) == 4
    answers = {name: ask(queryable, "rgba", NATIVE, INFOFORMAT=name) for name in FORMATS}
    for name, response in answers.items():
        # M-30
        assert response.status_code == 200
        assert response.headers["Content-Type"] == name
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert answers["text/plain"].data.decode() == ",".join(values)
    pixel_element = etree.fromstring(answers["text/xml"].data)
    assert pixel_element.tag == "Pixel"
    assert [band.text for band in pixel_element.iterfind("Band")] == values
    page = etree.HTML(answers["text/html"].data)
    assert [item.text for item in page.iterfind("body/ul/li")] == values
    document = json.loads(answers["application/json"].data)
    assert document["type"] == "FeatureCollection"
    geometry = document["features"][0]["geometry"]
    assert geometry["type"] == "Point"


@pytest.mark.parametrize("place", [NATIVE, EXTRA])
def test_feature_is_at_the_middle_of_the_pixel(
    queryable: Client, place: tuple[str, str, str, str]
) -> None:
    """RFC 7946 clause 4: longitude and latitude of WGS 84."""
    name, matrix, row, col = place
    capabilities = etree.fromstring(
        queryable.get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities").data
    )
    spaces = {"w": "http://www.opengis.net/wmts/1.0", "o": "http://www.opengis.net/ows/1.1"}
    tile_matrix_set = capabilities.xpath(
        f"//w:TileMatrixSet[starts-with(o:Identifier,'{name}')]", namespaces=spaces
    )[0]
    (found,) = tile_matrix_set.xpath(f"w:TileMatrix[o:Identifier='{matrix}']", namespaces=spaces)
    left, top = map(float, found.findtext("w:TopLeftCorner", None, spaces).split())
    cell = float(found.findtext("w:ScaleDenominator", None, spaces)) * 0.00028
    width, height = (
        int(found.findtext(f"w:Tile{side}", None, spaces)) for side in ("Width", "Height")
    )
    code = tile_matrix_set.findtext("o:SupportedCRS", None, spaces)
    x = left + (int(col) * width + 37.5) * cell
    y = top - (int(row) * height + 21.5) * cell
    expected = pyproj.Transformer.from_crs(code, "OGC:CRS84", always_xy=True).transform(x, y)
    (feature,) = json.loads(ask(queryable, "grey", place, I="37", J="21").data)["features"]
    assert feature["geometry"]["coordinates"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["InfoFormat", "INFO_FORMAT", "info_format"])
def test_name_and_case_of_the_format_are_free(queryable: Client, name: str) -> None:
    expected = ask(queryable, "grey", NATIVE)
    response = ask(queryable, "grey", NATIVE, INFOFORMAT=None, **{name: "Application/JSON"})
    assert response.data == expected.data


def test_form_by_post_is_the_same(queryable: Client) -> None:
    response = queryable.post("/wmts", data=query("grey", NATIVE))
    assert response.data == ask(queryable, "grey", NATIVE).data


def test_published_name_of_the_set(queryable: Client) -> None:
    for place in (NATIVE, EXTRA):
        name = {"MESH": "MESH_0_1", "LAMBERT": "LAMBERT_2_3"}[place[0]]
        published = pixel(ask(queryable, "rgba", (name, *place[1:])))
        assert published == pixel(ask(queryable, "rgba", place))


# ---------------------------------------------------------------- errors


PARAMETERS = {
    "LAYER": "Layer",
    "STYLE": "Style",
    "FORMAT": "Format",
    "TILEMATRIXSET": "TileMatrixSet",
    "TILEMATRIX": "TileMatrix",
    "TILEROW": "TileRow",
    "TILECOL": "TileCol",
    "I": "I",
    "J": "J",
    "INFOFORMAT": "InfoFormat",
}


@pytest.mark.parametrize("place", [NATIVE, EXTRA], ids=["native", "extra"])
@pytest.mark.parametrize("parameter", PARAMETERS)
def test_missing_parameter(
    queryable: Client, fault: Fault, parameter: str, place: tuple[str, str, str, str]
) -> None:
    # M-30
    response = ask(queryable, "grey", place, **{parameter: None})
    assert fault(response) == (400, "MissingParameterValue", [PARAMETERS[parameter]])
    if parameter != "STYLE":  # an empty style is the default one
        response = ask(queryable, "grey", place, **{parameter: ""})
        assert fault(response) == (400, "MissingParameterValue", [PARAMETERS[parameter]])


@pytest.mark.parametrize("place", [NATIVE, EXTRA], ids=["native", "extra"])
@pytest.mark.parametrize("parameter", PARAMETERS)
def test_unknown_value(
    queryable: Client, fault: Fault, parameter: str, place: tuple[str, str, str, str]
) -> None:
    # M-30
    response = ask(queryable, "grey", place, **{parameter: "bogus"})
    assert fault(response) == (400, "InvalidParameterValue", [PARAMETERS[parameter]])


@pytest.mark.parametrize(
    "value",
    [
        "1.0",
        "1e1",
        "+1",
        " 1",
        "1 ",
        "0x1",
        "1_0",
        "٣",
        "²",
        "--1",
        "-",
        "1,2",
        "\x001",
        "None",
        "1\n",
    ],
)
@pytest.mark.parametrize("parameter", ["I", "J"])
def test_point_is_strictly_an_integer(
    queryable: Client, fault: Fault, parameter: str, value: str
) -> None:
    response = ask(queryable, "grey", NATIVE, **{parameter: value})
    assert fault(response) == (400, "InvalidParameterValue", [parameter])


def faults(find: Find, response: TestResponse) -> list[tuple[str, str]]:
    assert response.status_code == 400
    exceptions = find(response, "/ows:ExceptionReport/ows:Exception")
    return [(each.get("exceptionCode"), each.get("locator")) for each in exceptions]


@pytest.mark.parametrize(
    ("i", "j", "locators"),
    [
        ("64", "0", ["I"]),
        ("-1", "0", ["I"]),
        ("0", "48", ["J"]),
        ("0", "-7", ["J"]),
        ("9" * 5000, "0", ["I"]),
        ("48", "64", ["J"]),  # each has its own limit
        ("64", "48", ["I", "J"]),
    ],
)
def test_point_outside_the_tile(
    queryable: Client, find: Find, i: str, j: str, locators: list[str]
) -> None:
    # M-31: the test suite requires the code of tiles, the standard defines another one
    found = faults(find, ask(queryable, "grey", NATIVE, I=i, J=j))
    assert found == [
        (code, locator) for code in ("PointIJOutOfRange", "TileOutOfRange") for locator in locators
    ]


def test_size_of_the_tile_is_that_of_the_set(queryable: Client, find: Find) -> None:
    assert ask(queryable, "grey", EXTRA, I="79", J="55").status_code == 200
    found = faults(find, ask(queryable, "grey", EXTRA, I="80", J="55"))
    assert [locator for _, locator in found] == ["I", "I"]


@pytest.mark.parametrize(
    ("place", "locators"),
    [
        (("MESH", "1", "12", "6"), ["TileRow"]),
        (("MESH", "1", "8", "10"), ["TileCol"]),
        (("LAMBERT", "3", "0", "0"), ["TileRow", "TileCol"]),
        (("LAMBERT", "4", "48", "52"), ["TileMatrix"]),
    ],
)
def test_tile_outside_the_limits(
    queryable: Client,
    fault: Fault,
    place: tuple[str, str, str, str],
    locators: list[str | None],
) -> None:
    # M-30, and before the point is checked
    response = ask(queryable, "grey", place, I="999")
    assert fault(response) == (400, "TileOutOfRange", locators)


def test_tile_that_cannot_be_made_has_no_values(queryable: Client, fault: Fault) -> None:
    response = ask(queryable, "grey", ("WIDE", "1", "2", "4"))
    assert fault(response) == (404, "NoApplicableCode", [None])


def test_extra_sets_are_refused_without_reprojection(
    tmp_path: Path, open_client: OpenClient, fault: Fault
) -> None:
    client = open_client(ground.write(tmp_path, ["grey"], reprojection=False))
    assert fault(ask(client, "grey", EXTRA)) == (400, "InvalidParameterValue", ["TileMatrixSet"])


def test_layer_that_is_not_queryable_is_not_supported(
    tiny: Client, tile_query: TileQuery, fault: Fault
) -> None:
    # M-32
    changes = {"REQUEST": "GetFeatureInfo", "I": "1", "J": "1", "INFOFORMAT": "text/plain"}
    response = tiny.get("/wmts", query_string=tile_query(**changes))
    assert fault(response) == (501, "OperationNotSupported", ["GetFeatureInfo"])
    # Whatever else is wrong
    response = tiny.get("/wmts", query_string=tile_query(REQUEST="GetFeatureInfo", TILEROW="x"))
    assert fault(response) == (501, "OperationNotSupported", ["GetFeatureInfo"])


@pytest.mark.parametrize(
    ("layer", "code"),
    [
        (None, "MissingParameterValue"),
        ("", "MissingParameterValue"),
        ("x", "InvalidParameterValue"),
        ("VECTOR", "InvalidParameterValue"),
    ],
)
def test_layer_is_looked_at_first(
    tiny: Client, tile_query: TileQuery, fault: Fault, layer: str | None, code: str
) -> None:
    query = tile_query(REQUEST="GetFeatureInfo", LAYER=layer)
    assert fault(tiny.get("/wmts", query_string=query)) == (400, code, ["Layer"])


# ---------------------------------------------------------------- RESTful


@pytest.mark.parametrize(
    ("extension", "media_type"),
    list(zip(("txt", "xml", "html", "json"), FORMATS, strict=True)),
)
@pytest.mark.parametrize("place", [NATIVE, EXTRA], ids=["native", "extra"])
def test_path(
    queryable: Client, place: tuple[str, str, str, str], extension: str, media_type: str
) -> None:
    response = queryable.get(f"/wmts/1.0.0/rgba/normal/{'/'.join(place)}/34/12.{extension}")
    expected = ask(queryable, "rgba", place, INFOFORMAT=media_type)
    assert response.status_code == 200
    assert response.data == expected.data
    assert response.headers == expected.headers


@pytest.mark.parametrize(
    ("path", "locators"),
    [
        ("MESH/1/8/6/48/12.txt", ["J", "J"]),
        ("MESH/1/8/6/34/64.txt", ["I", "I"]),
        ("MESH/1/8/6/34/-1.txt", ["I", "I"]),
        ("MESH/1/8/6/x/12.txt", ["J"]),
        ("MESH/1/8/6/34/+12.txt", ["I"]),
        ("MESH/1/8/6/34/12.png", ["InfoFormat"]),
        ("MESH/1/8/6/34/12.TXT", ["InfoFormat"]),
        ("MESH/1/8/6/34/12.1.txt", ["InfoFormat"]),
        ("MESH/1/12/6/34/12.txt", ["TileRow"]),
        ("MESH/5/8/6/34/12.txt", ["TileMatrix"]),
        ("MESS/1/8/6/34/12.txt", ["TileMatrixSet"]),
        ("MESH/1/8/6/34/12", [None]),
        ("MESH/1/8/6/34/.txt", [None]),
        ("MESH/1/8/6/34/12.txt/x", [None]),
    ],
)
def test_path_to_nothing_is_not_found(
    queryable: Client, find: Find, path: str, locators: list[str | None]
) -> None:
    # M-40
    response = queryable.get(f"/wmts/1.0.0/rgba/normal/{path}")
    assert response.status_code == 404
    exceptions = find(response, "/ows:ExceptionReport/ows:Exception")
    assert [each.get("locator") for each in exceptions] == locators


# ---------------------------------------------------------------- capabilities


GET = "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"


def test_operation_is_announced_with_its_formats_and_paths(queryable: Client, find: Find) -> None:
    response = queryable.get(GET)
    names = find(response, "//ows:Operation/@name")
    assert names == ["GetCapabilities", "GetTile", "GetFeatureInfo"]
    encodings = "//ows:Operation[@name='GetFeatureInfo']//ows:{}/ows:Constraint//ows:Value/text()"
    assert find(response, encodings.format("Get")) == ["KVP", "RESTful"]
    assert find(response, encodings.format("Post")) == ["KVP"]
    for layer in find(response, "//wmts:Layer"):
        assert [each.text for each in layer.iterfind("{*}InfoFormat")] == FORMATS
        resources = layer.findall("{*}ResourceURL[@resourceType='FeatureInfo']")
        assert [each.get("format") for each in resources] == FORMATS
        for resource in resources:
            url = resource.get("template").format(
                style="normal",
                TileMatrixSet="MESH",
                TileMatrix="1",
                TileRow="8",
                TileCol="6",
                J="47",
                I="63",
            )
            answer = queryable.get(url.removeprefix("http://maps.example"))
            assert answer.status_code == 200
            assert answer.headers["Content-Type"] == resource.get("format")


def test_operation_is_not_announced_without_a_queryable_layer(tiny: Client, find: Find) -> None:
    response = tiny.get(GET)
    assert find(response, "//ows:Operation/@name") == ["GetCapabilities", "GetTile"]
    assert find(response, "//wmts:InfoFormat") == []
    assert find(response, "//wmts:ResourceURL[@resourceType!='tile']") == []


# ---------------------------------------------------------------- another server


class Upstream:
    """A WMS with given answers that records its requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status = 200
        self.headers = {"Content-Type": "application/json; charset=utf-8"}
        self.body = b'{"type":"FeatureCollection","features":[]}'
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                upstream.asked.append(self.path)
                self.send_response(upstream.status)
                for name, value in upstream.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(upstream.body)

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/ows"


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    upstream = Upstream()
    thread = threading.Thread(target=upstream.server.serve_forever, args=(0.01,))
    thread.start()
    yield upstream
    upstream.server.shutdown()
    thread.join()
    upstream.server.server_close()


@pytest.fixture
def relay(tmp_path: Path, open_client: OpenClient, upstream: Upstream) -> Client:
    """Return a client of layers that ask the other server."""
    forward = {
        "type": "EXTERNALWMS",
        "url": upstream.url,
        "layers": "a&b,c",
        "query_layers": "c",
        "extra_query_params": "map=/x y&I=999",
    }
    server_json = ground.write(tmp_path, ["grey", "float_raw"], get_feature_info=forward)
    return open_client(server_json)


def test_the_request_is_for_the_map_of_the_tile(relay: Client, upstream: Upstream) -> None:
    response = ask(relay, "grey", NATIVE, INFOFORMAT="text/html")
    assert response.status_code == 200
    assert response.data == upstream.body
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    # Scripts from another server must not run in the origin of this one.
    assert response.headers["Content-Security-Policy"] == "sandbox"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    (path,) = upstream.asked
    parameters = dict(parse_qsl(urlsplit(path).query, keep_blank_values=True))
    corners = [float(number) for number in parameters.pop("BBOX").split(",")]
    assert corners == [100000 + 6 * 25600, 6e6 - 9 * 19200, 100000 + 7 * 25600, 6e6 - 8 * 19200]
    assert parameters == {
        "VERSION": "1.3.0",
        "SERVICE": "WMS",
        "REQUEST": "GetFeatureInfo",
        "STYLES": "",
        "LAYERS": "a&b,c",
        "QUERY_LAYERS": "c",
        "INFO_FORMAT": "text/html",
        "FORMAT": "image/tiff",
        "FEATURE_COUNT": "1",
        "CRS": "EPSG:3857",
        "WIDTH": "64",
        "HEIGHT": "48",
        "I": "12",
        "J": "34",
        "map": "/x y",
    }


@pytest.mark.parametrize(
    ("place", "crs", "size", "corners"),
    [
        (EXTRA, "EPSG:2154", ("80", "56"), [624000, 6580000, 648000, 6596800]),
        # Latitude first, as WMS 1.3.0 wants it
        (("DEGREES", "1", "313", "1138"), "EPSG:4326", ("64", "56"), [46.04, 2.08, 46.18, 2.24]),
    ],
)
def test_extra_set_is_requested_in_its_own_crs(
    relay: Client,
    upstream: Upstream,
    place: tuple[str, str, str, str],
    crs: str,
    size: tuple[str, str],
    corners: list[float],
) -> None:
    assert ask(relay, "grey", place).status_code == 200
    parameters = dict(parse_qsl(urlsplit(upstream.asked[0]).query))
    assert (parameters["CRS"], parameters["WIDTH"], parameters["HEIGHT"]) == (crs, *size)
    found = [float(number) for number in parameters["BBOX"].split(",")]
    assert found == pytest.approx(corners, abs=1e-9)


def test_path_is_passed_on_too(relay: Client, upstream: Upstream) -> None:
    response = relay.get("/wmts/1.0.0/float_raw/normal/MESH/1/8/6/34/12.json")
    assert response.status_code == 200
    parameters = dict(parse_qsl(urlsplit(upstream.asked[0]).query))
    assert (parameters["I"], parameters["J"]) == ("12", "34")
    assert parameters["INFO_FORMAT"] == "application/json"


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("status", [300, 400, 404, 500, 503])
def test_failure_of_the_other_server(
    relay: Client, upstream: Upstream, fault: Fault, status: int
) -> None:
    upstream.status = status
    upstream.body = b"<secret>"
    response = ask(relay, "grey", NATIVE)
    assert fault(response) == (502, "NoApplicableCode", [None])
    assert b"secret" not in response.data
    assert upstream.url.encode() not in response.data
    path = relay.get("/wmts/1.0.0/grey/normal/MESH/1/8/6/34/12.json")
    assert fault(path) == (502, "NoApplicableCode", [None])


def test_other_server_that_cannot_be_reached_is_reported(
    tmp_path: Path, open_client: OpenClient, fault: Fault, upstream: Upstream
) -> None:
    forward = {
        "type": "EXTERNALWMS",
        "url": "http://127.0.0.1:1/",
        "layers": "a",
        "query_layers": "a",
    }
    client = open_client(ground.write(tmp_path, ["grey"], get_feature_info=forward))
    assert fault(ask(client, "grey", NATIVE)) == (502, "NoApplicableCode", [None])


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("parameter", ["I", "INFOFORMAT", "TILEROW", "FORMAT"])
def test_wrong_request_is_not_passed_on(relay: Client, upstream: Upstream, parameter: str) -> None:
    assert ask(relay, "grey", NATIVE, **{parameter: "x&y=<z>"}).status_code == 400
    assert not upstream.asked


def test_answer_without_type_has_the_requested_one(relay: Client, upstream: Upstream) -> None:
    upstream.headers = {}
    response = ask(relay, "grey", NATIVE, INFOFORMAT="text/plain")
    assert response.headers["Content-Type"] == "text/plain"
