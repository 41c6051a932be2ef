import numpy as np

from mastaba.api.catalogue import CRS, BoundingBox
from mastaba_avif.encoder import AvifEncoder
from mastaba_conformance.encoders import EncoderTests
from mastaba_render.api.encoders import Raster


class TestAvifEncoder(EncoderTests):
    encoder_class = AvifEncoder
    tolerance = 3
    decoded_channels = {1: 3, 2: 4}
    options = {"quality": ("1", "80", "100")}
    refused_options = {"quality": ("0", "101", "x", "")}
    too_large = (1, 65537)


def test_settings_are_used():
    pixels = np.random.default_rng(1).integers(0, 255, (64, 64, 3), np.uint8)
    raster = Raster(pixels, BoundingBox(0, 0, 64, 64), CRS.from_code("EPSG:3857"))
    usual, small = AvifEncoder(), AvifEncoder()
    small.settings = {"quality": 10}
    assert len(small.encode(raster, {})) < len(usual.encode(raster, {}))
    assert small.encode(raster, {"quality": "75"}) == usual.encode(raster, {})
    assert usual.encode(raster, {})[4:12] == b"ftypavif"
