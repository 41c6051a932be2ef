"""Tiles of other sets than the one a layer is stored in (wmts.md section 3, slab.md 4.4)."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.wmts import ground
from werkzeug.test import Client, TestResponse

from mastaba_render.codecs import TileDecoder
from mastaba_render.layer_map import PreparedMap, Sources
from mastaba_render.mosaic import LevelPixels

Fault = Callable[[TestResponse], tuple[int, str, list[str | None]]]
Find = Callable[..., list[Any]]
OpenClient = Callable[[Path], Client]

MEDIA_TYPES = {"PNG": "image/png", "JPG": "image/jpeg", "JPG90": "image/jpeg"}
# In the middle of the pyramid
LAMBERT_3 = ("LAMBERT", "3", 24, 26)
PLACES = [LAMBERT_3, ("LAMBERT", "2", 12, 13), ("DEGREES", "1", 313, 1138), ("DOUBLE", "0", 1, 1)]


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    return open_client(ground.write(tmp_path_factory.mktemp("derived")))


def query(name: str, place: tuple[str, str, int, int], **changes: str) -> dict[str, str]:
    tile_matrix_set, matrix, row, col = place
    return {
        "SERVICE": "WMTS",
        "REQUEST": "GetTile",
        "LAYER": name,
        "STYLE": "normal",
        "FORMAT": media_type(name),
        "TILEMATRIXSET": tile_matrix_set,
        "TILEMATRIX": matrix,
        "TILEROW": str(row),
        "TILECOL": str(col),
    } | changes


def media_type(name: str) -> str:
    format_name, _ = ground.FORMATS.get(name, ("TIFF_PNG_UINT8", 1))
    _, codec, sample = format_name.split("_")
    if sample == "FLOAT32" and codec in ("RAW", "ZIP"):
        return "image/x-bil;bits=32"
    return MEDIA_TYPES.get(codec, "image/tiff")


def get(
    client: Client, name: str, place: tuple[str, str, int, int], **changes: str
) -> TestResponse:
    return client.get("/wmts", query_string=query(name, place, **changes))


# ---------------------------------------------------------------- what a tile shows


@pytest.mark.sampled
@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place[0]}-{place[1]}")
@pytest.mark.parametrize("name", ground.FORMATS)
def test_tile_shows_the_ground_in_its_place(
    derived: Client, name: str, place: tuple[str, str, int, int]
) -> None:
    response = get(derived, name, place)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == media_type(name)
    assert "Content-Encoding" not in response.headers
    expected = ground.tile_truth(name, *place)
    difference = np.abs(ground.decoded(response, expected.shape) - expected)
    if name.startswith("jpeg"):
        # Both the stored tile and the answer are lossy; chroma is halved in both.
        assert difference.mean() < 2.5
        assert difference.max() < 15
    elif name.startswith("float"):
        # Amplitude 1000: four hundredths of a pixel of 800 m
        assert difference.max() < 4
    else:
        assert difference.max() < 1.3


@pytest.mark.parametrize(
    ("name", "compression"), [("raw", 1), ("lzw", 5), ("zip", 8), ("packbits", 32773)]
)
def test_tiff_is_compressed_as_the_pyramid(derived: Client, name: str, compression: int) -> None:
    for layer in (name, f"float_{name}"):
        if layer in ("float_raw", "float_zip"):  # these are BIL
            continue
        response = get(derived, layer, LAMBERT_3)
        with Image.open(io.BytesIO(response.data)) as image:
            assert image.tag_v2[259] == compression  # type: ignore[attr-defined]


def test_jpeg_has_the_quality_of_the_pyramid(derived: Client) -> None:
    tables = {}
    for name in ("jpeg", "jpeg90"):
        stored = get(derived, name, ("MESH", "1", 8, 6))
        computed = get(derived, name, LAMBERT_3)
        with (
            Image.open(io.BytesIO(stored.data)) as one,
            Image.open(io.BytesIO(computed.data)) as other,
        ):
            assert one.quantization == other.quantization  # type: ignore[attr-defined]
            tables[name] = other.quantization  # type: ignore[attr-defined]
    assert tables["jpeg"] != tables["jpeg90"]


def test_tile_of_the_same_pixels_is_copied(derived: Client) -> None:
    """Four stored tiles, for every kernel."""
    tile = ground.decoded(get(derived, "rgb", ("DOUBLE", "1", 2, 3)), (96, 128, 3))
    for row in (0, 1):
        for col in (0, 1):
            stored = get(derived, "rgb", ("MESH", "1", 4 + row, 6 + col))
            part = tile[row * 48 : row * 48 + 48, col * 64 : col * 64 + 64]
            assert np.array_equal(part, ground.decoded(stored, (48, 64, 3)))


def test_palette_is_put_into_one_channel_png(derived: Client) -> None:
    plain = get(derived, "grey", LAMBERT_3)
    coloured = get(derived, "grey", LAMBERT_3, STYLE="ember")
    stored = get(derived, "grey", ("MESH", "1", 8, 6), STYLE="ember")
    assert chunks(coloured.data)[b"PLTE"] == chunks(stored.data)[b"PLTE"]
    assert chunks(coloured.data)[b"tRNS"] == chunks(stored.data)[b"tRNS"]
    assert chunks(coloured.data)[b"IDAT"] == chunks(plain.data)[b"IDAT"]
    assert coloured.headers["ETag"] != plain.headers["ETag"]
    with Image.open(io.BytesIO(coloured.data)) as image:
        assert image.mode == "P"
        image.load()
    assert b"PLTE" not in chunks(plain.data)


def chunks(png: bytes) -> dict[bytes, bytes]:
    found, position = {}, 8
    while position < len(png):
        length = int.from_bytes(png[position : position + 4])
        kind = png[position + 4 : position + 8]
        found[kind] = png[position + 8 : position + 8 + length]
        position += 12 + length
    return found


@pytest.mark.thorough
def test_other_layers_have_no_effect_of_palettes(tmp_path: Path, open_client: OpenClient) -> None:
    client = open_client(ground.write(tmp_path, ["lzw", "float_raw"], styles=["normal", "ember"]))
    for name in ("lzw", "float_raw"):
        plain, coloured = (
            get(client, name, LAMBERT_3, STYLE=style) for style in ("normal", "ember")
        )
        assert coloured.status_code == 200
        assert coloured.data == plain.data
        assert coloured.headers["ETag"] == plain.headers["ETag"]


def test_where_nothing_is_stored_is_nodata(derived: Client) -> None:
    """Inside the limits, a tile without any data is an answer all the same."""
    response = get(derived, "sparse", ("LAMBERT", "3", 24, 24))
    assert response.status_code == 200
    tile = ground.decoded(response, (56, 80, 1))
    assert (tile == 7).all()
    edge = ground.decoded(get(derived, "sparse", ("DOUBLE", "0", 1, 1)), (96, 128, 1))
    assert (edge[:, :64] == 7).all()
    assert (edge[:, 66:] != 7).all()


# ---------------------------------------------------------------- names, limits, errors


def test_published_and_plain_names_are_the_same_tiles(derived: Client) -> None:
    plain = get(derived, "rgb", LAMBERT_3)
    published = get(derived, "rgb", ("LAMBERT_2_3", *LAMBERT_3[1:]))
    path = derived.get("/wmts/1.0.0/rgb/normal/LAMBERT_2_3/3/24/26.png")
    for response in (published, path):
        assert response.status_code == 200
        assert response.data == plain.data
        assert response.headers == plain.headers


def test_every_corner_of_the_announced_limits_is_a_tile(derived: Client, find: Find) -> None:
    # M-20
    capabilities = derived.get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities")
    links = find(capabilities, "//wmts:Layer[ows:Identifier='rgb']/wmts:TileMatrixSetLink")
    names = [link.findtext("{*}TileMatrixSet") for link in links]
    assert names == ["MESH_0_1", "LAMBERT_2_3", "WIDE_0_1", "DOUBLE_0_1", "DEGREES_0_1"]
    for link in links:
        name = link.findtext("{*}TileMatrixSet")
        if name.startswith("WIDE"):
            continue
        for limits in link.iterfind(".//{*}TileMatrixLimits"):
            matrix = limits[0].text
            top, bottom, left, right = (int(each.text) for each in limits[1:])
            for row in (top, (top + bottom) // 2, bottom):
                for col in (left, (left + right) // 2, right):
                    assert get(derived, "rgb", (name, matrix, row, col)).status_code == 200
            for row, col, locators in (
                (top - 1, left, ["TileRow"]),
                (bottom + 1, left, ["TileRow"]),
                (top, left - 1, ["TileCol"]),
                (bottom, right + 1, ["TileCol"]),
                (bottom + 1, right + 1, ["TileRow", "TileCol"]),
            ):
                assert_out_of_range(get(derived, "rgb", (name, matrix, row, col)), find, locators)


def assert_out_of_range(response: TestResponse, find: Find, locators: list[str]) -> None:
    assert response.status_code == 400
    assert find(response, "//@exceptionCode") == ["TileOutOfRange"] * len(locators)
    assert find(response, "//@locator") == locators


def test_tile_shows_data_at_each_side_of_its_limits(derived: Client, find: Find) -> None:
    """The limits are those of the data, and not of something larger."""
    capabilities = derived.get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities")
    path = "//wmts:Layer[ows:Identifier='rgb']/wmts:TileMatrixSetLink[2]//wmts:TileMatrixLimits"
    for limits in find(capabilities, path):
        top, bottom, left, right = (int(each.text) for each in limits[1:])
        sides = {
            "top": [(top, col) for col in range(left, right + 1)],
            "bottom": [(bottom, col) for col in range(left, right + 1)],
            "left": [(row, left) for row in range(top, bottom + 1)],
            "right": [(row, right) for row in range(top, bottom + 1)],
        }
        for places in sides.values():
            tiles = (
                ground.decoded(
                    get(derived, "rgb", ("LAMBERT", limits[0].text, *place)), (56, 80, 3)
                )
                for place in places
            )
            assert any((tile != 7).any() for tile in tiles)


@pytest.mark.parametrize(
    ("place", "code", "locators"),
    [
        (("LAMBERT", "1", 6, 6), "TileOutOfRange", ["TileMatrix"]),
        (("LAMBERT", "4", 48, 52), "TileOutOfRange", ["TileMatrix"]),
        (("LAMBERT_2_3", "4", 48, 52), "TileOutOfRange", ["TileMatrix"]),
        (("LAMBERT", "x", 24, 26), "InvalidParameterValue", ["TileMatrix"]),
        (("LAMBERT_0_4", "3", 24, 26), "InvalidParameterValue", ["TileMatrixSet"]),
        (("lambert", "3", 24, 26), "InvalidParameterValue", ["TileMatrixSet"]),
        (("ELSEWHERE", "0", 0, 0), "InvalidParameterValue", ["TileMatrixSet"]),
        (("LAMBERT", "3", 10**40, 26), "TileOutOfRange", ["TileRow"]),
        (("LAMBERT", "3", -1, -1), "TileOutOfRange", ["TileRow", "TileCol"]),
    ],
)
def test_what_is_not_offered_is_reported(
    derived: Client,
    fault: Fault,
    place: tuple[str, str, int, int],
    code: str,
    locators: list[str | None],
) -> None:
    assert fault(get(derived, "rgb", place)) == (400, code, locators)


@pytest.mark.parametrize(
    ("changes", "locator"),
    [
        ({"FORMAT": "image/tiff"}, "Format"),
        ({"STYLE": "ember"}, "Style"),
        ({"TILEROW": "2 4"}, "TileRow"),
        ({"TILECOL": "²"}, "TileCol"),
    ],
)
def test_errors_are_those_of_stored_tiles(
    derived: Client, fault: Fault, changes: dict[str, str], locator: str
) -> None:
    response = get(derived, "rgb", LAMBERT_3, **changes)
    assert fault(response) == (400, "InvalidParameterValue", [locator])


def test_tile_of_too_many_stored_tiles_is_not_made(
    derived: Client, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LevelPixels, "read", None)
    monkeypatch.setattr(LevelPixels, "stored", None)
    place = ("WIDE", "1", 2, 4)
    assert fault(get(derived, "rgb", place)) == (404, "NoApplicableCode", [None])
    path = derived.get("/wmts/1.0.0/rgb/normal/WIDE/1/2/4.png")
    assert fault(path) == (404, "NoApplicableCode", [None])
    response = get(derived, "missing", place)
    assert (response.status_code, response.data) == (204, b"")


def test_sets_are_not_offered_without_reprojection(
    tmp_path: Path, open_client: OpenClient, fault: Fault, find: Find
) -> None:
    client = open_client(ground.write(tmp_path, ["rgb"], reprojection=False))
    for name in ("LAMBERT", "LAMBERT_2_3"):
        response = get(client, "rgb", (name, *LAMBERT_3[1:]))
        assert fault(response) == (400, "InvalidParameterValue", ["TileMatrixSet"])
    capabilities = client.get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities")
    names = find(capabilities, "//wmts:TileMatrixSet/ows:Identifier/text()")
    assert names == ["MESH", "MESH_0_1"]


# ---------------------------------------------------------------- HTTP


def test_client_that_has_the_tile_gets_304_and_nothing_is_decoded(
    derived: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("rgba", "float_zip", "jpeg"):
        response = get(derived, name, LAMBERT_3)
        etag = response.headers["ETag"]
        assert etag.startswith('"')
        with monkeypatch.context() as patch:
            patch.setattr(TileDecoder, "decode", None)
            patch.setattr(LevelPixels, "read", None)
            again = derived.get(
                "/wmts", query_string=query(name, LAMBERT_3), headers={"If-None-Match": etag}
            )
        assert (again.status_code, again.data) == (304, b"")
        assert again.headers["ETag"] == etag
        assert again.headers.get("Cache-Control") == response.headers.get("Cache-Control")
        other = derived.get(
            "/wmts", query_string=query(name, LAMBERT_3), headers={"If-None-Match": '"other"'}
        )
        assert (other.status_code, other.data) == (200, response.data)


def test_etag_differs_between_tiles_and_settings(
    derived: Client, tmp_path: Path, open_client: OpenClient
) -> None:
    places = [LAMBERT_3, ("LAMBERT", "3", 24, 27), ("LAMBERT", "3", 25, 26), ("DOUBLE", "0", 1, 1)]
    etags = {get(derived, "rgb", place).headers["ETag"] for place in places}
    etags.add(get(derived, "rgba", LAMBERT_3).headers["ETag"])
    assert len(etags) == 5
    # The very same slabs, drawn in another way
    server_json = ground.write(tmp_path, ["rgb"])
    first = get(open_client(server_json), "rgb", LAMBERT_3)
    layer = tmp_path / "layers" / "rgb.json"
    layer.write_text(layer.read_text().replace('"linear"', '"nn"'))
    second = get(open_client(server_json), "rgb", LAMBERT_3)
    assert first.data != second.data
    assert first.headers["ETag"] != second.headers["ETag"]


def test_replaced_slab_changes_the_tile_and_its_etag(
    tmp_path: Path, open_client: OpenClient
) -> None:
    server_json = ground.write(tmp_path, ["lzw"])
    before = get(open_client(server_json), "lzw", LAMBERT_3)
    for slab in (tmp_path / "pyramids" / "lzw").rglob("*.tif"):
        data = slab.read_bytes()
        slab.unlink()
        slab.write_bytes(data)
        os.utime(slab, (1, 1))
    # The index of a slab may be remembered for a while: a server that has seen nothing yet.
    after = get(open_client(server_json), "lzw", LAMBERT_3)
    assert after.data == before.data
    assert after.headers["ETag"] != before.headers["ETag"]


def test_etag_is_of_the_body_where_generations_are_not_known(
    derived: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = get(derived, "rgb", LAMBERT_3).headers["ETag"]
    monkeypatch.setattr(PreparedMap, "sources", lambda self: Sources(None, None))
    response = get(derived, "rgb", LAMBERT_3)
    etag = response.headers["ETag"]
    assert etag != known
    again = derived.get(
        "/wmts", query_string=query("rgb", LAMBERT_3), headers={"If-None-Match": etag}
    )
    assert (again.status_code, again.data) == (304, b"")
    assert get(derived, "rgb", ("LAMBERT", "3", 24, 27)).headers["ETag"] != etag


def test_etag_is_of_the_body_when_a_slab_is_replaced_meanwhile(
    derived: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = iter(["one", "two", "two", "two"])
    monkeypatch.setattr(PreparedMap, "sources", lambda self: Sources(next(versions), None))
    moved = get(derived, "rgb", LAMBERT_3)
    settled = get(derived, "rgb", LAMBERT_3)
    assert moved.status_code == settled.status_code == 200
    assert moved.data == settled.data
    assert moved.headers["ETag"] != settled.headers["ETag"]


def test_headers_are_those_of_stored_tiles(derived: Client) -> None:
    response = get(derived, "rgba", LAMBERT_3)
    assert response.headers["Cache-Control"] == "max-age=77"
    assert response.headers["Content-Disposition"] == 'inline; filename="image.png"'
    assert "Cache-Control" not in get(derived, "rgb", LAMBERT_3).headers
    named = get(derived, "rgba", LAMBERT_3, FILENAME="my.png")
    assert named.headers["Content-Disposition"] == 'attachment; filename="my.png"'
    head = derived.head("/wmts", query_string=query("rgba", LAMBERT_3))
    assert head.data == b""
    assert head.headers["Content-Length"] == str(len(response.data))
