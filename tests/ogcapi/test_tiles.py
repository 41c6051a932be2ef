"""Tiles (20-057 clause 7; ogcapi.md section 8; T-1, T-2, P-7)."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import mapbox_vector_tile
import numpy as np
import pytest
from werkzeug.test import Client

from mastaba_conformance.tiny_installation import tiny_float_tile, tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

MVT = "application/vnd.mapbox-vector-tile"
PNG = "/ogcapi/collections/RGB_PNG/map/tiles/PM/4/5/9"
JPEG = "/ogcapi/collections/RGB_JPG/map/tiles/PM/4/5/9"
VECTOR = "/ogcapi/collections/VECTOR/tiles/PM/4/5/9"
BROWSER = "image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5"


def test_stored_tile_has_the_pixels_written(tiny: Client, pixels: Any) -> None:
    assert (pixels(tiny.get(PNG)) == tiny_integer_tile(3)("4", 5, 9)).all()


def test_stored_tile_has_validators_and_no_place(tiny: Client) -> None:
    response = tiny.get(PNG)
    assert response.content_type == "image/png"
    assert response.headers["Content-Disposition"] == 'inline; filename="image.png"'
    assert not {"Content-Crs", "Content-Bbox"} & set(response.headers.keys())
    again = tiny.get(PNG, headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")


def test_file_name_makes_it_an_attachment(tiny: Client) -> None:
    for path in (PNG, f"{PNG}?f=jpg"):
        joint = "&" if "?" in path else "?"
        header = tiny.get(f"{path}{joint}filename=a%22b.png").headers["Content-Disposition"]
        assert header.startswith("attachment;")
        assert 'a"b' not in header


def test_every_tile_of_a_dense_range_answers(rich: Client) -> None:
    """T-1, with the registered name in the template."""
    for row in range(4):
        for col in range(4):
            path = f"/ogcapi/collections/a_world/map/tiles/WebMercatorQuad/2/{row}/{col}?f=png"
            assert rich.get(path).status_code == 200


@pytest.mark.parametrize(
    "address",
    [
        "4/2147483647/2147483647",
        "4/-1/9",
        "4/5/-1",
        "4/-0/9",
        "4/5/11",
        "4/7/9",
        "4/5/" + "9" * 5000,
        "0/0/0",
    ],
)
@pytest.mark.parametrize("query", ["", "?width=64", "?f=jpg", "?bgcolor=red"])
def test_tiles_that_the_collection_does_not_have_are_not_found(
    tiny: Client, fault: Any, address: str, query: str
) -> None:
    """T-2; a matrix of the set that the collection has no level for is none of its tiles."""
    path = f"/ogcapi/collections/RGB_PNG/map/tiles/PM/{address}{query}"
    assert fault(tiny.get(path)) == (404, "ResourceNotFound")


def test_tile_that_is_not_stored_is_no_content(rich: Client) -> None:
    """tiles /req/core/tc-error."""
    response = rich.get("/ogcapi/collections/b_europe/map/tiles/PM/4/6/10")
    assert (response.status_code, response.data) == (204, b"")


def test_drawn_tile_where_nothing_is_stored_is_blank(rich: Client, pixels: Any) -> None:
    path = "/ogcapi/collections/b_europe/map/tiles/PM/4/6/10?transparent=true"
    assert (pixels(rich.get(path))[:, :, 3] == 0).all()


@pytest.mark.parametrize(
    ("collection", "media_type", "names"),
    [
        ("RGB_PNG", "image/png", ["png", "PNG", "image/png"]),
        ("RGB_JPG", "image/jpeg", ["jpg", "jpeg", "image/jpeg"]),
        ("RGB_RAW", "image/tiff", ["tiff", "tif", "image/tiff"]),
        ("FLOAT32_RAW", "image/x-bil;bits=32", ["bil", "image/x-bil;bits=32", "image/x-bil"]),
        ("FLOAT32_ZIP", "image/x-bil;bits=32", ["bil"]),
    ],
)
def test_stored_format_goes_by_its_names(
    tiny: Client, collection: str, media_type: str, names: list[str]
) -> None:
    path = f"/ogcapi/collections/{collection}/map/tiles/PM/4/5/9"
    stored = tiny.get(path)
    assert stored.content_type == media_type
    assert "ETag" in stored.headers
    for name in names:
        response = tiny.get(path, query_string={"f": name})
        assert response.data == stored.data, name
        assert response.headers["ETag"] == stored.headers["ETag"], name


@pytest.mark.parametrize(
    ("f", "media_type", "start"),
    [
        ("jpg", "image/jpeg", b"\xff\xd8\xff"),
        ("tiff", "image/tiff; application=geotiff", b"II*\0"),
        ("image/tiff; application=geotiff", "image/tiff; application=geotiff", b"II*\0"),
        ("image/jpeg", "image/jpeg", b"\xff\xd8\xff"),
    ],
)
def test_tile_is_encoded_again_in_another_format(
    tiny: Client, f: str, media_type: str, start: bytes
) -> None:
    response = tiny.get(PNG, query_string={"f": f})
    assert response.content_type == media_type
    assert response.data.startswith(start)


def test_tile_in_png_is_the_pixels_of_the_jpeg(tiny: Client, pixels: Any) -> None:
    drawn = pixels(tiny.get(f"{JPEG}?f=png"))
    stored = pixels(tiny.get(JPEG)).astype(int)
    assert drawn.shape == (256, 256, 4)
    assert np.abs(drawn[:, :, :3] - stored).max() <= 2
    assert (drawn[:, :, 3] == 255).all()


@pytest.mark.parametrize(
    "f", ["", "gif", "image/gif", "mvt", "nothing", "png,jpg", "\0", "x" * 5000]
)
def test_unknown_format_is_refused(tiny: Client, fault: Any, f: str) -> None:
    assert fault(tiny.get(PNG, query_string={"f": f})) == (400, "InvalidParameter")


def test_tiles_of_values_are_drawn_in_pictures(tiny: Client) -> None:
    path = "/ogcapi/collections/FLOAT32_RAW/map/tiles/PM/4/5/9"
    for f, media_type in (("png", "image/png"), ("jpg", "image/jpeg")):
        response = tiny.get(path, query_string={"f": f})
        assert (response.status_code, response.content_type) == (200, media_type)


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (None, "image/jpeg"),
        ("", "image/jpeg"),
        ("*/*", "image/jpeg"),
        ("image/*", "image/jpeg"),
        ("image/jpeg", "image/jpeg"),
        (BROWSER, "image/jpeg"),
        ("image/png", "image/png"),
        ("image/png,image/jpeg", "image/jpeg"),
        ("image/png,image/jpeg;q=0.9", "image/png"),
        ("image/jpeg;q=0, */*", "image/png"),
        ("image/tiff;application=geotiff", "image/tiff; application=geotiff"),
        ("image/tiff", "image/tiff; application=geotiff"),
        (f"{'x/y,' * 500}image/png", "image/png"),
    ],
)
def test_accept_header_chooses_the_format(
    tiny: Client, accept: str | None, media_type: str
) -> None:
    response = tiny.get(JPEG, headers={} if accept is None else {"Accept": accept})
    assert response.content_type == media_type
    if media_type != "image/jpeg":
        assert "Accept" in response.headers["Vary"]


def test_accept_header_without_any_offered_format_is_not_acceptable(
    tiny: Client, fault: Any
) -> None:
    for path in (JPEG, f"{JPEG}?width=8", VECTOR, "/ogcapi/collections/RGB_JPG/map"):
        response = tiny.get(path, headers={"Accept": "text/css"})
        assert fault(response) == (406, "NotAcceptable")
        assert response.headers["Vary"] == "Accept"


def test_f_counts_more_than_the_accept_header(tiny: Client) -> None:
    assert tiny.get(f"{JPEG}?f=png", headers={"Accept": "text/css"}).content_type == "image/png"


@pytest.mark.parametrize(
    ("query", "size"),
    [
        ({"width": "512"}, (512, 512)),
        ({"height": "512"}, (512, 512)),
        ({"width": "256", "height": "256"}, (256, 256)),
        ({"width": "10", "height": "40"}, (10, 40)),
        ({"scale-denominator": "50000000"}, (179, 179)),
        ({"scale-denominator": "50000000", "mm-per-pixel": "0.56"}, (89, 89)),
        ({"mm-per-pixel": "0.56"}, (256, 256)),
        ({"scale-denominator": "1e30"}, (1, 1)),
    ],
)
def test_size_of_a_drawn_tile(
    tiny: Client, pixels: Any, query: dict[str, str], size: tuple[int, int]
) -> None:
    """P-7; maps /req/tilesets/tiles-parameters."""
    image = pixels(tiny.get(PNG, query_string=query))
    assert (image.shape[1], image.shape[0]) == size
    assert image.shape[2] == 4


@pytest.mark.parametrize(
    "query",
    [
        {"width": "0"},
        {"width": "5001"},
        {"height": "-1"},
        {"width": "1e3"},
        {"width": ""},
        {"width": "9" * 5000},
        {"width": "١"},
        {"scale-denominator": "0"},
        {"scale-denominator": "-1"},
        {"scale-denominator": "nan"},
        {"scale-denominator": "inf"},
        {"scale-denominator": "1e-300"},
        {"scale-denominator": "5", "width": "8"},
        {"mm-per-pixel": "0"},
        {"mm-per-pixel": ""},
        {"bgcolor": ""},
        {"bgcolor": "nothing"},
        {"bgcolor": "0xFFFFF"},
        {"transparent": "1"},
        {"void-color": "#12"},
        {"void-transparent": "yes"},
    ],
)
def test_invalid_parameters_of_a_drawn_tile_are_refused(
    tiny: Client, fault: Any, query: dict[str, str]
) -> None:
    assert fault(tiny.get(PNG, query_string=query)) == (400, "InvalidParameter")


def test_background_parameters_change_the_bytes(tiny: Client, pixels: Any) -> None:
    """P-7."""
    path = "/ogcapi/collections/RGBA_PNG/map/tiles/PM/4/5/9"
    stored = tiny.get(path)
    red = tiny.get(f"{path}?bgcolor=0xFF0000")
    clear = tiny.get(f"{path}?transparent=true")
    assert len({stored.data, red.data, clear.data}) == 3
    image, drawn = pixels(stored).astype(int), pixels(red).astype(int)
    assert (drawn[:, :, 3] == 255).all()
    half = image[:, :, 3] == 128
    expected = (image[:, :, 0] * 128 + 255 * 127) / 255
    assert half.any()
    assert np.abs(drawn[:, :, 0] - expected)[half].max() <= 1
    assert (pixels(clear)[:, :, 3] == image[:, :, 3]).all()


def test_drawn_tile_has_its_place_in_headers(rich: Client) -> None:
    response = rich.get("/ogcapi/collections/d_lambert/map/tiles/LAEA/0/1/2?width=32")
    assert response.headers["Content-Crs"] == "http://www.opengis.net/def/crs/EPSG/0/3035"
    assert response.headers["Content-Bbox"] == "3250000,4250000,4375000,5375000"


def test_palette_is_put_into_stored_tiles(tiny: Client) -> None:
    plain = tiny.get("/ogcapi/collections/GREY_PNG/map/tiles/PM/4/5/9")
    path = "/ogcapi/collections/GREY_PNG/styles/{}/map/tiles/PM/4/5/9"
    assert tiny.get(path.format("normal")).data == plain.data
    ember = tiny.get(path.format("ember"))
    assert b"PLTE" in ember.data
    assert ember.headers["ETag"] != plain.headers["ETag"]


def test_style_is_drawn_where_the_format_can_show_it(rich: Client, pixels: Any) -> None:
    path = "/ogcapi/collections/e heights é/styles/relief/map/tiles/PM/3/2/4"
    stored = rich.get(path)
    assert stored.content_type == "image/x-bil;bits=32"
    assert (np.frombuffer(stored.data, "<f4") == 1000).all()
    drawn = pixels(rich.get(f"{path}?f=png"))
    assert (drawn == (255, 255, 0, 255)).all()


def test_zipped_floats_say_their_coding(tiny: Client) -> None:
    path = "/ogcapi/collections/FLOAT32_ZIP/map/tiles/PM/4/5/9"
    assert tiny.get(path).headers["Content-Encoding"] == "deflate"
    plain = tiny.get(path, headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    values = np.frombuffer(plain.data, "<f4").reshape(256, 256)
    assert (values == tiny_float_tile("4", 5, 9)).all()


@pytest.mark.parametrize(
    ("query", "accept", "media_type"),
    [
        ({}, None, MVT),
        ({"f": "mvt"}, None, MVT),
        ({"f": MVT}, "application/x-protobuf", MVT),
        ({"f": "pbf"}, None, "application/x-protobuf"),
        ({"f": "application/x-protobuf"}, None, "application/x-protobuf"),
        ({}, "*/*", MVT),
        ({}, MVT, MVT),
        ({}, "application/x-protobuf", "application/x-protobuf"),
        ({}, f"application/x-protobuf;q=0.5,{MVT}", MVT),
    ],
)
def test_vector_tiles_go_by_both_names(
    tiny: Client, query: dict[str, str], accept: str | None, media_type: str
) -> None:
    """tiles /req/mvt/content."""
    headers = {} if accept is None else {"Accept": accept}
    response = tiny.get(VECTOR, query_string=query, headers=headers)
    assert response.content_type == media_type
    data = response.data
    if response.headers.get("Content-Encoding") == "gzip":
        data = gzip.decompress(data)
    assert set(mapbox_vector_tile.decode(data)) == {"tiles", "centres"}


def test_vector_tile_of_another_format_is_refused(tiny: Client, fault: Any) -> None:
    assert fault(tiny.get(f"{VECTOR}?f=png")) == (400, "InvalidParameter")
    outside = VECTOR.replace("/5/9", "/5/99")
    assert fault(tiny.get(f"{outside}?f=png")) == (404, "ResourceNotFound")


def test_extra_set_is_served_and_drawn(rich: Client, pixels: Any) -> None:
    path = "/ogcapi/collections/g_extra/map/tiles/4326/1/0/1"
    image = pixels(rich.get(path))
    assert image.shape == (256, 256, 3)
    assert (image[-1, -1] == (200, 100, 50)).all()
    drawn = rich.get(f"{path}?f=jpg")
    assert drawn.content_type == "image/jpeg"
    assert drawn.headers["Content-Bbox"] == "0,-90,90,0"


def test_layer_may_choose_the_status_of_missing_tiles(
    tmp_path: Path, open_client: Any, fault: Any
) -> None:
    descriptor = write_pyramid(
        tmp_path / "pyramids",
        "P",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("3", 2, 3, 4, 5)],
        tile=lambda level, row, col: None,
    )
    layers = {"P": layer_document(descriptor, missing_tile=404)}
    client = open_client(write_installation(tmp_path, layers=layers, services=["ogcapi"]))
    response = client.get("/ogcapi/collections/P/map/tiles/PM/3/2/4")
    assert fault(response) == (404, "ResourceNotFound")


def test_damaged_slab_is_reported_without_details(
    tmp_path: Path, open_client: Any, fault: Any
) -> None:
    descriptor = write_pyramid(
        tmp_path / "pyramids",
        "P",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("3", 2, 3, 4, 5)],
        tile=tiny_integer_tile(3),
    )
    for slab in (tmp_path / "pyramids" / "P").rglob("*.tif"):
        slab.write_bytes(b"nonsense" * 10)
    layers = {"P": layer_document(descriptor)}
    client = open_client(write_installation(tmp_path, layers=layers, services=["ogcapi"]))
    for path in ("map/tiles/PM/3/2/4", "map/tiles/PM/3/2/4?f=jpg", "map"):
        response = client.get(f"/ogcapi/collections/P/{path}")
        assert fault(response) == (500, "InternalError")
        assert str(tmp_path) not in response.text
        assert "slab" not in response.text
