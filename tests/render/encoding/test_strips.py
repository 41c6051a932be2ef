"""Rasters in strips: the bytes do not depend on the strips, and no whole image is in memory."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from mastaba.errors import InvalidParameterError
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import WGS84
from mastaba_render.encoder import Encoder, Raster, StripRaster
from mastaba_render.encoding.asc import AscEncoder
from mastaba_render.encoding.bil import BilEncoder
from mastaba_render.encoding.geotiff import GeotiffEncoder
from mastaba_render.encoding.jpeg import JpegEncoder
from mastaba_render.encoding.png import PngEncoder
from mastaba_render.encoding.tiff import TiffEncoder
from mastaba_render.encoding.webp import WebpEncoder

MakeRaster = Callable[..., Raster]
GdalRead = Callable[[bytes, str], tuple[dict[str, Any], NDArray[Any]]]
Case = tuple[Encoder, Mapping[str, str], int, str]

CASES: dict[str, Case] = {
    "grey png": (PngEncoder(), {}, 1, "uint8"),
    "rgba png": (PngEncoder(), {}, 4, "uint8"),
    "grey jpeg": (JpegEncoder(), {}, 1, "uint8"),
    "jpeg": (JpegEncoder(), {"quality": "90"}, 3, "uint8"),
    "webp": (WebpEncoder(), {}, 3, "uint8"),
    "tiff": (TiffEncoder(), {}, 3, "uint8"),
    "lzw": (GeotiffEncoder(), {"compression": "lzw"}, 3, "uint8"),
    "packbits": (TiffEncoder(), {"compression": "packbits"}, 1, "uint8"),
    "deflate": (GeotiffEncoder(), {"compression": "deflate"}, 1, "float32"),
    "bil": (BilEncoder(), {}, 2, "float32"),
    "asc": (AscEncoder(), {}, 1, "float32"),
}


def in_strips(raster: Raster, heights: Iterator[int]) -> StripRaster:
    def strips() -> Iterator[NDArray[Any]]:
        start = 0
        while start < len(raster.pixels):
            height = next(heights)
            yield raster.pixels[start : start + height]
            start += height

    return replace(StripRaster.of(raster), strips=strips())


def odd_heights() -> Iterator[int]:
    while True:
        yield from (1, 37, 3, 211, 16)


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rows", [1, 40, 1500])
def test_bytes_do_not_depend_on_the_strips(make_raster: MakeRaster, case: str, rows: int) -> None:
    encoder, options, channels, dtype = CASES[case]
    raster = make_raster(rows, 701, channels, dtype, nodata=(0.0,) * channels)
    whole = encoder.encode(raster, options)
    for heights in (odd_heights(), iter([1] * rows)):
        pieces = list(encoder.encode_strips(in_strips(raster, heights), options))
        assert b"".join(pieces) == whole


@pytest.mark.parametrize("rows", [1, 4])
def test_encoder_of_whole_pictures_gets_one(make_raster: MakeRaster, rows: int) -> None:
    """Plugin encoders without strips continue to work."""

    class Plain(Encoder):
        def accepts(self, dtype: np.dtype[np.generic], channels: int) -> bool:
            return True

        def encode(self, raster: Raster, options: Mapping[str, str]) -> bytes:
            assert raster.pixels.flags.c_contiguous
            return raster.pixels.tobytes() + repr((raster.bbox, raster.nodata, options)).encode()

    raster = make_raster(rows, 5, 3, nodata=(1.0, 2.0, 3.0))
    expected = Plain().encode(raster, {"a": "b"})
    strips = in_strips(raster, iter([1] * rows))
    assert b"".join(Plain().encode_strips(strips, {"a": "b"})) == expected


def jpeg_pixels(data: bytes) -> NDArray[Any]:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image)


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    ("rows", "columns", "channels"),
    [
        (1500, 701, 3),
        (1500, 1601, 1),
        pytest.param(40, 65500, 3, marks=pytest.mark.thorough),
        (33, 65500, 1),
        pytest.param(4001, 512, 3, marks=pytest.mark.thorough),
    ],
)
def test_jpeg_of_many_blocks_is_that_of_one(
    make_raster: MakeRaster,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    columns: int,
    channels: int,
) -> None:
    """Restart markers change no pixel; their numbers begin again after the eighth."""
    raster = make_raster(rows, columns, channels)
    monkeypatch.setattr("mastaba_render.encoding.jpeg._BLOCK", 1 << 16)
    parts = JpegEncoder().encode(raster, {})
    monkeypatch.setattr("mastaba_render.encoding.jpeg._BLOCK", 1 << 40)
    monkeypatch.setattr("mastaba_render.encoding.jpeg._LONGEST_INTERVAL", 1 << 40)
    whole = JpegEncoder().encode(raster, {})
    assert parts.count(b"\xff\xdd") == 1
    assert b"\xff\xdd" not in whole
    assert np.array_equal(jpeg_pixels(parts), jpeg_pixels(whole))


@pytest.mark.live
def test_gdal_reads_a_jpeg_of_many_blocks(make_raster: MakeRaster, gdal_read: GdalRead) -> None:
    raster = make_raster(3001, 1203, 3)
    data = JpegEncoder().encode(raster, {})
    assert b"\xff\xdd" in data
    info, pixels = gdal_read(data, "jpg")
    assert not info["complaints"]
    assert np.array_equal(pixels, jpeg_pixels(data))


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.thorough) if case in ("asc", "lzw") else case
        for case in CASES
        if case != "webp"
    ],
)
def test_memory_is_that_of_a_few_rows(case: str) -> None:
    encoder, options, channels, dtype = CASES[case]
    shape = (6000, 2000, channels)
    strip = np.random.default_rng(1).integers(0, 256, (100, *shape[1:])).astype(dtype)

    def raster(strips: int) -> StripRaster:
        parts = (strip + np.dtype(dtype).type(0) for _ in range(strips))
        box = BoundingBox(0, 0, 1, 3)
        size = (100 * strips, *shape[1:])
        return StripRaster(size, np.dtype(dtype), box, WGS84, None, parts)

    # What the first raster imports and caches is not counted.
    for piece in encoder.encode_strips(raster(2), options):
        assert piece
    tracemalloc.start()
    try:
        for piece in encoder.encode_strips(raster(60), options):
            assert piece
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < encoder.memory(shape, np.dtype(dtype)) <= 16 * 1024**2


@pytest.mark.parametrize("encoder", [JpegEncoder(), WebpEncoder(), TiffEncoder()])
def test_what_is_too_large_is_refused_before_it_is_drawn(encoder: Encoder) -> None:
    def strips() -> Iterator[NDArray[Any]]:
        raise AssertionError("drawn")
        yield

    shape = (70_000, 70_000, 3)
    box = BoundingBox(0, 0, 1, 1)
    raster = StripRaster(shape, np.dtype(np.uint8), box, WGS84, None, strips())
    with pytest.raises(InvalidParameterError) as caught:
        next(iter(encoder.encode_strips(raster, {})))
    assert caught.value.parameter == "FORMAT"


def test_ascii_grid_writes_what_is_no_number() -> None:
    pixels = np.array([[[1.5], [np.nan]]], np.float32)
    raster = Raster(pixels, BoundingBox(0, 0, 2, 1), WGS84, (np.nan,))
    assert AscEncoder().encode(raster, {}).endswith(b"NODATA_value nan\n1.5 nan\n")
