"""Invalid payloads: each is reported as a damaged slab, never as an error of a library."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from mastaba.errors import SlabFormatError
from mastaba.model.format import TILE_FORMATS
from mastaba_render.codecs import TileDecoder
from mastaba_writer.tile_encoder import encode_tile

SIDE = 16
RASTER = sorted(name for name, found in TILE_FORMATS.items() if not found.is_vector)


def decoder(name: str) -> TileDecoder:
    return TileDecoder(TILE_FORMATS[name], TILE_FORMATS[name].channels[-1], SIDE, SIDE)


@pytest.mark.parametrize("name", RASTER)
@pytest.mark.parametrize("payload", [b"", b"\0", b"<html></html>", bytes(40), b"\xff" * 40])
def test_invalid_bytes(name: str, payload: bytes) -> None:
    with pytest.raises(SlabFormatError):
        decoder(name).decode(payload)


@pytest.mark.parametrize("name", [name for name in RASTER if "ZIP" in name or "PNG" in name])
def test_truncated_compressed_tile(name: str) -> None:
    tile_format = TILE_FORMATS[name]
    shape = (SIDE, SIDE, tile_format.channels[-1])
    noise = np.random.default_rng(1).integers(0, 256, shape)
    payload = encode_tile(name, noise.astype(tile_format.sample))
    with pytest.raises(SlabFormatError):
        decoder(name).decode(payload[: len(payload) // 2])


def test_a_png_with_a_huge_declared_size() -> None:
    ihdr = struct.pack(">4sIIBBBBB", b"IHDR", 2**30, 2**30, 8, 6, 0, 0, 0)
    payload = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + ihdr
    payload += struct.pack(">I", zlib.crc32(ihdr)) + bytes(64)
    with pytest.raises(SlabFormatError):
        decoder("TIFF_PNG_UINT8").decode(payload)


@pytest.mark.parametrize("name", [name for name in RASTER if "JPG" in name])
def test_a_jpeg_of_another_size_is_not_decoded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    payload = encode_tile(name, np.zeros((SIDE, SIDE, 3), np.uint8))
    frame = payload.index(b"\xff\xc0") + 5
    huge = payload[:frame] + struct.pack(">HH", 65500, 65500) + payload[frame + 4 :]

    def decode_jpeg(*_arguments: object, **_options: object) -> None:
        raise MemoryError

    monkeypatch.setattr("simplejpeg.decode_jpeg", decode_jpeg)
    with pytest.raises(SlabFormatError):
        decoder(name).decode(huge)
