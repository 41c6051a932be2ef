import json
import struct
from pathlib import Path
from typing import Any

import pytest

from mastaba_writer.slab_writer import build_slab


@pytest.mark.shared_data
def test_rebuilt_real_slabs_are_equal_byte_for_byte(shared_data: Path) -> None:
    formats = set()
    for descriptor in sorted((shared_data / "alps/pyramids").glob("*.json")):
        pyramid = json.loads(descriptor.read_text())
        for level in pyramid["levels"]:
            folder = descriptor.parent / level["storage"]["image_directory"]
            for path in folder.rglob("*.tif"):
                _check(path.read_bytes(), pyramid, level)
                formats.add(pyramid["format"])
    assert len(formats) == 12


def _check(real: bytes, pyramid: dict[str, Any], level: dict[str, Any]) -> None:
    count = level["tiles_per_width"] * level["tiles_per_height"]
    index = struct.unpack_from(f"<{2 * count}I", real, 2048)
    tiles = [real[o : o + s] for o, s in zip(index[:count], index[count:], strict=True)]
    rebuilt = build_slab(
        tiles,
        format=pyramid["format"],
        channels=pyramid.get("raster_specifications", {}).get("channels", 0),
        tiles_per_width=level["tiles_per_width"],
        tiles_per_height=level["tiles_per_height"],
    )
    end = 2048 + 8 * count
    assert rebuilt[:end] == real[:end]  # the bytes between aligned tiles are undefined
    assert len(rebuilt) == len(real)


def test_payloads_are_aligned_and_absent_tiles_have_size_zero() -> None:
    slab = build_slab([b"12345", None, b"6", b""], format="TIFF_PBF_MVT")
    offsets, sizes = struct.unpack_from("<4I", slab, 2048), struct.unpack_from("<4I", slab, 2064)
    assert sizes == (5, 0, 1, 0)
    assert offsets == (2080, 2096, 2096, 2112)
    assert slab[2080:2085] + slab[2096:] == b"123456"


def test_header_of_a_single_tile_contains_its_offset_and_size() -> None:
    slab = build_slab(
        [b"x" * 99],
        format="TIFF_JPG_UINT8",
        tiles_per_width=1,
        tiles_per_height=1,
    )
    assert struct.unpack_from("<HHII", slab, 114) == (324, 4, 1, 2056)
    assert struct.unpack_from("<HHII", slab, 126) == (325, 4, 1, 99)
    assert struct.unpack_from("<II", slab, 2048) == (2056, 99)


@pytest.mark.parametrize(
    "arguments",
    [
        {"format": "TIFF_JPG_UINT8", "channels": 1},
        {"format": "TIFF_UNKNOWN"},
        {"format": "TIFF_PNG_UINT8", "tiles_per_width": 3},
    ],
)
def test_invalid_slabs_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        build_slab([b"a"] * 4, **arguments)
