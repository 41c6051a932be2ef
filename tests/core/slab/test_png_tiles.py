"""PNG tiles that other writers make, and streams that hold more than a tile."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from mastaba.errors import SlabFormatError
from mastaba.model.format import TILE_FORMATS
from mastaba_render.codecs import TileDecoder
from mastaba_writer.tile_encoder import encode_tile

WIDTH, HEIGHT = 17, 10
COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}

Pixels = npt.NDArray[Any]


def decoder(channels: int, name: str = "TIFF_PNG_UINT8") -> TileDecoder:
    return TileDecoder(TILE_FORMATS[name], channels, WIDTH, HEIGHT)


def noise(channels: int) -> Pixels:
    return np.random.default_rng(channels).integers(0, 256, (HEIGHT, WIDTH, channels), np.uint8)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(channels: int, rows: bytes, *before_data: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, COLOUR_TYPES[channels], 0, 0, 0)
    parts = (chunk(b"IHDR", header), *before_data, chunk(b"IDAT", zlib.compress(rows)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IEND", b"")


def filtered(pixels: Pixels, kind: int) -> bytes:
    """Return rows with a filter (PNG, third edition, clause 9.2)."""
    current = np.zeros((HEIGHT + 1, WIDTH + 1, pixels.shape[2]), np.int16)
    current[1:, 1:] = pixels
    left, above, corner = current[1:, :-1], current[:-1, 1:], current[:-1, :-1]
    estimate = left + above - corner
    distances = np.abs(np.stack([estimate - left, estimate - above, estimate - corner]))
    nearest = np.argmin(distances, axis=0)
    predicted = [
        np.zeros_like(left),
        left,
        above,
        (left + above) // 2,
        np.choose(nearest, [left, above, corner]),
    ][kind]
    rows = ((current[1:, 1:] - predicted) & 255).astype(np.uint8).reshape(HEIGHT, -1)
    return b"".join(bytes([kind]) + row.tobytes() for row in rows)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", range(5), ids=["none", "sub", "up", "average", "paeth"])
def test_row_filters(channels: int, kind: int) -> None:
    pixels = noise(channels)
    payload = png(channels, filtered(pixels, kind))
    assert np.array_equal(decoder(channels).decode(payload), pixels)


def test_one_row_with_a_filter_is_enough() -> None:
    pixels = noise(3)
    stride = 1 + WIDTH * 3
    plain, up = filtered(pixels, 0), filtered(pixels, 2)
    payload = png(3, plain[: -2 * stride] + up[-2 * stride : -stride] + plain[-stride:])
    assert np.array_equal(decoder(3).decode(payload), pixels)


@pytest.mark.parametrize("channels", [1, 3])
def test_transparent_colour_keeps_the_stored_samples(channels: int) -> None:
    """The chunk tRNS adds no channel to a pyramid that has none for it."""
    pixels = noise(channels)
    transparent = chunk(b"tRNS", b"".join(bytes([0, value]) for value in pixels[3, 4]))
    payload = png(channels, filtered(pixels, 0), transparent)
    assert np.array_equal(decoder(channels).decode(payload), pixels)


@pytest.mark.parametrize(("stored", "channels"), [(1, 2), (3, 4)])
def test_transparent_colour_becomes_alpha(stored: int, channels: int) -> None:
    pixels = noise(stored)
    transparent = chunk(b"tRNS", b"".join(bytes([0, value]) for value in pixels[3, 4]))
    found = decoder(channels).decode(png(stored, filtered(pixels, 0), transparent))
    is_transparent = (pixels == pixels[3, 4]).all(axis=2)
    assert np.array_equal(found[:, :, :stored], pixels)
    assert np.array_equal(found[:, :, -1], np.where(is_transparent, 0, 255))


def test_transparent_entries_of_a_palette_become_alpha() -> None:
    indices = noise(1)[:, :, 0] % 4
    image = Image.fromarray(indices).convert("P")
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120])
    encoded = io.BytesIO()
    image.save(encoded, "PNG", transparency=bytes([0, 128, 255, 255]))
    found = decoder(4).decode(encoded.getvalue())
    colours = np.array(
        [(10, 20, 30, 0), (40, 50, 60, 128), (70, 80, 90, 255), (100, 110, 120, 255)], np.uint8
    )
    assert np.array_equal(found, colours[indices])


@pytest.mark.parametrize("extra", [1, WIDTH, 100_000])
def test_stream_with_more_than_a_tile_is_damaged(extra: int) -> None:
    pixels = noise(3)
    with pytest.raises(SlabFormatError):
        decoder(3).decode(png(3, filtered(pixels, 0) + bytes(extra)))
    samples = zlib.decompress(encode_tile("TIFF_ZIP_UINT8", pixels))
    with pytest.raises(SlabFormatError):
        decoder(3, "TIFF_ZIP_UINT8").decode(zlib.compress(samples + bytes(extra)))


@pytest.mark.parametrize("missing", [4, 12])
def test_tile_without_its_end_is_decoded(missing: int) -> None:
    pixels = noise(3)
    rows = np.concatenate([np.zeros((HEIGHT, 1), np.uint8), pixels.reshape(HEIGHT, -1)], axis=1)
    tile = png(3, rows.tobytes())
    np.testing.assert_array_equal(decoder(3).decode(tile[:-missing]), pixels)
