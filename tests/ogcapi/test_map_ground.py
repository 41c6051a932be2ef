"""Background and void of maps (20-058 clause 15; ogcapi.md section 9.4; P-8)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from werkzeug.test import Client

# The collection covers none of the corners of the world.
WORLD = "/ogcapi/collections/b_europe/map?f=image/png&bbox=-180,-90,180,90&width=80&height=80"


def corners(image: Any) -> set[tuple[int, ...]]:
    return {tuple(map(int, image[row, col])) for row in (0, -1) for col in (0, -1)}


@pytest.mark.parametrize(
    ("bgcolor", "colour"),
    [
        ("CC00CC", (204, 0, 204)),
        ("0xCC00CC", (204, 0, 204)),
        ("0Xcc00cc", (204, 0, 204)),
        ("%23cc00cc", (204, 0, 204)),
        ("NAVY", (0, 0, 128)),
        ("NaVy", (0, 0, 128)),
        ("WHITE", (255, 255, 255)),
        ("ReD", (255, 0, 0)),
        ("LiMe", (0, 255, 0)),
        ("BLUE", (0, 0, 255)),
        ("rebeccapurple", (102, 51, 153)),
    ],
)
def test_background_colour_by_number_and_by_name(
    rich: Client, pixels: Any, bgcolor: str, colour: tuple[int, int, int]
) -> None:
    """P-8; maps /req/background/bgcolor-definition."""
    image = pixels(rich.get(f"{WORLD}&transparent=false&bgcolor={bgcolor}"))
    assert corners(image) == {(*colour, 255)}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", (None, 0)),
        ("transparent=false", ((255, 255, 255), 255)),
        ("transparent=true", (None, 0)),
        ("bgcolor=0xFF8000", ((255, 128, 0), 255)),
        ("bgcolor=0xFF8000&transparent=false", ((255, 128, 0), 255)),
        ("bgcolor=0xFF8000&transparent=true", ((255, 128, 0), 0)),
        ("bgcolor=navy", ((0, 0, 128), 255)),
        ("bgcolor=navy&transparent=FALSE", ((0, 0, 128), 255)),
        ("bgcolor=navy&transparent=TRUE", ((0, 0, 128), 0)),
    ],
)
def test_nine_combinations_of_transparency_and_colour(
    rich: Client, pixels: Any, query: str, expected: tuple[tuple[int, ...] | None, int]
) -> None:
    """P-8; maps /req/background/transparent-definition."""
    colour, alpha = expected
    for *found, found_alpha in corners(pixels(rich.get(f"{WORLD}&{query}"))):
        assert found_alpha == alpha
        assert colour is None or tuple(found) == colour


def test_data_is_the_same_on_every_background(rich: Client, pixels: Any) -> None:
    inside = "/ogcapi/collections/b_europe/map?f=png&bbox=10,50,20,55&width=20"
    for query in ("", "&bgcolor=red", "&bgcolor=red&transparent=true", "&void-color=blue"):
        assert (pixels(rich.get(f"{inside}{query}")) == (10, 120, 30, 255)).all()


def test_jpeg_shows_the_background_colour(rich: Client, pixels: Any) -> None:
    path = WORLD.replace("image/png", "jpg")
    assert np.abs(pixels(rich.get(path))[0, 0].astype(int) - 255).max() <= 2
    red = pixels(rich.get(f"{path}&bgcolor=red&transparent=true"))[0, 0].astype(int)
    assert np.abs(red - (255, 0, 0)).max() <= 4


def test_tiff_keeps_nodata_unless_a_colour_is_given(rich: Client, pixels: Any) -> None:
    path = WORLD.replace("image/png", "tiff")
    assert corners(pixels(rich.get(path))) == {(255, 255, 255)}
    assert corners(pixels(rich.get(f"{path}&transparent=false"))) == {(255, 255, 255)}
    assert corners(pixels(rich.get(f"{path}&bgcolor=0x010203"))) == {(1, 2, 3)}


def test_grey_map_on_a_coloured_background(tiny: Client, pixels: Any) -> None:
    path = WORLD.replace("b_europe", "GREY_PNG")
    assert corners(pixels(tiny.get(f"{path}&bgcolor=red"))) == {(255, 0, 0, 255)}
    assert corners(pixels(tiny.get(f"{path}&bgcolor=red&transparent=true"))) == {(255, 0, 0, 0)}
    assert corners(pixels(tiny.get(f"{path}&bgcolor=0x808080"))) == {(128, 255)}
    assert corners(pixels(tiny.get(path))) == {(0, 0)}


# The valid area of EPSG:3035 ends at 84.73 degrees north, inside these boxes. The second one
# contains no data.
LAMBERT = "/ogcapi/collections/d_lambert/map?crs=CRS:84&width=100&height=50&f=png"
BEYOND = f"{LAMBERT}&bbox=-60,20,60,100"
FAR = f"{LAMBERT}&bbox=-200,60,-100,100"


@pytest.mark.parametrize(
    ("query", "void", "ground"),
    [
        ("", (0, 0, 0, 0), (0, 0, 0, 0)),
        ("void-color=red", (255, 0, 0, 255), (0, 0, 0, 0)),
        ("void-color=red&void-transparent=true", (255, 0, 0, 0), (0, 0, 0, 0)),
        ("void-transparent=false", (255, 255, 255, 255), (0, 0, 0, 0)),
        ("bgcolor=navy", (0, 0, 128, 255), (0, 0, 128, 255)),
        ("bgcolor=navy&void-color=red", (255, 0, 0, 255), (0, 0, 128, 255)),
        ("bgcolor=navy&void-transparent=true", (0, 0, 128, 0), (0, 0, 128, 255)),
        ("bgcolor=navy&transparent=true", (0, 0, 128, 0), (0, 0, 128, 0)),
    ],
)
def test_void_is_outside_the_valid_area(
    rich: Client,
    pixels: Any,
    query: str,
    void: tuple[int, ...],
    ground: tuple[int, ...],
) -> None:
    """maps /req/background/void-color-definition, void-transparent-definition."""
    image = pixels(rich.get(f"{FAR}&{query}"))
    assert image.shape == (50, 100, 4)
    assert tuple(map(int, image[25, 1])) == void
    assert tuple(map(int, image[40, 60])) == ground


def test_void_of_a_jpeg_and_of_a_tiff(rich: Client, pixels: Any) -> None:
    tiff = pixels(rich.get(FAR.replace("f=png", "f=tiff") + "&void-color=0x010203"))
    assert tuple(tiff[25, 1]) == (1, 2, 3)
    assert tuple(tiff[40, 60]) == (255, 255, 255)
    jpeg = pixels(rich.get(FAR.replace("f=png", "f=jpg") + "&void-color=red")).astype(int)
    assert np.abs(jpeg[10, 1] - (255, 0, 0)).max() <= 12
    assert np.abs(jpeg[40, 60] - 255).max() <= 2


@pytest.mark.sampled
@pytest.mark.parametrize("form", ["png", "jpg", "tiff"])
@pytest.mark.parametrize("query", ["", "&bgcolor=navy", "&bgcolor=navy&void-color=red"])
def test_bytes_do_not_depend_on_the_strips(
    rich: Client, monkeypatch: pytest.MonkeyPatch, form: str, query: str
) -> None:
    """A map across the antimeridian is drawn in two halves."""
    area = "f_pacific/map?subset=Lon(170:-160),Lat(-80:85)&width=24"
    path = f"/ogcapi/collections/{area}&f={form}{query}"
    whole = rich.get(path)
    assert whole.status_code == 200
    for pixels in (1, 24 * 9):
        monkeypatch.setattr("mastaba_render.layer_map._STRIP_PIXELS", pixels)
        assert rich.get(path).data == whole.data


@pytest.mark.parametrize(
    ("form", "query"),
    [("png", ""), ("jpg", "&bgcolor=navy&void-color=red"), ("tiff", "&bgcolor=navy")],
)
def test_bytes_beyond_the_valid_area_do_not_depend_on_the_strips(
    rich: Client, monkeypatch: pytest.MonkeyPatch, form: str, query: str
) -> None:
    path = BEYOND.replace("f=png", f"f={form}") + query
    whole = rich.get(path)
    assert whole.status_code == 200
    monkeypatch.setattr("mastaba_render.layer_map._STRIP_PIXELS", 100 * 9)
    assert rich.get(path).data == whole.data


def test_tile_of_another_set_does_not_depend_on_the_strips(
    rich: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/ogcapi/collections/g_extra/map/tiles/4326/1/0/1"
    whole = rich.get(path)
    assert whole.status_code == 200
    monkeypatch.setattr("mastaba_render.layer_map._STRIP_PIXELS", 1)
    assert rich.get(path).data == whole.data
