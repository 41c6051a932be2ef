"""GetLegendGraphic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from werkzeug.test import Client, TestResponse

from mastaba.model.style import Palette, PaletteEntry
from mastaba_conformance.tiny_installation import tiny_float_tile
from mastaba_wms.legend import Legend, Symbol, draw_legend, legend_size
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

Fault = Callable[[TestResponse], tuple[int, str, str | None]]
ReadImage = Callable[[TestResponse], NDArray[Any]]


@pytest.fixture(scope="module")
def ask(client: Client) -> Callable[..., TestResponse]:
    def query(**changes: Any) -> TestResponse:
        defaults = {
            "SERVICE": "WMS",
            "VERSION": "1.3.0",
            "REQUEST": "GetLegendGraphic",
            "LAYER": "grey",
        }
        return client.get("/wms", query_string=defaults | changes)

    return query


Ask = Callable[..., TestResponse]


def test_ramp_has_the_colours_of_the_palette(ask: Ask, image: ReadImage) -> None:
    response = ask(STYLE="ember")
    assert response.content_type == "image/png"
    pixels = image(response)
    column = pixels[6:-6, 14].astype(int)
    # From the highest value on top, which is clear yellow on white paper, to dark red.
    assert (np.diff(column.sum(axis=1)) <= 0).all()
    assert column[0] == pytest.approx([255, 250, 240], abs=20)
    assert column[-1] == pytest.approx([96, 0, 16], abs=20)


def test_steps_have_their_colours_and_labels(ask: Ask, image: ReadImage) -> None:
    pixels = image(ask(LAYER="heights", STYLE="steps"))
    shown = {tuple(pixels[y, 14]) for y in range(len(pixels))}
    # Red; half yellow on white; nothing, which is the paper.
    assert {(255, 0, 0), (255, 255, 127), (255, 255, 255)} <= shown
    assert (pixels[:, 30:] < 100).any(), "there are no labels"


def test_style_without_palette_has_a_swatch(ask: Ask, image: ReadImage) -> None:
    pixels = image(ask(LAYER="ground"))
    assert pixels.shape[0] < 40
    assert pixels.shape[1] < 40
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 2


def test_default_style_is_that_of_the_layer(ask: Ask) -> None:
    assert ask().data == ask(STYLE="").data == ask(STYLE="normal").data
    assert ask().data != ask(STYLE="ember").data


@pytest.mark.parametrize("name", ["image/png", "image/jpeg", "IMAGE/PNG"])
def test_format(ask: Ask, image: ReadImage, name: str) -> None:
    response = ask(FORMAT=name, STYLE="ember")
    assert response.content_type == name.lower()
    assert image(response).shape[2] == 3


def test_background_can_be_transparent(ask: Ask, image: ReadImage) -> None:
    pixels = image(ask(STYLE="ember", TRANSPARENT="TRUE"))
    assert pixels.shape[2] == 4
    assert pixels[0, 0, 3] == 0
    assert (pixels[:, :, 3] == 255).any()
    assert image(ask(STYLE="ember", TRANSPARENT="TRUE", FORMAT="image/jpeg")).shape[2] == 3


def test_size_of_symbols(ask: Ask, image: ReadImage) -> None:
    small, large = image(ask(WIDTH="10", HEIGHT="8")), image(ask(WIDTH="100", HEIGHT="50"))
    assert small.shape[1] + 90 == large.shape[1]
    assert small.shape[0] + 42 == large.shape[0]


@pytest.mark.parametrize("layer", ["a & b's {é}"])
def test_names_may_have_any_characters(ask: Ask, layer: str) -> None:
    assert ask(LAYER=layer).status_code == 200


@pytest.mark.parametrize(
    ("changes", "code", "locator"),
    [
        ({"LAYER": ""}, "MissingParameterValue", "LAYER"),
        ({"LAYER": "nowhere"}, "LayerNotDefined", "LAYER"),
        ({"LAYER": "grey,ground"}, "LayerNotDefined", "LAYER"),
        ({"STYLE": "no"}, "StyleNotDefined", "STYLES"),
        ({"FORMAT": "image/tiff"}, "InvalidFormat", "FORMAT"),
        ({"FORMAT": "x" * 100_000}, "InvalidFormat", "FORMAT"),
        ({"TRANSPARENT": "x"}, "InvalidParameterValue", "TRANSPARENT"),
        ({"WIDTH": "0"}, "InvalidParameterValue", "WIDTH"),
        ({"HEIGHT": "100000"}, "InvalidParameterValue", "HEIGHT"),
        ({"HEIGHT": "many"}, "InvalidParameterValue", "HEIGHT"),
    ],
)
def test_faults_are_reported(
    ask: Ask, fault: Fault, changes: dict[str, str], code: str, locator: str
) -> None:
    assert fault(ask(**changes)) == (400, code, locator)


NODATA = -99999.0
# As published styles have them: nodata, a transparent stop just above it, then impossible values.
ELEVATIONS = [
    (NODATA, 255, 255, 255, 0),
    (-99998.1, 255, 255, 255, 0),
    (-99998.0, 255, 0, 255, 255),
    (-500, 0, 0, 200, 255),
    (0, 0, 128, 0, 255),
    (4500, 255, 255, 0, 255),
]
SLOPES = [(0, 0, 128, 0, 255), (30, 255, 255, 0, 255), (91, 255, 0, 0, 0)]


def palette_style(stops: Any, **further: Any) -> dict[str, Any]:
    names = ("value", "red", "green", "blue", "alpha")
    return {
        "identifier": "tints",
        "title": "Tints",
        "abstract": "",
        "keywords": [],
        "palette": {
            "no_alpha": False,
            "rgb_continuous": True,
            "alpha_continuous": True,
            "colours": [dict(zip(names, stop, strict=True)) for stop in stops],
        },
    } | further


@pytest.mark.parametrize(
    ("stops", "nodata", "further", "shown"),
    [
        (ELEVATIONS, NODATA, {}, ELEVATIONS[3:]),
        (SLOPES, NODATA, {}, SLOPES),
        (SLOPES, 0.0, {}, SLOPES[1:]),
        # No slope at all is data, although its nodata value is the same.
        (SLOPES, NODATA, {"pente": {"slope_nodata": 0}}, SLOPES),
        (SLOPES, NODATA, {"pente": {"slope_nodata": 91}}, SLOPES[:2]),
        (ELEVATIONS[:2], NODATA, {}, ELEVATIONS[:2]),
    ],
)
def test_legend_leaves_out_the_stops_at_nodata(
    tmp_path: Path,
    open_client: Any,
    find: Any,
    image: ReadImage,
    stops: Any,
    nodata: float,
    further: Any,
    shown: Any,
) -> None:
    pyramid = write_pyramid(
        tmp_path / "pyramids",
        "heights",
        tile_matrix_set=web_mercator(),
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        nodata=[nodata],
        levels=[LevelPlan("4", 4, 4, 8, 8)],
        tile=tiny_float_tile,
    )
    client = open_client(
        write_installation(
            tmp_path,
            layers={"heights": layer_document(pyramid, styles=["tints"])},
            services=["wms"],
            styles={"tints": palette_style(stops, **further)},
        )
    )
    query = "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetLegendGraphic&LAYER=heights"
    pixels = image(client.get(query))
    entries = tuple(PaletteEntry(*stop) for stop in shown)
    palette = Palette(entries, True, True)
    expected = Legend(palette, palette, unit="°" if "pente" in further else "")
    np.testing.assert_array_equal(
        pixels, np.asarray(draw_legend(expected, Symbol(), transparent=False))[:, :, :3]
    )
    # The capabilities announce the size of the picture that is sent.
    (legend,) = find(client.get("/wms?SERVICE=WMS&REQUEST=GetCapabilities"), "//wms:LegendURL")
    assert (int(legend.get("height")), int(legend.get("width"))) == pixels.shape[:2]


HYPSO = [
    *ELEVATIONS[:3],
    *((-501, 255, 0, 255, 255), (-500, 0, 0, 200, 255), (0, 0, 128, 0, 255)),
    *((1000, 255, 255, 0, 255), (3000, 160, 100, 50, 255), (9001, 255, 255, 255, 255)),
]
VERTICAL = {"vertical": {"kind": "terrain", "unit": "ft"}}


@pytest.fixture
def open_heights(tmp_path: Path, open_client: Any) -> Callable[..., Client]:
    """Return a function that opens a layer with heights from 100 to 2500, and a hole."""

    def it(style: str = "tints", **layer: Any) -> Client:
        heights = np.linspace(100, 2500, 256 * 256, dtype=np.float32).reshape(256, 256)
        heights[:8] = NODATA
        heights[8, 0] = 100
        pyramid = write_pyramid(
            tmp_path / "pyramids",
            "heights",
            tile_matrix_set=web_mercator(),
            format="TIFF_ZIP_FLOAT32",
            channels=1,
            nodata=[NODATA],
            levels=[LevelPlan("4", 4, 4, 8, 8)],
            tile=lambda level, row, col: heights,
        )
        return open_client(
            write_installation(
                tmp_path,
                layers={"heights": layer_document(pyramid, styles=[style], **layer)},
                services=["wms", "elevation"],
                styles={"tints": palette_style(HYPSO)},
            )
        )

    return it


LEGEND = "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetLegendGraphic&LAYER=heights"


@pytest.mark.parametrize("unit", ["", "ft"])
def test_ramp_shows_the_values_of_the_layer_with_their_unit(
    open_heights: Callable[..., Client], find: Any, image: ReadImage, unit: str
) -> None:
    client = open_heights(**(VERTICAL if unit else {}))
    pixels = image(client.get(LEGEND))
    whole, part = (
        Palette(tuple(PaletteEntry(*stop) for stop in stops), True, True)
        for stops in (HYPSO[3:], HYPSO[5:8])
    )
    expected = draw_legend(Legend(whole, part, unit=unit), Symbol(), transparent=False)
    np.testing.assert_array_equal(pixels, np.asarray(expected)[:, :, :3])
    (legend,) = find(client.get("/wms?SERVICE=WMS&REQUEST=GetCapabilities"), "//wms:LegendURL")
    assert (int(legend.get("height")), int(legend.get("width"))) == pixels.shape[:2]


def test_unit_is_metres_if_only_the_meaning_of_the_heights_is_known(
    open_heights: Callable[..., Client], image: ReadImage
) -> None:
    pixels = image(open_heights(vertical={"kind": "terrain"}).get(LEGEND))
    whole, part = (
        Palette(tuple(PaletteEntry(*stop) for stop in stops), True, True)
        for stops in (HYPSO[3:], HYPSO[5:8])
    )
    expected = draw_legend(Legend(whole, part, unit="m"), Symbol(), transparent=False)
    np.testing.assert_array_equal(pixels, np.asarray(expected)[:, :, :3])


def test_default_rendering_has_a_grey_ramp(
    open_heights: Callable[..., Client], find: Any, image: ReadImage
) -> None:
    client = open_heights("normal")
    pixels = image(client.get(LEGEND))
    column = pixels[6:-6, 14].astype(int)
    assert (column == column[:, :1]).all()
    assert (np.diff(column[:, 0]) <= 0).all()
    assert column[0, 0] > 230
    assert column[-1, 0] < 25
    grey = Palette(
        tuple(PaletteEntry(v, c, c, c, 255) for v, c in ((100, 0), (1300, 127), (2500, 255))),
        True,
        no_alpha=True,
    )
    expected = draw_legend(Legend(None, grey, is_grey=True), Symbol(), transparent=False)
    np.testing.assert_array_equal(pixels, np.asarray(expected)[:, :, :3])
    (legend,) = find(client.get("/wms?SERVICE=WMS&REQUEST=GetCapabilities"), "//wms:LegendURL")
    assert (int(legend.get("height")), int(legend.get("width"))) == pixels.shape[:2]


@pytest.mark.parametrize("style", ["normal", "tints"])
def test_legend_of_a_layer_that_cannot_be_read(
    open_heights: Callable[..., Client], tmp_path: Path, image: ReadImage, style: str
) -> None:
    client = open_heights(style)
    size = image(client.get(LEGEND)).shape
    client = open_heights(style)
    for slab in (tmp_path / "pyramids").rglob("*.tif"):
        slab.write_bytes(b"x" * 10_000)
    assert image(client.get(LEGEND)).shape == size


def legend_with(*values: float, continuous: bool) -> Legend:
    entries = tuple(
        PaletteEntry(value, 10, 20, int(i) % 256, 255) for i, value in enumerate(values)
    )
    palette = Palette(entries, rgb_continuous=continuous)
    return Legend(palette, palette)


def highest_label(*values: float, continuous: bool = True) -> NDArray[Any]:
    """Return the ink beside the upper end of a legend, without the empty columns behind it."""
    symbol = Symbol()
    picture = draw_legend(legend_with(*values, continuous=continuous), symbol, transparent=False)
    beside = np.asarray(picture.convert("L"))[: symbol.height, symbol.width + 8 :] < 200
    return beside[:, : beside.any(axis=0).nonzero()[0].max(initial=-1) + 1]


@pytest.mark.parametrize("continuous", [True, False])
def test_the_highest_value_has_its_label(continuous: bool) -> None:
    long = highest_label(0, 1, 2, 1234567, continuous=continuous)
    short = highest_label(0, 1, 2, 3, continuous=continuous)
    assert short.any()
    assert long.shape[1] > 2 * short.shape[1] > 0


def test_the_highest_label_is_kept_where_others_would_be_written_over_it() -> None:
    crowded = highest_label(0, 997, 998, 999, 1000)
    assert np.array_equal(crowded, highest_label(0, 1000))
    assert not np.array_equal(crowded, highest_label(0, 999))


@pytest.mark.parametrize("continuous", [True, False])
@pytest.mark.parametrize(
    "values",
    [
        (0,),
        (0, 1),
        (-1e30, 0, 1e30),
        (0, 1e308),
        (-1.7e308, 0, 1.7e308),
        (0, 1e-9, 2e-9),
        (0, 1, 2, 3, 1000),
        tuple(range(24)),
        tuple(range(25)),
        tuple(range(5000)),
    ],
    ids=len,
)
def test_legend_of_any_palette_is_drawn(values: tuple[float, ...], continuous: bool) -> None:
    legend = legend_with(*values, continuous=continuous)
    picture = draw_legend(legend, Symbol(), transparent=False)
    assert picture.size == legend_size(legend)
    assert max(picture.size) < 1000
