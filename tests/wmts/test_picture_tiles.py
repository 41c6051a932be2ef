"""Tiles drawn as pictures: formats other than the stored one, in every style of a layer."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from werkzeug.test import Client, TestResponse

from mastaba_conformance.tiny_installation import tiny_float_tile, tiny_integer_tile

Fault = Callable[[TestResponse], tuple[int, str, list[str | None]]]
Find = Callable[..., list[Any]]

PICTURES = ["image/png", "image/jpeg", "image/webp"]
LEVEL, ROW, COL = "3", 2, 4


def get(
    client: Client, layer: str, media_type: str, style: str = "normal", **changes: Any
) -> TestResponse:
    parameters: dict[str, Any] = {
        "SERVICE": "WMTS",
        "REQUEST": "GetTile",
        "LAYER": layer,
        "STYLE": style,
        "FORMAT": media_type,
        "TILEMATRIXSET": "PM",
        "TILEMATRIX": LEVEL,
        "TILEROW": ROW,
        "TILECOL": COL,
    }
    headers = changes.pop("headers", None)
    return client.get("/wmts", query_string=parameters | changes, headers=headers)


def pixels(response: TestResponse, mode: str) -> npt.NDArray[np.int64]:
    assert response.status_code == 200
    with Image.open(io.BytesIO(response.data)) as image:
        assert image.size == (256, 256)
        assert response.headers["Content-Type"] == f"image/{str(image.format).lower()}"
        return np.asarray(image.convert(mode), np.int64)


@pytest.mark.parametrize(("media_type", "tolerance"), [*zip(PICTURES, [0, 20, 20], strict=True)])
def test_picture_has_the_pixels_that_are_stored(
    tiny: Client, media_type: str, tolerance: int
) -> None:
    response = get(tiny, "RGB_RAW", media_type)
    extension = media_type.removeprefix("image/").replace("jpeg", "jpg")
    named = f'inline; filename="image.{extension}"'
    assert response.headers["Content-Disposition"] == named
    shown = pixels(response, "RGB")
    assert np.abs(shown - tiny_integer_tile(3)(LEVEL, ROW, COL)).mean() <= tolerance / 4
    assert np.percentile(np.abs(shown - tiny_integer_tile(3)(LEVEL, ROW, COL)), 95) <= tolerance


@pytest.mark.parametrize("media_type", PICTURES)
@pytest.mark.parametrize("layer", ["FLOAT32_RAW", "FLOAT32_ZIP"])
def test_floats_are_a_grey_ramp_in_the_default_style(
    tiny: Client, layer: str, media_type: str
) -> None:
    grey = pixels(get(tiny, layer, media_type), "L").ravel()
    order = np.argsort(tiny_float_tile(LEVEL, ROW, COL).ravel(), kind="stable")
    ramp = grey[order]
    # Lossy formats are off by a few levels.
    assert np.all(np.diff(np.maximum.accumulate(ramp) - ramp) <= 12)
    assert ramp[-1] - ramp[0] >= 0


def test_floats_are_drawn_in_the_palette_of_a_style(rich: Client) -> None:
    response = get(rich, "heights", "image/png", "ember")
    palette = rich.application.site.catalogue.layers["heights"].style("ember").palette
    colours = {(entry.red, entry.green, entry.blue) for entry in palette.entries}
    shown = {tuple(colour) for colour in pixels(response, "RGB").reshape(-1, 3)}
    assert len(shown) == 1
    assert shown <= colours


def test_grey_tiles_as_jpeg_take_the_colours_of_a_palette(rich: Client) -> None:
    plain = pixels(get(rich, "tints", "image/jpeg", "normal"), "RGB")
    tinted = pixels(get(rich, "tints", "image/jpeg", "ember"), "RGB")
    assert np.ptp(plain, axis=2).max() <= 2
    assert np.ptp(tinted, axis=2).max() > 20


@pytest.mark.parametrize("installation", ["tiny", "rich"])
def test_every_listed_style_and_format_is_answered(
    installation: str, find: Find, request: pytest.FixtureRequest
) -> None:
    client: Client = request.getfixturevalue(installation)
    capabilities = client.get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities")
    asked = 0
    for element in find(capabilities, "//wmts:Contents/wmts:Layer"):

        def texts(path: str, element: Any = element) -> list[str]:
            return [node.text for node in element.iterfind(path)]

        (name,) = texts("{*}Identifier")
        styles, formats = texts("{*}Style/{*}Identifier"), texts("{*}Format")
        assert len(set(formats)) == len(formats)
        if "mapbox" not in formats[0] and "protobuf" not in formats[0]:
            assert {*PICTURES} <= {*formats}
        layer = client.application.site.catalogue.layers[name]
        level = layer.pyramid.finest
        tile_matrix_set = texts("{*}TileMatrixSetLink/{*}TileMatrixSet")[0]
        place = {
            "TILEMATRIXSET": tile_matrix_set,
            "TILEMATRIX": level.matrix.id,
            "TILEROW": level.limits.max_row,
            "TILECOL": level.limits.max_col,
        }
        for style, media_type in product(styles or [""], formats):
            response = get(client, name, media_type, style, **place)
            assert response.status_code == 200, (name, style, media_type, response.text)
            assert response.headers["Content-Type"] == media_type
            asked += 1
        templates = {
            node.get("format"): node.get("template")
            for node in element.iterfind("{*}ResourceURL[@resourceType='tile']")
        }
        assert [*templates] == formats
        for media_type, template in templates.items():
            for key, value in {
                "style": styles[0] if styles else "default",
                "TileMatrixSet": tile_matrix_set,
                "TileMatrix": level.matrix.id,
                "TileRow": level.limits.max_row,
                "TileCol": level.limits.max_col,
            }.items():
                template = template.replace(f"{{{key}}}", str(value))
            response = client.get(template.removeprefix("http://maps.example"))
            if styles:
                assert (response.status_code, response.content_type) == (200, media_type)
    assert asked > 20


def test_picture_of_a_tile_that_is_not_stored_is_the_same_error(rich: Client, fault: Fault) -> None:
    place = {"TILEMATRIX": "4", "TILEROW": "6", "TILECOL": "9", "TILEMATRIXSET": "PM_2_4"}
    stored = get(rich, "gap", "image/png", **place)
    drawn = get(rich, "gap", "image/jpeg", **place)
    assert fault(drawn) == fault(stored)
    assert drawn.status_code == 404


def test_client_that_has_the_picture_gets_304(tiny: Client) -> None:
    first = get(tiny, "RGB_RAW", "image/png")
    headers = {"If-None-Match": first.headers["ETag"]}
    assert get(tiny, "RGB_RAW", "image/png", headers=headers).status_code == 304
    # Each format and style has its own ETag.
    assert get(tiny, "RGB_RAW", "image/webp", headers=headers).status_code == 200


def test_style_has_an_etag_of_its_own(rich: Client) -> None:
    etags = {
        get(rich, "tints", "image/jpeg", style).headers["ETag"] for style in ("ember", "normal")
    }
    assert len(etags) == 2


@pytest.mark.parametrize(
    ("layer", "media_type", "style", "locator"),
    [
        ("RGB_RAW", "image/avif", "normal", "Format"),
        ("RGB_RAW", "image/x-bil;bits=32", "normal", "Format"),
        ("RGB_RAW", "image/png", "unknown", "Style"),
    ],
)
def test_unknown_format_or_style_is_an_invalid_parameter(
    tiny: Client, fault: Fault, layer: str, media_type: str, style: str, locator: str
) -> None:
    found = fault(get(tiny, layer, media_type, style))
    assert found == (400, "InvalidParameterValue", [locator])
