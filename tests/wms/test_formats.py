"""The formats of GetMap (wms.md section 3.4)."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, TiffImagePlugin
from tests.tiny import tiny_installation
from werkzeug.test import Client, TestResponse

from mastaba_conformance.tiny_installation import tiny_float_tile, tiny_integer_tile

MapQuery = Callable[..., dict[str, str]]
ReadImage = Callable[[TestResponse], NDArray[Any]]
EDGE = 20037508.342789244
NODATA = -99999.0
FORMATS = [
    "image/png",
    "image/jpeg",
    "image/tiff",
    "image/geotiff",
    "image/x-bil;bits=32",
    "text/asc",
]


@pytest.fixture(scope="module")
def ask(client: Client, map_query: MapQuery) -> Callable[..., TestResponse]:
    size = 2 * EDGE / 2**4
    box = f"{-EDGE + 8 * size!r},{EDGE - 5 * size!r},{-EDGE + 9 * size!r},{EDGE - 4 * size!r}"
    return lambda **changes: client.get(
        "/wms", query_string=map_query(BBOX=box, WIDTH=256, HEIGHT=256) | changes
    )


Ask = Callable[..., TestResponse]


@pytest.mark.parametrize(
    "spelling", ["image/x-bil;bits=32", "IMAGE/X-BIL; BITS=32", "image/x-bil ;bits=32 "]
)
def test_blanks_and_case_in_a_format_do_not_matter(ask: Ask, spelling: str) -> None:
    response = ask(LAYERS="heights", FORMAT=spelling)
    assert response.headers["Content-Type"] == "image/x-bil;bits=32"


def test_bil_has_the_stored_values(ask: Ask) -> None:
    response = ask(LAYERS="heights", FORMAT="image/x-bil;bits=32")
    values = np.frombuffer(response.data, "<f4").reshape(256, 256)
    assert np.array_equal(values, tiny_float_tile("4", 4, 8))


def test_bil_of_bytes_has_them_as_floats(ask: Ask) -> None:
    response = ask(LAYERS="grey", FORMAT="image/x-bil;bits=32")
    values = np.frombuffer(response.data, "<f4").reshape(256, 256)
    assert np.array_equal(values, tiny_integer_tile(1)("4", 4, 8)[:, :, 0].astype(np.float32))


def test_ascii_grid_has_the_stored_values(ask: Ask) -> None:
    lines = ask(LAYERS="heights", FORMAT="text/asc").text.splitlines()
    assert lines[:2] == ["ncols 256", "nrows 256"]
    assert "NODATA_value -99999" in lines
    values = np.array([line.split() for line in lines[-256:]], np.float32)
    assert np.array_equal(values, tiny_float_tile("4", 4, 8))


def test_data_formats_hold_nodata_where_a_tile_is_absent(ask: Ask) -> None:
    size = 2 * EDGE / 2**4
    box = f"{-EDGE + 9 * size!r},{EDGE - 6 * size!r},{-EDGE + 10 * size!r},{EDGE - 5 * size!r}"
    response = ask(LAYERS="heights", FORMAT="image/x-bil;bits=32", BBOX=box)
    assert (np.frombuffer(response.data, "<f4") == NODATA).all()


@pytest.mark.parametrize("name", ["image/tiff", "image/geotiff"])
@pytest.mark.parametrize("compression", [None, "raw", "lzw", "deflate", "packbits", "LZW"])
def test_tiff_has_the_stored_pixels(
    ask: Ask, image: ReadImage, name: str, compression: str | None
) -> None:
    options = {"FORMAT_OPTIONS": f"compression:{compression}"} if compression else {}
    assert np.array_equal(
        image(ask(LAYERS="cover", FORMAT=name, **options)), tiny_integer_tile(4)("4", 4, 8)
    )
    heights = image(ask(LAYERS="heights", FORMAT=name, **options))
    assert np.array_equal(heights[:, :, 0], tiny_float_tile("4", 4, 8))


def test_geotiff_knows_its_place(ask: Ask) -> None:
    response = ask(LAYERS="heights", FORMAT="image/geotiff", CRS="EPSG:4326", BBOX="10,20,30,60")
    with Image.open(io.BytesIO(response.data)) as picture:
        assert isinstance(picture, TiffImagePlugin.TiffImageFile)
        tags = picture.tag_v2
        assert tags[33922] == (0, 0, 0, 20, 30, 0)
        assert tags[33550] == pytest.approx((40 / 256, 20 / 256, 0))
        assert tags[34735][-1] == 4326
        assert tags[42113] == "-99999"


def test_background_fills_an_8_bit_tiff_only_when_given(ask: Ask, image: ReadImage) -> None:
    beside = {"FORMAT": "image/tiff", "BBOX": "-10000000,-10000000,-9000000,-9000000"}
    assert set(image(ask(**beside)).ravel()) == {0} or set(image(ask(**beside)).ravel()) == {255}
    filled = image(ask(**beside, BGCOLOR="0x102030"))
    assert (filled == (0x10, 0x20, 0x30)).all()
    floats = image(ask(**beside, LAYERS="heights", BGCOLOR="0x102030"))
    assert (floats == NODATA).all()


@pytest.mark.parametrize("layer", ["grey", "ground"])
@pytest.mark.parametrize("form", ["text/asc", "image/x-bil;bits=32", "image/geotiff"])
def test_background_is_no_number(ask: Ask, layer: str, form: str) -> None:
    beside = {
        "LAYERS": layer,
        "FORMAT": form,
        "BBOX": "-10000000,-10000000,-9000000,-9000000",
        "WIDTH": "4",
        "HEIGHT": "4",
    }
    plain, painted = ask(**beside), ask(**beside, BGCOLOR="0x102030")
    assert (plain.status_code, painted.status_code) == (200, 200)
    # The pixels of an image can be painted, numbers cannot.
    assert (plain.data == painted.data) == (form != "image/geotiff")


def test_jpeg_has_three_channels_even_of_a_grey_layer(ask: Ask, image: ReadImage) -> None:
    grey = image(ask(LAYERS="grey")).astype(np.int16)
    assert grey.shape == (256, 256, 1)
    rgb = image(ask(LAYERS="grey", FORMAT="image/jpeg"))
    assert rgb.shape == (256, 256, 3)
    assert np.ptp(rgb, axis=2).max() == 0
    assert np.abs(rgb - grey).mean() < 3


def test_quality_of_jpeg(ask: Ask) -> None:
    def size(quality: str) -> int:
        return len(ask(FORMAT="image/jpeg", FORMAT_OPTIONS=f"quality:{quality}").data)

    assert size("10") < size("75") < size("100")
    assert size("0") == size("101") == size("good") == size("75")


def test_options_of_other_formats_and_unknown_ones_are_ignored(ask: Ask) -> None:
    expected = ask().data
    for options in ("dpi:96", "quality:0;compression:no;x", ";;:", "a" * 500):
        assert ask(FORMAT_OPTIONS=options).data == expected


@pytest.mark.parametrize(
    ("query", "header"),
    [
        ({}, 'inline; filename="image.png"'),
        ({"FORMAT": "image/geotiff"}, 'inline; filename="image.tif"'),
        ({"FORMAT": "image/x-bil;bits=32"}, 'inline; filename="image.bil"'),
        ({"FILENAME": "my map.png"}, 'attachment; filename="my map.png"'),
        ({"filename": "é\r\nX: y"}, "attachment; filename=\"_X_ y\"; filename*=UTF-8''%C3%A9X: y"),
    ],
)
def test_file_names(ask: Ask, query: dict[str, str], header: str) -> None:
    assert (
        ask(**query).headers["Content-Disposition"].replace("%3A", ":").replace("%20", " ")
        == header
    )


def test_file_name_of_webp(tmp_path: Path, open_client: Callable[[Path], Client]) -> None:
    settings = {"map": {"formats": ["image/webp"]}}
    server_json = tiny_installation(
        tmp_path, services=["wms"], services_overrides={"global": settings}
    )
    response = open_client(server_json).get(
        "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_RAW&STYLES=&CRS=EPSG:3857"
        "&WIDTH=64&HEIGHT=64&BBOX=0,0,5000000,5000000&FORMAT=image/webp"
    )
    assert response.content_type == "image/webp", response.data
    assert response.data[8:12] == b"WEBP"
    assert response.headers["Content-Disposition"] == 'inline; filename="image.webp"'


@pytest.mark.sampled
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("layers", "styles"),
    [
        ("ground", ""),
        ("grey", ""),
        ("grey", "ember"),
        ("cover", ""),
        ("heights", ""),
        ("heights", "steps"),
        ("geo", ""),
        ("ground,grey,cover", ""),
    ],
)
def test_every_announced_format_works_on_every_layer(
    ask: Ask, layers: str, styles: str, name: str
) -> None:
    """W-35; OGC 06-042 clause 7.3.3.7: a client may ask for any format of the capabilities."""
    response = ask(LAYERS=layers, STYLES=styles, FORMAT=name)
    assert (response.status_code, response.content_type) == (200, name), response.text


def test_floats_are_grey_in_pictures_from_the_lowest_to_the_highest_value(
    ask: Ask, image: ReadImage
) -> None:
    # One tile of the coarsest level.
    box = f"0,0,{EDGE / 2!r},{EDGE / 2!r}"
    stored = ask(LAYERS="heights", FORMAT="image/x-bil;bits=32", BBOX=box)
    values = np.frombuffer(stored.data, "<f4").reshape(256, 256)
    pixels = image(ask(LAYERS="heights", BBOX=box))
    is_data = values > -9999
    assert (pixels[:, :, 0] == pixels[:, :, 1]).all()
    assert (pixels[:, :, 0] == pixels[:, :, 2]).all()
    grey = pixels[:, :, 0].astype(float)
    order = np.argsort(values[is_data])
    assert (np.diff(grey[is_data][order]) >= 0).all()
    assert np.ptp(grey[is_data]) > 50
    # Each level of grey represents the same span of values; white is only for values above all.
    slope, offset = np.polyfit(values[is_data], grey[is_data], 1)
    assert np.abs(slope * values[is_data] + offset - grey[is_data]).max() < 1.5


def test_grey_of_a_value_does_not_depend_on_the_map(ask: Ask, image: ReadImage) -> None:
    whole = image(ask(LAYERS="heights", BBOX=f"0,0,{EDGE / 2!r},{EDGE / 2!r}"))
    part = image(ask(LAYERS="heights", BBOX=f"0,0,{EDGE / 4!r},{EDGE / 2!r}", WIDTH=128))
    assert np.ptp(part) < np.ptp(whole)
    np.testing.assert_array_equal(whole[:, :128], part)


def test_pictures_mix_floats_and_colours(ask: Ask, image: ReadImage) -> None:
    both = image(ask(LAYERS="ground,heights"))
    np.testing.assert_array_equal(both, image(ask(LAYERS="heights")))


def test_ascii_grid_of_colours_is_their_luminance(ask: Ask, image: ReadImage) -> None:
    text = ask(LAYERS="ground", FORMAT="text/asc").text
    rows = [line.split() for line in text.splitlines() if line[0].isdigit()]
    colours = image(ask(LAYERS="ground")).astype(float)
    expected = colours @ [0.2125, 0.7154, 0.0721]
    np.testing.assert_allclose(np.array(rows, float), expected, atol=0.51)
