"""The resource at each path, and the errors for all other paths (tms.md sections 1 and 2)."""

from __future__ import annotations

import pytest
from lxml import etree
from werkzeug.test import Client

TILE = "/tms/1.0.0/RGB_PNG/3/4/2.png"


def assert_error(client: Client, path: str, status: int) -> str:
    """Check status and form of an error and return its message."""
    response = client.get(path)
    assert response.status_code == status, path
    assert response.content_type == "text/xml"
    assert response.data.startswith(b"<?xml ")
    root = etree.fromstring(response.data)
    assert root.tag == "TileMapServerError"
    assert [child.tag for child in root] == ["Message"]
    message = root[0].text
    assert message
    assert "Traceback" not in message
    assert "/tmp" not in message
    return message


@pytest.mark.parametrize(
    ("path", "media_type", "root"),
    [
        ("/tms", "application/xml", "Services"),
        ("/tms/1.0.0", "text/xml", "TileMapService"),
        ("/tms/1.0.0/RGB_PNG", "text/xml", "TileMap"),
        ("/tms/1.0.0/RGB_PNG/gdal.xml", "text/xml", "GDAL_WMS"),
    ],
)
def test_xml_documents(tiny: Client, path: str, media_type: str, root: str) -> None:
    response = tiny.get(path)
    assert response.status_code == 200
    assert response.content_type == media_type
    assert etree.fromstring(response.data).tag == root


@pytest.mark.parametrize(
    "path",
    [
        "/tms",
        "/tms/1.0.0",
        "/tms/1.0.0/RGB_PNG",
        "/tms/1.0.0/RGB_PNG/metadata.json",
        "/tms/1.0.0/RGB_PNG/gdal.xml",
        TILE,
    ],
)
def test_one_final_slash_is_tolerated(tiny: Client, path: str) -> None:
    response = tiny.get(path + "/")
    assert response.status_code == 200
    assert response.data == tiny.get(path).data
    assert tiny.get(path + "//").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/tms/1.0",
        "/tms/1.0.1",
        "/tms/2.0.0",
        "/tms/1.0.0 ",
        "/tms/latest",
        "/tms/1.1.0/RGB_PNG",
        "/tms/1.1.0/RGB_PNG/metadata.json",
        "/tms/1.1.0/RGB_PNG/3/4/2.png",
        "/tms/RGB_PNG/3/4/2.png",
        "/tms//RGB_PNG/3/4/2.png",
    ],
)
def test_other_version_is_404(tiny: Client, path: str) -> None:
    assert "version" in assert_error(tiny, path, 404)


@pytest.mark.parametrize(
    "path",
    [
        "/tms/1.0.0/RGB_PNG/3",
        "/tms/1.0.0/RGB_PNG/3/4",
        "/tms/1.0.0/RGB_PNG/metadata.xml",
        "/tms/1.0.0/RGB_PNG/METADATA.JSON",
        "/tms/1.0.0/RGB_PNG/metadata.json/more",
        "/tms/1.0.0/metadata.json/RGB_PNG/",
        "/tms/1.0.0/RGB_PNG/3/4/2.png/more",
        "/tms/1.0.0/RGB_PNG/3/4/2/2.png",
        "/tms/1.0.0/RGB_PNG/gdal",
        "/tms/1.0.0//metadata.json",
        "/tms/1.0.0//RGB_PNG",
    ],
)
def test_unknown_path_is_404(tiny: Client, path: str) -> None:
    assert_error(tiny, path, 404)


@pytest.mark.parametrize(
    "below", ["", "/metadata.json", "/gdal.xml", "/3/4/2.png", "/3/4/2.jpeg", "/x/y/z.png"]
)
@pytest.mark.parametrize("layer", ["NOWHERE", "rgb_png", "RGB_PNG ", "RGB%00_PNG", "ÿ", "<b>", "."])
def test_unknown_layer_is_404(tiny: Client, layer: str, below: str) -> None:
    assert "layer" in assert_error(tiny, f"/tms/1.0.0/{layer}{below}", 404)


@pytest.mark.parametrize(
    ("tile", "status"),
    [
        ("99/4/2.png", 404),  # no such level in the set
        ("x/4/2.png", 404),
        ("03/4/2.png", 404),
        ("/4/2.png", 404),
        ("3/x/2.png", 400),
        ("3/4/y.png", 400),
        ("3//2.png", 400),
        ("3/4/.png", 400),
        ("3/4/2.", 400),
        ("3/4/2", 400),
        ("3/4/2.PNG", 400),
        ("3/4/2.tif", 400),
        ("3/4/2.png.", 400),
        ("3/4/png", 400),
        ("3/4/2.png ", 400),
        ("3/4/2.png%00", 400),
        ("3/4/2 .png", 400),
        ("3/ 4/2.png", 400),
        ("3/4/2%0a.png", 400),
        ("3/4/+2.png", 400),
        ("3/+4/2.png", 400),
        ("3/-4/2.png", 400),
        ("3/4/-2.png", 400),
        ("3/4/2.0.png", 400),
        ("3/4/0x2.png", 400),
        ("3/4/2e0.png", 400),
        ("3/4/2_0.png", 400),
        ("3/4/٢.png", 400),  # ARABIC-INDIC DIGIT TWO
        ("3/４/2.png", 400),  # FULLWIDTH DIGIT FOUR
        ("3/4/².png", 400),
        ("3/4%00/2.png", 400),
        ("3/../2.png", 400),
        ("3/4/...png", 400),
        ("../../3/4/2.png", 404),
        ("3/4/..%2F2.png", 404),
        ("3%2F4/2.png", 200),  # decoded by the transport: the address of a tile
        ("3%2F4%2F2.png", 200),
        ("3%252F4/2.png", 404),  # decoded once only
        ("3/4%2E/2.png", 400),
        ("3/4/2%2Epng", 200),
        ("2/4/2.png", 404),  # outside the limits of the level
        ("3/3/2.png", 404),
        ("3/6/2.png", 404),
        ("3/4/1.png", 404),
        ("3/4/4.png", 404),
        ("4/9/7.png", 404),
        ("3/4/8.png", 404),  # outside the matrix
        ("3/4/2147483647.png", 404),
        ("3/4294967300/2.png", 404),
        ("3/4/99999999999999999999.png", 404),
        ("0/0/0.png", 404),  # a level of the set that the layer lacks
        ("21/0/0.png", 404),
        ("0/0/0.gif", 400),
        ("0/x/0.png", 400),
    ],
)
def test_tile_address(tiny: Client, tile: str, status: int) -> None:
    path = f"/tms/1.0.0/RGB_PNG/{tile}"
    if status == 200:
        assert tiny.get(path).data == tiny.get(TILE).data
    else:
        assert_error(tiny, path, status)


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("digits", [5_000, 1_000_000])
def test_huge_number_is_outside_the_limits(tiny: Client, digits: int) -> None:
    number = "9" * digits
    assert_error(tiny, f"/tms/1.0.0/RGB_PNG/3/{number}/2.png", 404)
    assert_error(tiny, f"/tms/1.0.0/RGB_PNG/3/4/{number}.png", 404)
    assert_error(tiny, f"/tms/1.0.0/RGB_PNG/3/4/-{number}.png", 400)
    assert_error(tiny, f"/tms/1.0.0/RGB_PNG/{number}/4/2.png", 404)


def test_message_echoes_little_of_the_client(tiny: Client) -> None:
    message = assert_error(tiny, "/tms/1.0.0/" + "%1b<a>&" * 1000, 404)
    assert len(message) < 200
    assert "\x1b" not in message


def test_invalid_utf_8_is_an_unknown_layer(tiny: Client) -> None:
    # As a transport hands it over: one character per byte.
    response = tiny.get("/", environ_overrides={"PATH_INFO": "/tms/1.0.0/\xff\xfe/3/4/2.png"})
    assert response.status_code == 404
    assert etree.fromstring(response.data).tag == "TileMapServerError"


def test_script_name_and_path_info_are_one_path(tiny: Client) -> None:
    environ = {"SCRIPT_NAME": "/tms/1.0.0", "PATH_INFO": "/RGB_PNG/3/4/2.png"}
    assert tiny.get("/", environ_overrides=environ).data == tiny.get(TILE).data


def test_root_path_is_a_whole_segment(tiny: Client) -> None:
    response = tiny.get("/tmsx/1.0.0")
    assert response.status_code == 404
    assert response.content_type == "application/json"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_other_method_is_405(tiny: Client, method: str) -> None:
    response = tiny.open(TILE, method=method)
    assert response.status_code == 405
    assert response.headers["Allow"] == "HEAD, OPTIONS, GET"


def test_options(tiny: Client) -> None:
    assert tiny.options(TILE).status_code == 204


def test_documents_are_revalidated_and_compressed(tiny: Client) -> None:
    for path in ("/tms/1.0.0", "/tms/1.0.0/VECTOR/metadata.json"):
        plain = tiny.get(path)
        etag = plain.headers["ETag"]
        assert tiny.get(path, headers={"If-None-Match": etag}).status_code == 304
        packed = tiny.get(path, headers={"Accept-Encoding": "gzip"})
        assert packed.headers["Content-Encoding"] == "gzip"
        assert len(packed.data) < len(plain.data)
