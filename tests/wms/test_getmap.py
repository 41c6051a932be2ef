"""GetMap: maps and their pixels (wms.md section 3.4, conformance.md 1.4)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree
from numpy.typing import NDArray
from tests.wms.conftest import install
from werkzeug.test import Client, TestResponse

from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

MapQuery = Callable[..., dict[str, str]]
Fault = Callable[[TestResponse], tuple[int, str, str | None]]
ReadImage = Callable[[TestResponse], NDArray[Any]]
EDGE = 20037508.342789244


def tile_box(level: int, row: int, col: int, rows: int = 1, cols: int = 1) -> str:
    size = 2 * EDGE / 2**level
    west, north = -EDGE + col * size, EDGE - row * size
    return f"{west!r},{north - rows * size!r},{west + cols * size!r},{north!r}"


@pytest.fixture(scope="module")
def ask(client: Client, map_query: MapQuery) -> Callable[..., TestResponse]:
    return lambda **changes: client.get("/wms", query_string=map_query(**changes))


@pytest.fixture(scope="module")
def draw(ask: Callable[..., TestResponse], image: ReadImage) -> Callable[..., NDArray[Any]]:
    return lambda **changes: image(ask(**changes))


Ask = Callable[..., TestResponse]
Draw = Callable[..., NDArray[Any]]


def test_map_on_the_grid_of_a_level_has_the_stored_pixels(draw: Draw) -> None:
    pixels = draw(BBOX=tile_box(4, 5, 9, 1, 2), WIDTH=512, HEIGHT=256)
    tile = tiny_integer_tile(3)
    expected = np.concatenate([tile("4", 5, 9), tile("4", 5, 10)], axis=1)
    assert np.array_equal(pixels, expected)


def test_axes_of_a_geographic_crs_come_in_its_own_order(draw: Draw) -> None:
    one = draw(CRS="EPSG:4326", BBOX="20,10,40,50", WIDTH=80, HEIGHT=40)
    other = draw(CRS="CRS:84", BBOX="10,20,50,40", WIDTH=80, HEIGHT=40)
    assert np.array_equal(one, other)
    # Red grows eastward, green southward.
    assert one[20, 70, 0] > one[20, 10, 0]
    assert one[35, 40, 1] > one[5, 40, 1]


def test_axes_of_a_projected_crs_come_in_its_own_order(ask: Ask, draw: Draw) -> None:
    # EPSG:3035 is northing, easting.
    pixels = draw(CRS="EPSG:3035", BBOX="2000000,4000000,3000000,5500000", WIDTH=60, HEIGHT=40)
    assert (pixels != 255).any()
    assert pixels[20, 55, 0] > pixels[20, 5, 0]
    swapped = draw(CRS="EPSG:3035", BBOX="4000000,2000000,5500000,3000000", WIDTH=60, HEIGHT=40)
    assert not np.array_equal(swapped, pixels)


def test_every_layer_is_drawn_in_each_of_its_crs(client: Client, ask: Ask) -> None:
    # W-30
    capabilities = client.get("/wms?SERVICE=WMS&REQUEST=GetCapabilities&INSPIRE=0").data
    root = etree.fromstring(capabilities).find(".//{*}Capability/{*}Layer")
    assert root is not None
    shared = [node.text for node in root.iterfind("{*}CRS")]
    drawn = 0
    for layer in root.iterfind("{*}Layer"):
        if layer.findtext("{*}Name") in ("heights", "a & b's {é}"):
            continue
        for code in [node.text for node in layer.iterfind("{*}CRS")] + shared:
            box = {"CRS:84": "-180,-90,180,90", "EPSG:4326": "-90,-180,90,180"}.get(
                code or "", "0,0,1000000,1000000"
            )
            response = ask(LAYERS=layer.findtext("{*}Name"), CRS=code, BBOX=box)
            assert (response.status_code, response.content_type) == (200, "image/png")
            drawn += 1
    assert drawn > 20


@pytest.mark.parametrize("denominator", [34942641 / 8 * 0.9, 139770567 * 1.1])
def test_maps_beyond_the_scale_limits_are_drawn(ask: Ask, denominator: float) -> None:
    # W-30
    half = denominator * 0.00028 / 111319.49 * 100
    response = ask(
        CRS="CRS:84",
        BBOX=f"{max(-180, 45 - half)},{max(-90, 40 - half)},{45 + half},{40 + half}",
        WIDTH=200,
        HEIGHT=200,
    )
    assert response.content_type == "image/png"


@pytest.mark.parametrize(
    ("crs", "bbox"),
    [
        ("CRS:84", "-10,90,10,110"),
        ("CRS:84", "-170,-80,-160,-70"),
        ("CRS:84", "1000,1000,1001,1001"),
        ("EPSG:4326", "90,-10,110,10"),
        ("EPSG:3857", "-20000000,-20000000,-19000000,-19000000"),
        ("EPSG:3857", "8e9,8e9,8.0001e9,8.0001e9"),
        ("EPSG:32637", "1e9,1e9,2e9,2e9"),
        ("EPSG:3035", "-1e9,-1e9,-9e8,-9e8"),
    ],
)
def test_map_beside_the_layer_is_white(draw: Draw, crs: str, bbox: str) -> None:
    # W-32
    pixels = draw(CRS=crs, BBOX=bbox)
    assert pixels.shape == (60, 80, 3)
    assert (pixels == 255).all()


@pytest.mark.parametrize(
    "bbox",
    [
        "2600000,3000000,2600000.000000001,3600000",
        "1,1,1.0000000000000002,1.0000000000000002",
        "2600000,3000000,3400000,3000000.0000001",
        "0,0,1e-11,1e-11",
        "-1e10,-1e10,1e10,1e10",
        "-1e10,3000000,1e10,3000000.001",
        "9999999999.99999,9999999999.99999,1e10,1e10",
        "2600000,3000000,2600000.5,3600000",
    ],
)
def test_extreme_boxes_are_answered(ask: Ask, bbox: str) -> None:
    for crs in ("EPSG:3857", "CRS:84", "EPSG:32637"):
        response = ask(CRS=crs, BBOX=bbox)
        assert response.status_code in (200, 400), response.text
        assert response.status_code == 200 or b"InvalidParameterValue" in response.data


@pytest.mark.parametrize(
    "layers", ["ground,grey", "grey,ground,cover", "ground,ground,ground", "ground,cover"]
)
def test_several_layers_are_drawn(ask: Ask, draw: Draw, layers: str) -> None:
    # W-37
    assert draw(LAYERS=layers).shape[:2] == (60, 80)


def test_last_layer_is_on_top(draw: Draw) -> None:
    assert np.array_equal(draw(LAYERS="grey,ground"), draw(LAYERS="ground"))
    below = draw(LAYERS="ground,grey")
    assert np.array_equal(below, np.repeat(draw(LAYERS="grey"), 3, axis=2))


@pytest.mark.parametrize(
    ("layers", "styles"),
    [
        ("ground", ""),
        ("ground,grey,ground", ""),
        ("ground,grey,ground", ",,"),
        ("ground,grey,ground", ",ember,"),
        ("grey,ground", "normal,"),
        ("grey", "ember"),
    ],
)
def test_styles_may_be_empty(draw: Draw, layers: str, styles: str) -> None:
    # W-36
    assert draw(LAYERS=layers, STYLES=styles).shape[:2] == (60, 80)


def test_styles_without_value_is_the_default(client: Client, map_query: MapQuery) -> None:
    query = map_query(STYLES=None)
    bare = "&".join(f"{name}={value}" for name, value in query.items()) + "&STYLES"
    expected = client.get("/wms", query_string=map_query())
    assert client.get(f"/wms?{bare}").data == expected.data


def test_named_style_colours_the_map(draw: Draw) -> None:
    plain, ember = draw(LAYERS="grey"), draw(LAYERS="grey", STYLES="ember")
    assert plain.shape[2] == 1
    assert ember.shape[2] == 3
    assert (ember[:, :, 0] > ember[:, :, 2]).all()


@pytest.mark.parametrize(("width", "height"), [(8, 5), (1, 1), (1024, 768), (1, 768), (1024, 1)])
def test_map_has_exactly_the_requested_size(draw: Draw, width: int, height: int) -> None:
    # W-41
    assert draw(WIDTH=width, HEIGHT=height).shape[:2] == (height, width)


@pytest.mark.parametrize("transparent", [None, "FALSE", "false", ""])
@pytest.mark.parametrize("layers", ["ground", "cover", "grey"])
def test_maps_are_opaque_by_default(draw: Draw, transparent: str | None, layers: str) -> None:
    # W-38
    pixels = draw(LAYERS=layers, TRANSPARENT=transparent, BBOX="-2000000,-1000000,4000000,4000000")
    assert pixels.shape[2] in (1, 3)
    assert (pixels[-1, 0] == 255).all()


@pytest.mark.parametrize("layers", ["ground", "cover", "grey"])
def test_transparent_map_is_clear_where_there_is_no_data(draw: Draw, layers: str) -> None:
    pixels = draw(LAYERS=layers, TRANSPARENT="True", BBOX="-2000000,-1000000,4000000,4000000")
    assert pixels.shape[2] == (2 if layers == "grey" else 4)
    assert pixels[-1, 0, -1] == 0
    assert pixels[10, 70, -1] > 0


@pytest.mark.parametrize("colour", ["0x0000FF", "0X0000ff", "#0000FF", "0000ff"])
@pytest.mark.parametrize("layers", ["ground", "cover", "grey", "geo"])
def test_background_colour_fills_the_rest(draw: Draw, layers: str, colour: str) -> None:
    pixels = draw(LAYERS=layers, BGCOLOR=colour, BBOX="-2000000,-1000000,4000000,4000000")
    assert pixels.shape[2] == 3
    assert tuple(pixels[-1, 0]) == (0, 0, 255)


def test_transparency_needs_a_format_that_has_it(draw: Draw) -> None:
    pixels = draw(FORMAT="image/jpeg", TRANSPARENT="TRUE", BBOX="-2000000,-1000000,4000000,4000000")
    assert pixels.shape[2] == 3
    assert pixels[-1, 0].min() > 250


def test_resolution_of_the_device_chooses_the_level(draw: Draw) -> None:
    # Blue is 16 x the level; the cell is exactly that of level 3.
    box = {"BBOX": tile_box(3, 2, 4), "WIDTH": 256, "HEIGHT": 256}

    def level(**more: Any) -> int:
        return round(float(np.median(draw(**box, **more)[:, :, 2])) / 16)

    assert level() == 3
    assert level(DPI=90) == 3
    assert level(DPI=45) == 4
    assert level(DPI=200) == 2
    assert level(str_dpi=200) == 2
    assert level(DPI=9) == 4


@pytest.mark.parametrize("dpi", ["1", "90"])
@pytest.mark.parametrize("box", ["-2e7,-2e7,-1e6,-1e6", "1e9,1e9,1.1e9,1.1e9", "1e7,0,2e7,5"])
def test_map_beside_the_data_shows_the_background(draw: Draw, dpi: str, box: str) -> None:
    pixels = draw(BBOX=box, DPI=dpi, LAYERS="ground,cover", STYLES=",", WIDTH=30, HEIGHT=20)
    assert (pixels == 255).all()


@pytest.mark.parametrize(
    ("crs", "box"),
    [("EPSG:3857", "0,0,10000000,10000000"), ("EPSG:4326", "0,0,60,80")],
)
def test_layer_that_is_far_away_changes_nothing_of_the_others(
    tmp_path: Path,
    open_client: Callable[[Path], Client],
    map_query: MapQuery,
    image: ReadImage,
    crs: str,
    box: str,
) -> None:
    """It has its finest level only, of which the extent would be too many tiles."""
    descriptor = write_pyramid(
        tmp_path / "far",
        "far",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        channels=3,
        levels=[LevelPlan("6", 40, 41, 8, 9)],
        tile=tiny_integer_tile(3),
    )
    client = open_client(install(tmp_path / "i", layers={"far": layer_document(descriptor)}))

    def draw(layers: str) -> NDArray[Any]:
        query = map_query(LAYERS=layers, STYLES="," * layers.count(","), CRS=crs, BBOX=box)
        return image(client.get("/wms", query_string=query))

    alone = draw("ground")
    assert (alone != 255).any()
    for layers in ("ground,far", "far,ground", "far,ground,far"):
        assert np.array_equal(draw(layers), alone), layers


def test_plus_signs_and_exponents_are_numbers(client: Client, draw: Draw, ask: Ask) -> None:
    # W-51
    expected = ask(CRS="CRS:84", BBOX="20,30,40,50").data
    for box in ("+2E1,.3e+2,4.E+01,50", "2000E-2,30.0,+40,5e1", "020,30.,40.000,50"):
        assert ask(CRS="CRS:84", BBOX=box).data == expected
    # Many clients leave the plus sign as it is, and it arrives as a blank.
    query = "/wms?VERSION=1.3.0&REQUEST=GetMap&LAYERS=ground&STYLES=&CRS=CRS:84&WIDTH=80&HEIGHT=60"
    assert client.get(f"{query}&FORMAT=image/png&BBOX=+2E+1,+30,4E+01,50").data == expected


def test_codes_are_compared_without_case(ask: Ask) -> None:
    expected = ask().data
    assert ask(CRS="epsg:3857").data == expected
    assert ask(FORMAT="IMAGE/PNG").data == expected


def test_identical_requests_have_identical_answers(ask: Ask) -> None:
    assert ask().data == ask().data
