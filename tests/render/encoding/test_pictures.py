"""PNG, JPEG and WebP."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from mastaba.errors import InvalidParameterError
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import WGS84
from mastaba_render.encoder import Raster
from mastaba_render.encoding.jpeg import JpegEncoder
from mastaba_render.encoding.png import PngEncoder
from mastaba_render.encoding.webp import WebpEncoder

MakeRaster = Callable[..., Raster]
OpenImage = Callable[[bytes], NDArray[Any]]

SIZES = [(1, 1), (1, 7), (7, 1), (333, 2), (2, 333), (64, 65), (700, 1000)]
MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
UINT8, FLOAT32 = np.dtype(np.uint8), np.dtype(np.float32)


def mean_error(one: NDArray[Any], other: NDArray[Any]) -> float:
    return float(np.abs(one.astype(float) - other.astype(float)).mean())


@pytest.mark.sampled
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_png_keeps_every_pixel(
    make_raster: MakeRaster, open_image: OpenImage, rows: int, columns: int, channels: int
) -> None:
    raster = make_raster(rows, columns, channels)
    data = PngEncoder().encode(raster, {})
    with Image.open(io.BytesIO(data)) as image:
        assert (image.format, image.mode) == ("PNG", MODES[channels])
    assert np.array_equal(open_image(data), raster.pixels)


def test_png_of_a_view_with_gaps_keeps_every_pixel(
    make_raster: MakeRaster, open_image: OpenImage
) -> None:
    whole = make_raster(40, 60, 4)
    part = whole.pixels[::2, 1::3, :3]
    data = PngEncoder().encode(Raster(part, whole.bbox, whole.crs), {})
    assert np.array_equal(open_image(data), part)


@pytest.mark.sampled
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_jpeg_looks_like_the_raster(
    make_raster: MakeRaster, open_image: OpenImage, rows: int, columns: int, channels: int
) -> None:
    raster = make_raster(rows, columns, channels)
    data = JpegEncoder().encode(raster, {"quality": "95"})
    with Image.open(io.BytesIO(data)) as image:
        assert (image.format, image.mode) == ("JPEG", MODES[channels])
    shown = open_image(data)
    assert shown.shape == raster.pixels.shape
    # Chroma is at half resolution, and noise in it is lost.
    assert mean_error(shown, raster.pixels) < (3 if channels == 1 else 16)


def test_jpeg_quality_changes_the_size(make_raster: MakeRaster) -> None:
    raster = make_raster(100, 100, 3)
    sizes = [
        len(JpegEncoder().encode(raster, {"quality": quality}))
        for quality in ("1", "30", "75", "100")
    ]
    assert sizes == sorted(set(sizes))


@pytest.mark.parametrize("quality", ["", "0", "101", "-5", "high", "7.5", "٣", "9" * 100_000])
def test_invalid_quality_falls_back_to_75(make_raster: MakeRaster, quality: str) -> None:
    raster = make_raster(50, 50, 3)
    expected = JpegEncoder().encode(raster, {"quality": "75"})
    assert JpegEncoder().encode(raster, {}) == expected
    assert JpegEncoder().encode(raster, {"quality": quality}) == expected


@pytest.mark.parametrize(("encoder", "columns"), [(JpegEncoder(), 65501), (WebpEncoder(), 16384)])
def test_picture_too_wide_for_its_format_is_refused(
    encoder: JpegEncoder | WebpEncoder, columns: int
) -> None:
    raster = Raster(np.zeros((1, columns, 3), np.uint8), BoundingBox(0, 0, 1, 1), WGS84)
    with pytest.raises(InvalidParameterError) as caught:
        encoder.encode(raster, {})
    assert caught.value.parameter == "FORMAT"


@pytest.mark.sampled
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_webp_looks_like_the_raster(
    make_raster: MakeRaster, open_image: OpenImage, rows: int, columns: int, channels: int
) -> None:
    raster = make_raster(rows, columns, channels)
    expected = raster.pixels.copy()
    if channels in (2, 4):
        expected[:, :, -1] = 255
        expected[rows // 2 :, :, -1] = 100
    data = WebpEncoder().encode(Raster(expected, raster.bbox, raster.crs), {"quality": "95"})
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "WEBP"
    shown = open_image(data)
    if channels < 3:
        grey = np.repeat(expected[:, :, :1], 3, axis=2)
        expected = np.concatenate([grey, expected[:, :, 1:]], axis=2)
    assert shown.shape == expected.shape
    assert mean_error(shown, expected) < 16
    if channels in (2, 4):
        assert np.array_equal(shown[:, :, -1], expected[:, :, -1])


def test_pictures_accept_bytes_only_in_the_channels_they_can_hold() -> None:
    accepted = {
        encoder.name: [n for n in range(1, 6) if encoder.accepts(UINT8, n)]
        for encoder in (PngEncoder(), JpegEncoder(), WebpEncoder())
    }
    assert accepted == {"png": [1, 2, 3, 4], "jpeg": [1, 3], "webp": [1, 2, 3, 4]}
    for encoder in (PngEncoder(), JpegEncoder(), WebpEncoder()):
        assert not encoder.accepts(FLOAT32, 1)
