"""Every way to the server: requests arrive as they were meant, answers as they were given."""

from __future__ import annotations

from urllib.parse import quote, urlencode
from xml.etree import ElementTree

import pytest
from tests.live.client import abort, ask, ask_many, ask_raw
from tests.live.conftest import Way
from tests.live.installations import ACCENTED_LAYER, MISSING_TILE, TILE, stored_tile
from tests.sizes import sized

pytestmark = pytest.mark.live

LEVEL, COL, ROW = TILE
TMS_TILE = f"/tms/1.0.0/RGB_JPG/{LEVEL}/{COL}/{ROW}.jpeg"
LARGE_TILE = f"/tms/1.0.0/RGB_RAW/{LEVEL}/{COL}/{ROW}.tif"
CAPABILITIES = "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"

GET_TILE = """<?xml version="1.0" encoding="UTF-8"?>
<GetTile xmlns="http://www.opengis.net/wmts/1.0" service="WMTS" version="1.0.0">
  <Layer>{layer}</Layer><Style>normal</Style><Format>image/jpeg</Format>
  <TileMatrixSet>PM</TileMatrixSet><TileMatrix>{level}</TileMatrix>
  <TileRow>{row}</TileRow><TileCol>{col}</TileCol>
</GetTile>
"""


def kvp(layer: str = "RGB_JPG", media_type: str = "image/jpeg", row: int = ROW) -> str:
    parameters = {
        "SERVICE": "WMTS",
        "VERSION": "1.0.0",
        "REQUEST": "GetTile",
        "LAYER": layer,
        "STYLE": "normal",
        "FORMAT": media_type,
        "TILEMATRIXSET": "PM",
        "TILEMATRIX": LEVEL,
        "TILEROW": row,
        "TILECOL": COL,
    }
    return "/wmts?" + urlencode(parameters)


@pytest.fixture
def tile(way: Way) -> bytes:
    return stored_tile(way.folder, "RGB_JPG", *TILE)


@pytest.mark.parametrize(
    "path",
    [TMS_TILE, kvp(), f"/wmts/1.0.0/RGB_JPG/normal/PM/{LEVEL}/{ROW}/{COL}.jpeg"],
    ids=["tms", "kvp", "rest"],
)
def test_stored_tile(way: Way, tile: bytes, path: str) -> None:
    answer = ask(way.url, path)
    assert (answer.status, answer.media_type) == (200, "image/jpeg")
    assert answer.body == tile
    assert answer.headers["content-length"] == str(len(tile))


def test_head(way: Way, tile: bytes) -> None:
    answer = ask(way.url, TMS_TILE, method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-length"] == str(len(tile))


def test_not_modified(way: Way) -> None:
    etag = ask(way.url, TMS_TILE).headers["etag"]
    assert not etag.startswith("W/")
    answer = ask(way.url, TMS_TILE, headers={"If-None-Match": etag})
    assert (answer.status, answer.body) == (304, b"")
    assert answer.headers["etag"] == etag


def test_missing_tile(way: Way) -> None:
    level, col, row = MISSING_TILE
    tms = ask(way.url, f"/tms/1.0.0/RGB_PNG/{level}/{col}/{row}.png")
    assert (tms.status, tms.media_type) == (404, "text/xml")
    assert ElementTree.fromstring(tms.body).tag == "TileMapServerError"
    wmts = ask(way.url, f"/wmts/1.0.0/RGB_PNG/normal/PM/{level}/{row}/{col}.png")
    assert (wmts.status, wmts.media_type) == (404, "text/xml")
    report = ElementTree.fromstring(wmts.body)
    assert report.tag == "{http://www.opengis.net/ows/1.1}ExceptionReport"


def test_unknown_path(way: Way) -> None:
    answer = ask(way.url, "/nowhere/at/all")
    assert (answer.status, answer.media_type) == (404, "application/json")


@pytest.mark.parametrize("chunked", [False, True], ids=["sized", "chunked"])
def test_post(way: Way, tile: bytes, chunked: bool) -> None:
    if chunked and way.name == "nginx-http":
        pytest.skip("the same as with a length: nginx keeps the body until it knows its length")
    text = GET_TILE.format(layer="RGB_JPG", level=LEVEL, row=ROW, col=COL).encode()
    pieces = [text[:100], text[100:101], text[101:]]
    answer = ask(
        way.url,
        "/wmts",
        method="POST",
        headers={"Content-Type": "text/xml"},
        body=iter(pieces) if chunked else text,
    )
    assert (answer.status, answer.media_type) == (200, "image/jpeg"), answer.body
    assert answer.body == tile


def test_post_form(way: Way, tile: bytes) -> None:
    answer = ask(
        way.url,
        "/wmts",
        method="POST",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        body=kvp().partition("?")[2].encode(),
    )
    assert (answer.status, answer.body) == (200, tile)


def test_body_too_large(way: Way, tile: bytes) -> None:
    answer = ask(
        way.url,
        "/wmts",
        method="POST",
        headers={"Content-Type": "text/xml"},
        body=b" " * (3 << 20),
    )
    assert (answer.status, answer.media_type) == (413, "text/xml")
    assert ask(way.url, TMS_TILE).body == tile


def test_large_answer(way: Way) -> None:
    payload = stored_tile(way.folder, "RGB_RAW", *TILE)
    answer = ask(way.url, LARGE_TILE)
    assert (answer.status, answer.media_type) == (200, "image/tiff")
    assert answer.body.endswith(payload)
    assert answer.headers["content-length"] == str(len(answer.body))


def test_compressed_document(way: Way) -> None:
    plain = ask(way.url, CAPABILITIES)
    packed = ask(way.url, CAPABILITIES, headers={"Accept-Encoding": "gzip"})
    assert plain.status == packed.status == 200
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) < len(plain.body)
    assert ACCENTED_LAYER.encode() in plain.body


@pytest.mark.parametrize(
    "path",
    [
        f"/tms/1.0.0/{quote(ACCENTED_LAYER)}/{LEVEL}/{COL}/{ROW}.jpeg",
        f"/%74ms/1.0.0/RGB%5FJPG/{LEVEL}/{COL}/{ROW}%2Ejpeg",
        kvp(ACCENTED_LAYER),
        kvp(ACCENTED_LAYER).replace("+", "%20"),
        f"/wmts/1.0.0/{quote(ACCENTED_LAYER)}/normal/PM/{LEVEL}/{ROW}/{COL}.jpeg",
    ],
    ids=["tms", "letters", "kvp", "kvp-spaces", "rest"],
)
def test_encoded_addresses(way: Way, tile: bytes, path: str) -> None:
    answer = ask(way.url, path)
    assert (answer.status, answer.body) == (200, tile)


def test_address_in_bytes(way: Way, tile: bytes) -> None:
    """Many clients do not encode what they put into the query."""
    target = kvp().replace("RGB_JPG", ACCENTED_LAYER.replace(" ", "+")).encode()
    head, _, body = ask_raw(way.url, target).partition(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 400") and way.name in ("http", "nginx-http"):
        pytest.skip("the HTTP library refuses such an address")
    assert head.startswith(b"HTTP/1.1 200")
    assert body == tile


def test_aborted_clients(way: Way, tile: bytes) -> None:
    workers = way.server.children() if way.server else []
    for after in (0, 1, 1000) * 10:
        abort(way.url, LARGE_TILE, after=after)
    assert ask(way.url, TMS_TILE).body == tile
    if way.server:
        assert way.server.children() == workers


def test_many_clients(way: Way, tile: bytes) -> None:
    raw = ask(way.url, LARGE_TILE).body
    expected = {TMS_TILE: tile, kvp(): tile, LARGE_TILE: raw}
    paths = [*expected] * sized(40, 100)
    answers = ask_many(way.url, paths, way.clients)
    assert {answer.status for answer in answers} == {200}
    assert all(answer.body == expected[path] for path, answer in zip(paths, answers, strict=True))


@pytest.mark.parametrize("size", [6_000, 12_000, 30_000, 70_000, 300_000])
def test_a_request_that_is_too_long_is_a_client_error(way: Way, size: int) -> None:
    answer = ask_raw(way.url, f"{TMS_TILE}?x=".encode() + b"x" * size)
    status = int(answer.split(b" ", 2)[1])
    assert status == 200 if size == 6_000 else status in (200, 400, 414, 431)


@pytest.mark.parametrize("size", [6_000, 30_000, 70_000])
def test_headers_that_are_too_long_are_a_client_error(way: Way, size: int) -> None:
    headers = {f"X-{number}": "x" * 6_000 for number in range(size // 6_000)}
    # Above 64 KiB mod_fcgid answers 500 by itself, before the request reaches the server.
    refused = (500,) if way.name == "apache-fcgid" and size > 65_536 else ()
    assert ask(way.url, TMS_TILE, headers=headers).status in (200, 400, 414, 431, *refused)
