"""Conversion of stored tiles to response bodies (slab.md section 4)."""

from __future__ import annotations

import io
import struct
import zlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mastaba.errors import SlabFormatError
from mastaba.model.format import TILE_FORMATS
from mastaba.model.style import Palette, PaletteEntry
from mastaba.slab.delivery import palette_delivery, tiff_delivery
from mastaba_writer.tile_encoder import encode_tile

Pixels = np.ndarray[Any, np.dtype[Any]]

WIDTH, HEIGHT = 64, 48
TIFF_FORMATS = [name for name, known in TILE_FORMATS.items() if known.needs_tiff_header]
TIFF_CASES = [(name, channels) for name in TIFF_FORMATS for channels in TILE_FORMATS[name].channels]


def make_pixels(channels: int, dtype: str) -> Pixels:
    values = np.arange(HEIGHT * WIDTH * channels).reshape(HEIGHT, WIDTH, channels)
    return (values % 251).astype(np.uint8) if dtype == "uint8" else (values / 3).astype(dtype)


def read_ifd(data: bytes) -> dict[int, tuple[int, int, bytes]]:
    """Return the type, count and four value bytes of each entry, by tag."""
    byte_order, magic, position = struct.unpack_from("<2sHI", data)
    assert (byte_order, magic) == (b"II", 42)
    (count,) = struct.unpack_from("<H", data, position)
    entries = {}
    for number in range(count):
        tag, kind, values, value = struct.unpack_from("<HHI4s", data, position + 2 + 12 * number)
        entries[tag] = kind, values, value
    assert list(entries) == sorted(entries)
    assert data[position + 2 + 12 * count :][:4] == bytes(4)
    return entries


@pytest.mark.parametrize(("name", "channels"), TIFF_CASES)
def test_tile_with_tiff_header_can_be_read_by_pillow(name: str, channels: int) -> None:
    tile_format = TILE_FORMATS[name]
    pixels = make_pixels(channels, str(tile_format.sample))
    payload = encode_tile(name, pixels)

    body = tiff_delivery(tile_format, channels, WIDTH, HEIGHT)(payload)

    assert body.endswith(payload)
    with Image.open(io.BytesIO(body)) as image:
        assert image.mode == {1: "F" if tile_format.sample == "float32" else "L"}.get(
            channels, {2: "LA", 3: "RGB", 4: "RGBA"}.get(channels)
        )
        read = np.asarray(image)
    np.testing.assert_array_equal(read.reshape(pixels.shape), pixels)


@pytest.mark.parametrize(("channels", "length"), [(1, 134), (2, 146), (3, 146), (4, 162)])
def test_tiff_header_has_the_length_and_fields_of_the_specification(
    channels: int, length: int
) -> None:
    payload = bytes(WIDTH * HEIGHT * channels)
    body = tiff_delivery(TILE_FORMATS["TIFF_RAW_UINT8"], channels, WIDTH, HEIGHT)(payload)

    assert len(body) == length + len(payload)
    assert struct.unpack_from("<I", body, 18) == (WIDTH,)
    assert struct.unpack_from("<I", body, 30) == (HEIGHT,)
    assert struct.unpack_from("<I", body, 102) == (HEIGHT,)
    assert struct.unpack_from("<I", body, 114) == (len(payload),)
    entries = read_ifd(body)
    assert entries[273] == (4, 1, struct.pack("<I", length))
    assert entries[258][1] == entries[339][1] == channels
    assert (338 in entries) == (channels in (2, 4))


@pytest.mark.parametrize(("channels", "bits", "sample_formats"), [(3, 134, 140), (4, 146, 154)])
def test_tiff_header_stores_the_values_of_many_channels_after_the_directory(
    channels: int, bits: int, sample_formats: int
) -> None:
    body = tiff_delivery(TILE_FORMATS["TIFF_ZIP_UINT8"], channels, WIDTH, HEIGHT)(b"payload")

    entries = read_ifd(body)
    assert entries[258][2] == struct.pack("<I", bits)
    assert entries[339][2] == struct.pack("<I", sample_formats)
    assert struct.unpack_from(f"<{channels}H", body, bits) == (8,) * channels
    assert struct.unpack_from(f"<{channels}H", body, sample_formats) == (1,) * channels


def make_palette(*entries: tuple[int, int, int, int, int], **flags: bool) -> Palette:
    return Palette(tuple(PaletteEntry(*entry) for entry in entries), **flags)


RAMP = make_palette(
    (0, 255, 0, 10, 255), (255, 0, 255, 10, 0), rgb_continuous=True, alpha_continuous=True
)


def read_chunks(png: bytes) -> list[tuple[bytes, bytes]]:
    """Return the type and content of each chunk; check all checksums."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, position = [], 8
    while position < len(png):
        (length,) = struct.unpack_from(">I", png, position)
        kind, content = png[position + 4 : position + 8], png[position + 8 : position + 8 + length]
        assert len(content) == length
        (check,) = struct.unpack_from(">I", png, position + 8 + length)
        assert check == zlib.crc32(kind + content)
        chunks.append((kind, content))
        position += 12 + length
    return chunks


@pytest.fixture
def grey_tile() -> bytes:
    return encode_tile("TIFF_PNG_UINT8", make_pixels(1, "uint8"))


def test_palette_is_inserted_before_the_pixels_with_valid_checksums(grey_tile: bytes) -> None:
    body = palette_delivery(RAMP)(grey_tile)

    assert len(body) == len(grey_tile) + 780 + 268
    chunks = read_chunks(body)
    assert [kind for kind, _ in chunks] == [b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"]
    assert dict(chunks)[b"IDAT"] == dict(read_chunks(grey_tile))[b"IDAT"]


def test_palette_without_alpha_adds_no_transparency(grey_tile: bytes) -> None:
    palette = make_palette((0, 1, 2, 3, 77), no_alpha=True)
    body = palette_delivery(palette)(grey_tile)

    assert len(body) == len(grey_tile) + 780
    assert [kind for kind, _ in read_chunks(body)] == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]


def test_palette_tile_shows_the_colour_of_each_grey_value(grey_tile: bytes) -> None:
    with Image.open(io.BytesIO(palette_delivery(RAMP)(grey_tile))) as image:
        assert image.mode == "P"
        shown = np.asarray(image.convert("RGBA"))

    wanted = np.array([RAMP.colour(value) for value in range(256)], np.uint8)
    np.testing.assert_array_equal(shown, wanted[make_pixels(1, "uint8")[..., 0]])


def test_alpha_of_minus_one_becomes_255_minus_the_index(grey_tile: bytes) -> None:
    palette = make_palette((0, 9, 9, 9, -1), (200, 9, 9, 9, 40))
    alphas = dict(read_chunks(palette_delivery(palette)(grey_tile)))[b"tRNS"]

    assert list(alphas) == [255 - k for k in range(200)] + [40] * 56


@pytest.mark.parametrize(
    "payload", [b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0" * 20, bytes(99)]
)
def test_inserting_a_palette_into_other_data_is_an_error(payload: bytes) -> None:
    with pytest.raises(SlabFormatError, match="PNG"):
        palette_delivery(RAMP)(payload)


@pytest.mark.parametrize(
    ("value", "colour"),
    [
        (-1e30, (10, 20, 30, 40)),
        (-0.001, (10, 20, 30, 40)),
        (0, (10, 20, 30, 40)),
        (5, (10, 20, 30, 40)),
        (9.999, (10, 20, 30, 40)),
        (10, (110, 120, 130, 140)),
        (1e30, (110, 120, 130, 140)),
    ],
)
def test_stepped_palette_keeps_the_colour_up_to_the_next_entry(
    value: float, colour: tuple[int, int, int, int]
) -> None:
    palette = make_palette((0, 10, 20, 30, 40), (10, 110, 120, 130, 140))
    assert palette.colour(value) == colour


@pytest.mark.parametrize(
    ("rgb", "alpha", "colour"),
    [
        (True, False, (35, 45, 55, 40)),
        (False, True, (10, 20, 30, 65)),
        (True, True, (35, 45, 55, 65)),
    ],
)
def test_continuous_palette_interpolates_only_the_selected_components(
    rgb: bool, alpha: bool, colour: tuple[int, int, int, int]
) -> None:
    palette = make_palette(
        (0, 10, 20, 30, 40),
        (10, 110, 120, 130, 140),
        rgb_continuous=rgb,
        alpha_continuous=alpha,
    )
    assert palette.colour(2.5) == colour


def test_constant_component_is_not_lowered_by_rounding_errors() -> None:
    values = [-99999.0, -0.1, 0.3, 7.7, 9001.0]
    palette = make_palette(
        *[(value, 255, 255, 255, 255) for value in values],  # type: ignore[arg-type]
        rgb_continuous=True,
        alpha_continuous=True,
    )
    for low, high in pairwise(values):
        for part in np.linspace(low, high, 97):
            assert palette.colour(float(part)) == (255, 255, 255, 255)
