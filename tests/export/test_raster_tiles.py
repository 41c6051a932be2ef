"""Compressed tiles of rasters are compared by their values."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from mastaba_coverage import TileCodec, offered_compressions
from mastaba_export.errors import DamagedArchiveError
from mastaba_export.raster_tiles import check_tile

_CASES = [
    (name, dtype, channels)
    for name in ("none", "deflate", "lzw", "packbits", "zstd", "lerc", "jpeg", "webp")
    for dtype, channels in (("<f4", 1), ("u1", 1), ("u1", 3), ("u1", 4))
    if not (name == "jpeg" and (dtype, channels) not in (("u1", 1), ("u1", 3)))
    and not (name == "webp" and channels < 3)
]


@pytest.mark.parametrize(("name", "dtype", "channels"), _CASES)
def test_tiles_contain_what_was_compressed(name: str, dtype: str, channels: int) -> None:
    if name not in offered_compressions():
        pytest.skip(f"{name} needs imagecodecs")
    chance = np.random.default_rng(3)
    pixels: np.ndarray[Any, Any] = chance.integers(0, 255, (64, 80, channels)).astype(dtype)
    pixels[:32] = 7
    if dtype == "<f4":
        pixels[40, 5:8, 0] = np.nan, -0.0, 1e-42
    codec = TileCodec.of(name, None, pixels.dtype, channels)
    tile = codec.encode(pixels)
    check_tile(tile, pixels, codec)
    other = pixels.copy()
    other[8 if name != "jpeg" else slice(0, 8), :, 0] = 200
    for wrong in (codec.encode(other), tile[:20], b"", b"\xff" * 400):
        with pytest.raises(DamagedArchiveError):
            check_tile(wrong, pixels, codec)


def test_another_compression_of_the_same_values_is_right() -> None:
    pixels = np.tile(np.arange(80, dtype="<f4"), (64, 1))[:, :, np.newaxis]
    codec = TileCodec.of("deflate", "floating-point", pixels.dtype, 1)
    other = codec.encode(pixels)
    again = zlib.compress(zlib.decompress(other), 9)
    assert again != other
    check_tile(again, pixels, codec)
