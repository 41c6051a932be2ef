"""Stored tiles over HTTP: validators, codings, palettes and names."""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from werkzeug.http import http_date
from werkzeug.test import Client

from mastaba.tiles.stored import TilePublisher
from mastaba_conformance.tiny_installation import (
    tiny_float_tile,
    tiny_installation,
    tiny_integer_tile,
    tiny_vector_tile,
)
from mastaba_server.web.request import Request
from mastaba_writer.slab_names import slab_path

LEVEL, ROW, COL = "3", 2, 4


def address(layer: str, style: str = "normal") -> str:
    return f"/tiles/{layer}/{style}/{LEVEL}/{ROW}/{COL}"


@pytest.fixture
def client(open_application: Callable[..., Any]) -> Client:
    return Client(open_application())


@pytest.mark.parametrize(
    ("layer", "channels", "media_type"),
    [
        ("RGB_PNG", 3, "image/png"),
        ("RGBA_PNG", 4, "image/png"),
        ("RGB_RAW", 3, "image/tiff"),
        ("GREY_PNG", 1, "image/png"),
        ("GREYA_ZIP", 2, "image/tiff"),
    ],
)
def test_lossless_tile_has_the_pixels_that_were_stored(
    layer: str, channels: int, media_type: str, client: Client
) -> None:
    response = client.get(address(layer))

    assert response.status_code == 200
    assert response.headers["Content-Type"] == media_type
    assert "Content-Encoding" not in response.headers
    with Image.open(io.BytesIO(response.data)) as image:
        pixels = np.asarray(image)
    wanted = np.asarray(tiny_integer_tile(channels)(LEVEL, ROW, COL))
    np.testing.assert_array_equal(pixels.reshape(wanted.shape), wanted)


def test_jpeg_tile_is_close_to_the_pixels_that_were_stored(client: Client) -> None:
    response = client.get(address("RGB_JPG"))

    assert response.headers["Content-Type"] == "image/jpeg"
    with Image.open(io.BytesIO(response.data)) as image:
        assert image.mode == "RGB"
        pixels = np.asarray(image).astype(int)
    difference = np.abs(pixels - np.asarray(tiny_integer_tile(3)(LEVEL, ROW, COL)))
    assert difference.mean() < 4


def test_vector_tile_is_sent_as_it_is_stored(client: Client) -> None:
    response = client.get(address("VECTOR"))

    assert response.headers["Content-Type"] == "application/x-protobuf"
    assert "Content-Encoding" not in response.headers
    assert response.data == tiny_vector_tile(LEVEL, ROW, COL)


def read_floats(body: bytes) -> Any:
    return np.frombuffer(body, "<f4").reshape(256, 256)


def test_raw_float_tile_is_sent_as_it_is_stored(client: Client) -> None:
    response = client.get(address("FLOAT32_RAW"))

    assert response.headers["Content-Type"] == "image/x-bil;bits=32"
    np.testing.assert_array_equal(
        read_floats(response.data), np.squeeze(tiny_float_tile(LEVEL, ROW, COL))
    )


@pytest.mark.parametrize("accepted", [None, "deflate", "gzip, deflate", "*", "gzip, *;q=0.1"])
def test_zip_float_tile_is_deflated_for_a_client_that_does_not_exclude_it(
    accepted: str | None, client: Client
) -> None:
    headers = {} if accepted is None else {"Accept-Encoding": accepted}
    response = client.get(address("FLOAT32_ZIP"), headers=headers)

    assert response.headers["Content-Encoding"] == "deflate"
    assert "Accept-Encoding" in response.headers["Vary"]
    np.testing.assert_array_equal(
        read_floats(zlib.decompress(response.data)), np.squeeze(tiny_float_tile(LEVEL, ROW, COL))
    )


@pytest.mark.parametrize("accepted", ["gzip", "identity", "deflate;q=0", "*;q=0", "br"])
def test_zip_float_tile_is_inflated_for_a_client_that_excludes_deflate(
    accepted: str, client: Client
) -> None:
    coded = client.get(address("FLOAT32_ZIP"))
    response = client.get(address("FLOAT32_ZIP"), headers={"Accept-Encoding": accepted})

    assert "Content-Encoding" not in response.headers
    assert response.headers["ETag"] != coded.headers["ETag"]
    assert response.data == zlib.decompress(coded.data)
    assert response.headers["Vary"] == coded.headers["Vary"]


def test_known_inflated_tile_is_not_sent_again_as_a_deflated_one(client: Client) -> None:
    plain = {"Accept-Encoding": "gzip"}
    etag = client.get(address("FLOAT32_ZIP"), headers=plain).headers["ETag"]

    again = client.get(address("FLOAT32_ZIP"), headers={**plain, "If-None-Match": etag})
    other = client.get(address("FLOAT32_ZIP"), headers={"If-None-Match": etag})
    assert (again.status_code, other.status_code) == (304, 200)


def store_vector_tile(directory: Path, payload: bytes) -> None:
    """Replace the vector tile that `address` names."""
    slab = next(directory.glob(f"own/pyramids/VECTOR/DATA/{LEVEL}")) / slab_path(2, 1)
    data = bytearray(slab.read_bytes())
    data[2048:2052] = len(data).to_bytes(4, "little")
    data[2048 + 16 : 2048 + 20] = len(payload).to_bytes(4, "little")
    slab.write_bytes(bytes(data) + payload)


@pytest.mark.parametrize("accepted", ["gzip", "gzip, deflate, br", "*", "br, gzip;q=0.1"])
def test_gzipped_vector_tile_is_sent_as_stored_to_a_client_that_takes_gzip(
    accepted: str, tiles: Client, tmp_path: Path
) -> None:
    packed = gzip.compress(tiny_vector_tile(LEVEL, ROW, COL))
    store_vector_tile(tmp_path, packed)

    response = tiles.get(address("VECTOR"), headers={"Accept-Encoding": accepted})
    assert response.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in response.headers["Vary"]
    assert response.data == packed


@pytest.mark.parametrize("accepted", [None, "identity", "deflate, br", "gzip;q=0", "gzip;q=0, *"])
def test_gzipped_vector_tile_is_decompressed_for_a_client_that_does_not_take_gzip(
    accepted: str | None, tiles: Client, tmp_path: Path
) -> None:
    """RFC 9110 clause 12.5.3."""
    store_vector_tile(tmp_path, gzip.compress(tiny_vector_tile(LEVEL, ROW, COL)))

    headers = {} if accepted is None else {"Accept-Encoding": accepted}
    response = tiles.get(address("VECTOR"), headers=headers)
    assert "Content-Encoding" not in response.headers
    assert "Accept-Encoding" in response.headers["Vary"]
    assert response.data == tiny_vector_tile(LEVEL, ROW, COL)
    packed = tiles.get(address("VECTOR"), headers={"Accept-Encoding": "gzip"})
    assert packed.headers["ETag"] != response.headers["ETag"]
    headers["If-None-Match"] = response.headers["ETag"]
    assert tiles.get(address("VECTOR"), headers=headers).status_code == 304
    headers["If-None-Match"] = packed.headers["ETag"]
    assert tiles.get(address("VECTOR"), headers=headers).status_code == 200


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("fault", ["cut", "damaged", "huge"])
def test_damaged_gzip_of_a_vector_tile_is_reported(
    fault: str, tiles: Client, tmp_path: Path
) -> None:
    packed = gzip.compress(bytes(70 * 1024 * 1024) if fault == "huge" else b"tile" * 100, 1)
    payload = {"cut": packed[:-10], "damaged": packed[:5] + b"\xff" * 30, "huge": packed}[fault]
    store_vector_tile(tmp_path, payload)

    response = tiles.get(address("VECTOR"))
    assert response.status_code == 500
    assert len(response.data) < 1000


@pytest.mark.parametrize(
    "layer", ["RGB_JPG", "RGB_PNG", "RGB_RAW", "GREYA_ZIP", "FLOAT32_ZIP", "FLOAT32_RAW", "VECTOR"]
)
def test_tile_has_a_strong_etag_and_is_not_sent_again(layer: str, client: Client) -> None:
    first = client.get(address(layer))
    etag, weak = first.get_etag()
    assert etag
    assert weak is False

    for known in (f'"{etag}"', f'W/"{etag}"', f'"x", "{etag}"', "*"):
        again = client.get(address(layer), headers={"If-None-Match": known})
        assert (again.status_code, again.data) == (304, b"")
        assert again.headers["ETag"] == f'"{etag}"'
        assert again.headers.get("Vary") == first.headers.get("Vary")
    assert client.get(address(layer), headers={"If-None-Match": '"x"'}).data == first.data


def test_all_tiles_of_a_slab_have_etags_of_their_own(client: Client) -> None:
    etags = {
        client.get(f"/tiles/RGB_PNG/normal/3/{row}/{col}").headers["ETag"]
        for row in (2, 3)
        for col in (4, 5)
    }
    assert len(etags) == 4


def test_etag_changes_when_the_slab_is_rewritten(tiles: Client, tmp_path: Path) -> None:
    slab = next(tmp_path.glob(f"own/pyramids/RGB_PNG/DATA/{LEVEL}")) / slab_path(2, 1)
    before = tiles.get(address("RGB_PNG"))
    facts = slab.stat()
    os.utime(slab, ns=(facts.st_atime_ns, facts.st_mtime_ns + 5_000_000_000))

    after = tiles.get(address("RGB_PNG"), headers={"If-None-Match": before.headers["ETag"]})
    # The index is valid for minutes; the next read of the slab shows that it was written to.
    assert after.status_code == 304
    fresh = tiles.get(address("RGB_PNG"))
    assert fresh.headers["ETag"] != before.headers["ETag"]
    assert fresh.headers["Last-Modified"] != before.headers["Last-Modified"]
    assert fresh.data == before.data


def test_etag_changes_with_the_palette(
    open_application: Callable[..., Any], tmp_path: Path, client: Client
) -> None:
    plain = client.get(address("GREY_PNG"))
    coloured = client.get(address("GREY_PNG", "ember"))
    style = next(tmp_path.glob("*/styles/ember.json"))
    style.write_text(style.read_text().replace('"red": 96', '"red": 97'))
    edited = Client(open_application(style.parents[1] / "server.json")).get(
        address("GREY_PNG", "ember")
    )

    assert len({r.headers["ETag"] for r in (plain, coloured, edited)}) == 3
    assert len({r.data for r in (plain, coloured, edited)}) == 3


def test_tile_has_the_time_at_which_its_slab_was_written(tiles: Client, tmp_path: Path) -> None:
    slab = next(tmp_path.glob(f"own/pyramids/RGB_PNG/DATA/{LEVEL}")) / slab_path(2, 1)
    os.utime(slab, (1_700_000_000.9, 1_700_000_000.9))

    response = tiles.get(address("RGB_PNG"))
    assert response.headers["Last-Modified"] == http_date(1_700_000_000)


@pytest.mark.parametrize(
    ("days", "status"), [(-1, 200), (0, 304), (1, 304), (100_000, 304), (-10_000, 200)]
)
def test_tile_not_modified_since_is_not_sent_again(days: int, status: int, client: Client) -> None:
    first = client.get(address("RGB_PNG"))
    assert first.last_modified is not None
    since = http_date(first.last_modified + timedelta(days=days))

    response = client.get(address("RGB_PNG"), headers={"If-Modified-Since": since})
    assert response.status_code == status


@pytest.mark.parametrize(
    "since",
    [
        "yesterday",
        "0",
        "Thu, 99 Foo 2020 99:99:99 GMT",
        "\xff",
        "Wed, 21 Oct 99999999999 07:28:00 GMT",
        "Wed, 21 Oct 2015 07:28:00 +99999999999999999999",
    ],
)
def test_invalid_date_is_ignored(since: str, client: Client) -> None:
    response = client.get(address("RGB_PNG"), headers={"If-Modified-Since": since})
    assert response.status_code == 200


def test_etag_counts_more_than_the_date(client: Client) -> None:
    headers = {"If-None-Match": '"x"', "If-Modified-Since": http_date(datetime.now(UTC))}
    assert client.get(address("RGB_PNG"), headers=headers).status_code == 200


def test_not_modified_has_no_length(client: Client) -> None:
    """RFC 9110, 8.6: it would be that of the tile, which is not sent."""
    etag = client.get(address("RGB_PNG")).headers["ETag"]
    again = client.get(address("RGB_PNG"), headers={"If-None-Match": etag})
    assert again.status_code == 304
    assert "Content-Length" not in again.headers


@pytest.mark.parametrize("known", ["W/{}", '"x", W/{}, "y"', 'W/"x",{}', "*"])
def test_etags_are_compared_weakly(known: str, client: Client) -> None:
    """RFC 9110, 13.1.2: a proxy that compresses makes a strong ETag a weak one."""
    etag = client.get(address("RGB_PNG")).headers["ETag"]
    again = client.get(address("RGB_PNG"), headers={"If-None-Match": known.format(etag)})
    assert (again.status_code, again.data) == (304, b"")
    other = client.get(address("RGB_PNG"), headers={"If-None-Match": f'W/"x{etag[1:]}'})
    assert other.status_code == 200


def test_head_of_a_tile_has_the_headers_of_get(client: Client) -> None:
    full, head = client.get(address("RGB_PNG")), client.head(address("RGB_PNG"))
    assert dict(head.headers) == dict(full.headers)
    assert head.data == b""


def test_tile_is_shown_inline_or_saved_under_the_name_of_the_client(client: Client) -> None:
    shown = client.get(address("RGB_PNG"))
    assert shown.headers["Content-Disposition"] == 'inline; filename="image.png"'

    saved = client.get(address("RGB_PNG") + "?FileName=my%20map.png")
    assert saved.headers.getlist("Content-Disposition") == ['attachment; filename="my map.png"']
    named = client.get(address("RGB_PNG") + "?filename=")
    assert named.headers["Content-Disposition"] == 'inline; filename="image.png"'


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    ("row", "col"), [(1, 4), (4, 4), (2, 3), (2, 6), (-1, 4), (2, -1), (10**12, 4), (2, 10**30)]
)
def test_tile_outside_the_limits_is_not_found(row: int, col: int, client: Client) -> None:
    assert client.get(f"/tiles/RGB_PNG/normal/{LEVEL}/{row}/{col}").status_code == 404


@pytest.mark.parametrize(("wanted", "status"), [(None, 404), ("404", 404), ("204", 204)])
def test_missing_tile_is_answered_as_the_layer_says(
    wanted: str | None, status: int, tmp_path: Path, open_application: Callable[..., Any]
) -> None:
    server_json = tiny_installation(
        tmp_path / "i", services=[], services_overrides={"tiles": {"enabled": True}}
    )
    descriptor = tmp_path / "i/layers/RGB_PNG.json"
    document = json.loads(descriptor.read_text())
    if wanted is not None:
        document["missing_tile"] = wanted
    descriptor.write_text(json.dumps(document))
    (tmp_path / "i/pyramids/RGB_PNG/DATA" / LEVEL / slab_path(2, 1)).unlink()
    client = Client(open_application(server_json))

    response = client.get(address("RGB_PNG"))
    assert response.status_code == status
    if status == 204:
        assert response.data == b""
    assert client.get(f"/tiles/RGB_PNG/normal/{LEVEL}/99/99").status_code == 404


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    ("layer", "style"),
    [
        ("RGB_JPG", "normal"),
        ("RGB_PNG", "normal"),
        ("RGBA_PNG", "normal"),
        ("GREY_PNG", "normal"),
        ("GREY_PNG", "ember"),
        ("GREYA_ZIP", "normal"),
        ("RGB_RAW", "normal"),
        ("FLOAT32_RAW", "normal"),
        ("FLOAT32_ZIP", "normal"),
    ],
)
def test_blank_tile_is_nodata_in_the_format_of_the_layer(
    layer: str, style: str, tmp_path: Path, open_application: Callable[..., Any]
) -> None:
    server_json = tiny_installation(
        tmp_path / "i", services=[], services_overrides={"tiles": {"enabled": True}}
    )
    descriptor = tmp_path / f"i/layers/{layer}.json"
    document = {**json.loads(descriptor.read_text()), "missing_tile": "blank"}
    descriptor.write_text(json.dumps(document))
    stored = Client(open_application(server_json)).get(address(layer, style))
    (tmp_path / f"i/pyramids/{layer}/DATA" / LEVEL / slab_path(2, 1)).unlink()
    specification = json.loads((tmp_path / f"i/pyramids/{layer}.json").read_text())
    expected = [
        float(value) for value in specification["raster_specifications"]["nodata"].split(",")
    ]

    blank = Client(open_application(server_json)).get(address(layer, style))
    assert blank.status_code == 200
    assert blank.headers["Content-Type"] == stored.headers["Content-Type"]
    assert "Content-Encoding" not in blank.headers
    if blank.mimetype.startswith("image/x-bil"):
        values = np.frombuffer(blank.data, "<f4")
        assert len(values) == 256 * 256
        assert set(values.tolist()) == set(np.float32(expected).tolist())
        return
    with Image.open(io.BytesIO(blank.data)) as image, Image.open(io.BytesIO(stored.data)) as other:
        assert (image.size, image.mode) == (other.size, other.mode)
        pixels = np.array(image).reshape(256 * 256, -1)
    tolerance = 3 if blank.mimetype == "image/jpeg" else 0
    assert np.abs(pixels.astype(int) - expected).max() <= tolerance


def test_blank_vector_tile_is_empty(tmp_path: Path, open_application: Callable[..., Any]) -> None:
    server_json = tiny_installation(
        tmp_path / "i", services=[], services_overrides={"tiles": {"enabled": True}}
    )
    descriptor = tmp_path / "i/layers/VECTOR.json"
    document = {**json.loads(descriptor.read_text()), "missing_tile": "blank"}
    descriptor.write_text(json.dumps(document))
    for slab in (tmp_path / "i/pyramids/VECTOR/DATA").rglob("*.tif"):
        slab.unlink()

    blank = Client(open_application(server_json)).get(address("VECTOR"))
    assert (blank.status_code, blank.data) == (200, b"")
    assert blank.mimetype == "application/x-protobuf"


def test_layer_setting_becomes_the_cache_control_of_tiles(
    tmp_path: Path, open_application: Callable[..., Any]
) -> None:
    application = open_application()
    descriptor = next(tmp_path.glob("*/layers/RGB_PNG.json"))
    document = {**json.loads(descriptor.read_text()), "cache_control": "public, max-age=60"}
    descriptor.write_text(json.dumps(document))
    client = Client(open_application(descriptor.parents[1] / "server.json"))

    first = client.get(address("RGB_PNG"))
    again = client.get(address("RGB_PNG"), headers={"If-None-Match": first.headers["ETag"]})
    assert first.headers["Cache-Control"] == "public, max-age=60"
    assert again.headers["Cache-Control"] == "public, max-age=60"
    assert "Cache-Control" not in Client(application).get(address("RGB_PNG")).headers


@pytest.mark.parametrize(
    "layer",
    ["RGB_JPG", "RGB_PNG", "RGBA_PNG", "RGB_RAW", "GREYA_ZIP", "FLOAT32_ZIP", "FLOAT32_RAW"],
)
def test_palette_of_another_format_or_channel_count_changes_nothing(
    layer: str, tmp_path: Path, open_application: Callable[..., Any]
) -> None:
    catalogue = open_application().site.catalogue
    ember, reader = catalogue.styles["ember"], catalogue.readers[layer][LEVEL]
    request = Request("GET", "", "", {})
    bodies = [
        TilePublisher(catalogue.layers[layer], reader, style).respond(request, ROW, COL).body
        for style in (ember, None)
    ]
    assert bodies[0] == bodies[1]
