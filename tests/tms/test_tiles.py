"""Tiles: bytes, types and headers (tms.md section 6)."""

from __future__ import annotations

import io
import zlib

import numpy as np
import pytest
from PIL import Image
from werkzeug.test import Client

from mastaba_conformance.tiny_installation import (
    tiny_float_tile,
    tiny_integer_tile,
    tiny_vector_tile,
)

EXTENSIONS = [
    ("RGB_JPG", "jpeg", "image/jpeg"),
    ("RGB_JPG", "jpg", "image/jpeg"),
    ("RGB_PNG", "png", "image/png"),
    ("RGBA_PNG", "png", "image/png"),
    ("GREY_PNG", "png", "image/png"),
    ("RGB_RAW", "tif", "image/tiff"),
    ("RGB_RAW", "tiff", "image/tiff"),
    ("GREYA_ZIP", "tif", "image/tiff"),
    ("GREYA_ZIP", "tiff", "image/tiff"),
    ("FLOAT32_RAW", "bil", "image/x-bil;bits=32"),
    ("FLOAT32_ZIP", "zbil", "image/x-bil;bits=32"),
    ("VECTOR", "pbf", "application/x-protobuf"),
    ("VECTOR", "mvt", "application/x-protobuf"),
]
ALL_EXTENSIONS = {"jpeg", "jpg", "png", "tif", "tiff", "bil", "zbil", "pbf", "mvt", "gif", "x-bil"}


@pytest.mark.parametrize(("layer", "extension", "media_type"), EXTENSIONS)
def test_type_of_each_format(tiny: Client, layer: str, extension: str, media_type: str) -> None:
    response = tiny.get(f"/tms/1.0.0/{layer}/3/4/2.{extension}")
    assert response.status_code == 200
    assert response.headers["Content-Type"] == media_type
    assert int(response.headers["Content-Length"]) == len(response.data)
    assert response.headers["Content-Disposition"].startswith("inline; ")
    coding = "deflate" if extension == "zbil" else None
    assert response.headers.get("Content-Encoding") == coding


@pytest.mark.parametrize("layer", sorted({layer for layer, _, _ in EXTENSIONS}))
def test_other_extensions_are_refused(tiny: Client, layer: str) -> None:
    own = {extension for name, extension, _ in EXTENSIONS if name == layer}
    if layer != "VECTOR":
        own |= {"png", "jpg", "jpeg"}
    for extension in ALL_EXTENSIONS - own:
        assert tiny.get(f"/tms/1.0.0/{layer}/3/4/2.{extension}").status_code == 400


@pytest.mark.parametrize(
    ("layer", "extension", "channels"),
    [("RGB_PNG", "png", 3), ("RGBA_PNG", "png", 4), ("GREY_PNG", "png", 1), ("RGB_RAW", "tif", 3)],
)
@pytest.mark.parametrize(("level", "col", "row"), [("2", 2, 1), ("3", 5, 3), ("4", 10, 5)])
def test_pixels(
    tiny: Client, layer: str, extension: str, channels: int, level: str, col: int, row: int
) -> None:
    response = tiny.get(f"/tms/1.0.0/{layer}/{level}/{col}/{row}.{extension}")
    assert response.status_code == 200
    pixels = np.asarray(Image.open(io.BytesIO(response.data))).reshape(256, 256, channels)
    assert np.array_equal(pixels, tiny_integer_tile(channels)(level, row, col))


def test_elevation_is_little_endian_float32(tiny: Client) -> None:
    expected = np.asarray(tiny_float_tile("4", 6, 9)).reshape(256, 256)
    raw = tiny.get("/tms/1.0.0/FLOAT32_RAW/4/9/6.bil").data
    assert np.array_equal(np.frombuffer(raw, "<f4").reshape(256, 256), expected)
    packed = tiny.get("/tms/1.0.0/FLOAT32_ZIP/4/9/6.zbil").data
    assert zlib.decompress(packed) == raw


def test_vector_tile_is_sent_as_stored(tiny: Client) -> None:
    assert tiny.get("/tms/1.0.0/VECTOR/4/9/6.pbf").data == tiny_vector_tile("4", 6, 9)


def test_head_gives_the_headers_of_get(tiny: Client) -> None:
    path = "/tms/1.0.0/RGB_JPG/3/4/2.jpeg"
    get, head = tiny.get(path), tiny.head(path)
    assert head.data == b""
    assert head.headers == get.headers


def test_tile_is_revalidated(tiny: Client) -> None:
    path = "/tms/1.0.0/RGB_JPG/3/4/2.jpeg"
    etag = tiny.get(path).headers["ETag"]
    response = tiny.get(path, headers={"If-None-Match": etag})
    assert response.status_code == 304
    assert response.data == b""


def test_file_name_makes_an_attachment(tiny: Client) -> None:
    path = "/tms/1.0.0/RGB_JPG/3/4/2.jpeg?filename=my%20tile.jpg"
    header = tiny.get(path).headers["Content-Disposition"]
    assert header == 'attachment; filename="my tile.jpg"'


def test_query_is_otherwise_of_no_effect(tiny: Client) -> None:
    path = "/tms/1.0.0/RGB_JPG/3/4/2.jpeg"
    assert tiny.get(f"{path}?style=ember&&=&%ff").data == tiny.get(path).data
