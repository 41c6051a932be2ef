"""Tiles in picture formats other than the stored one."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from werkzeug.test import Client

from mastaba_conformance.tiny_installation import tiny_integer_tile


@pytest.mark.parametrize("extension", ["png", "jpg", "jpeg", "webp"])
@pytest.mark.parametrize("layer", ["FLOAT32_RAW", "RGB_RAW", "GREYA_ZIP"])
def test_extension_selects_the_format(tiny: Client, layer: str, extension: str) -> None:
    response = tiny.get(f"/tms/1.0.0/{layer}/3/4/2.{extension}")
    assert response.status_code == 200
    with Image.open(io.BytesIO(response.data)) as image:
        assert response.content_type == f"image/{str(image.format).lower()}"
        assert image.size == (256, 256)


def test_picture_has_the_pixels_of_the_row_that_is_stored(tiny: Client) -> None:
    response = tiny.get("/tms/1.0.0/RGB_RAW/3/4/2.png")
    shown = np.asarray(Image.open(io.BytesIO(response.data)).convert("RGB"))
    assert np.array_equal(shown, tiny_integer_tile(3)("3", 2, 4))


def test_parameter_selects_the_style(tiny: Client) -> None:
    addresses = ["2.jpg", "2.jpg?style=normal", "2.jpg?style=ember"]
    default, normal, ember = (tiny.get(f"/tms/1.0.0/GREY_PNG/3/4/{end}").data for end in addresses)
    assert default == normal != ember


@pytest.mark.parametrize("end", ["2.avif", "2.bil", "2.jpg?style=unknown"])
def test_unknown_extension_or_style_is_an_error(tiny: Client, end: str) -> None:
    response = tiny.get(f"/tms/1.0.0/GREY_PNG/3/4/{end}")
    assert response.status_code in (400, 404)
    assert b"TileMapServerError" in response.data
