"""The header of slabs, as tools read it without a descriptor."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from mastaba.errors import SlabFormatError
from mastaba_doctor.header import COMPRESSIONS, PHOTOMETRICS, SlabHeader
from mastaba_writer.slab_writer import build_slab, encode_tile

SIDE = 16


def slab(name: str, channels: int) -> bytes:
    kind = np.float32 if "FLOAT32" in name else np.uint8
    tile = encode_tile(name, np.full((SIDE, SIDE, channels), 7, kind))
    return build_slab(
        [tile] * 8,
        format=name,
        channels=channels,
        tile_width=SIDE,
        tile_height=SIDE,
        tiles_per_width=4,
    )


@pytest.mark.parametrize(
    ("name", "channels", "compression", "photometric", "tile_bytes"),
    [
        ("TIFF_RAW_UINT8", 1, "none", "grey", SIDE * SIDE),
        ("TIFF_RAW_UINT8", 3, "none", "RGB", SIDE * SIDE * 3),
        ("TIFF_RAW_FLOAT32", 1, "none", "grey", SIDE * SIDE * 4),
        ("TIFF_ZIP_UINT8", 4, "deflate", "RGB", SIDE * SIDE * 4),
        ("TIFF_LZW_UINT8", 2, "LZW", "grey", SIDE * SIDE * 2),
        ("TIFF_PKB_UINT8", 3, "PackBits", "RGB", SIDE * SIDE * 3),
        ("TIFF_JPG_UINT8", 3, "JPEG", "YCbCr", SIDE * SIDE * 3),
    ],
)
def test_header_describes_the_tiles(
    name: str, channels: int, compression: str, photometric: str, tile_bytes: int
) -> None:
    header = SlabHeader.parse(slab(name, channels))
    assert (header.tile_count, header.tile_width, header.tile_height) == (8, SIDE, SIDE)
    assert (header.channels, header.sample_format) == (channels, 3 if "FLOAT" in name else 1)
    assert COMPRESSIONS[header.compression or 0] == compression
    assert PHOTOMETRICS[header.photometric or 0] == photometric
    assert header.tile_bytes == tile_bytes
    assert header.contradictions() == []


def test_tiles_per_row_and_column() -> None:
    header = SlabHeader(8, width=64, height=32, tile_width=16, tile_height=16)
    assert (header.tiles_per_width, header.tiles_per_height) == (4, 2)
    empty = SlabHeader(8)
    assert (empty.tiles_per_width, empty.tiles_per_height, empty.tile_bytes) == (None, None, None)


@pytest.mark.parametrize(
    ("width", "height", "problem"),
    [
        (60, 32, "60 × 32 pixels are not whole tiles of 16 × 16"),
        (64, 30, "64 × 30 pixels are not whole tiles of 16 × 16"),
        (64, 64, "64 × 64 pixels are not 8 tiles of 16 × 16"),
        (64, None, "the size of the slab or of its tiles is missing"),
    ],
)
def test_contradictions(width: int, height: int | None, problem: str) -> None:
    header = SlabHeader(8, width=width, height=height, tile_width=16, tile_height=16, compression=1)
    assert header.contradictions() == [problem]


def test_unused_compression_is_a_contradiction() -> None:
    assert SlabHeader(1, compression=2).contradictions()[0] == (
        "the compression 2 is not used in slabs"
    )


@pytest.mark.parametrize(
    ("position", "form", "value", "problem"),
    [
        (0, "4s", b"MM\0*", "slabs are classic little-endian TIFF"),
        (0, "4s", b"\x89PNG", "it begins with 89 50 4e 47 instead of 49 49 2a 00"),
        (4, "<I", 5000, "its directory is at 5000, outside the header"),
        (None, "<H", 900, "its directory has 900 entries, too many for the header"),
    ],
)
def test_what_is_not_a_header_is_refused(
    position: int | None, form: str, value: object, problem: str
) -> None:
    data = bytearray(slab("TIFF_RAW_UINT8", 3))
    if position is None:
        (position,) = struct.unpack_from("<I", data, 4)
    struct.pack_into(form, data, position, value)
    with pytest.raises(SlabFormatError, match=problem):
        SlabHeader.parse(bytes(data))


def test_truncated_header_is_refused() -> None:
    with pytest.raises(SlabFormatError, match="it has 2047 bytes, a header alone has 2048"):
        SlabHeader.parse(slab("TIFF_RAW_UINT8", 3)[:2047])
