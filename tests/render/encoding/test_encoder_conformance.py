"""The conformance tests of encoders, with those of the core."""

from __future__ import annotations

from importlib.util import find_spec
from typing import ClassVar

import pytest

from mastaba_conformance.encoders import EncoderTests
from mastaba_render.encoding.asc import AscEncoder
from mastaba_render.encoding.bil import BilEncoder
from mastaba_render.encoding.geotiff import GeotiffEncoder
from mastaba_render.encoding.jpeg import JpegEncoder
from mastaba_render.encoding.png import PngEncoder
from mastaba_render.encoding.tiff import TiffEncoder
from mastaba_render.encoding.webp import WebpEncoder


class TestPng(EncoderTests):
    encoder_class = PngEncoder
    signature = b"\x89PNG\r\n\x1a\n"
    tolerance = 0


class TestJpeg(EncoderTests):
    encoder_class = JpegEncoder
    signature = b"\xff\xd8\xff"
    tolerance = 4
    options: ClassVar = {"quality": ("1", "75", "100")}
    too_large = (1, 65501)


@pytest.mark.skipif(find_spec("PIL._webp") is None, reason="Pillow was built without WebP")
class TestWebp(EncoderTests):
    encoder_class = WebpEncoder
    signature = b"RIFF"
    tolerance = 4
    decoded_channels: ClassVar = {1: 3, 2: 4}
    options: ClassVar = {"quality": ("1", "75", "100")}
    too_large = (1, 16384)


class TestTiff(EncoderTests):
    encoder_class = TiffEncoder
    signature = b"II*\0"
    options: ClassVar = {"compression": ("raw", "lzw", "deflate", "packbits", "LZW")}
    refused_options: ClassVar = {"compression": ("jpeg", "")}


class TestGeotiff(TestTiff):
    encoder_class = GeotiffEncoder


class TestBil(EncoderTests):
    encoder_class = BilEncoder


class TestAsc(EncoderTests):
    encoder_class = AscEncoder
    signature = b"ncols "
