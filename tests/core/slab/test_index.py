"""Reading the index of a slab (slab.md section 1)."""

from __future__ import annotations

import random
import struct

import pytest

from mastaba.errors import SlabFormatError
from mastaba.slab.index import MAX_TILE_SIZE, SlabIndex, index_length
from mastaba_storage.file import FileStorage
from mastaba_writer.slab_writer import build_slab


def make_index(data: bytes, tile_count: int) -> SlabIndex:
    return SlabIndex(data, tile_count, storage=FileStorage(), key="maps/00/00.tif")


def make_slab(offsets: list[int], sizes: list[int], magic: bytes = b"II*\0") -> bytes:
    count = len(offsets)
    return magic.ljust(2048, b"\0") + struct.pack(f"<{2 * count}I", *offsets, *sizes)


def test_index_contains_offset_and_size_of_every_tile() -> None:
    tiles = [b"a" * 5, b"b" * 16, None, b"d"]
    slab = build_slab(tiles, format="TIFF_PBF_MVT")
    index = make_index(slab[: index_length(4)], 4)

    for number, tile in enumerate(tiles):
        place = index.tile(number)
        if place is None:
            assert tile is None
        else:
            offset, size = place
            assert slab[offset : offset + size] == tile


def test_tiles_may_be_in_any_order() -> None:
    index = make_index(make_slab([9000, 2064], [7, 3]), 2)
    assert [index.tile(0), index.tile(1)] == [(9000, 7), (2064, 3)]


def test_tile_of_size_0_is_absent_regardless_of_its_offset() -> None:
    index = make_index(make_slab([0, 5000], [0, 0]), 2)
    assert [index.tile(0), index.tile(1)] == [None, None]


def test_index_of_tiles_in_order_takes_less_memory() -> None:
    tiles = [b"a" * 5, None, b"b" * 16, None]
    slab = build_slab(tiles, format="TIFF_PBF_MVT")
    in_order = make_index(slab, 4)
    shared = make_index(make_slab([2080] * 4, [5] * 4), 4)
    assert in_order.nbytes == 3 * 5
    assert shared.nbytes == 8 * 4

    assert [in_order.tile(number) is None for number in range(4)] == [False, True, False, True]
    assert [shared.tile(number) for number in range(4)] == [(2080, 5)] * 4


@pytest.mark.parametrize(("size", "width"), [(0x10000, 3), (0x120000, 4), (0x3FFFFF0, 4)])
def test_index_of_a_large_slab_contains_every_tile(size: int, width: int) -> None:
    places = [(2176 + number * size, size - number) for number in range(15)]
    offsets, sizes = zip(*places, strict=True)
    index = make_index(make_slab([*offsets, 0], [*sizes, 0]), 16)
    assert index.nbytes == width * 17
    assert index.tiles(range(16)) == [*places, None]


def test_index_in_less_memory_contains_every_tile() -> None:
    chooser = random.Random(1)
    for count in (2, 16, 256, 2000):
        lengths = [chooser.choice([0, 1, 15, 16, 17, 700]) for _ in range(count)]
        tiles = [b"x" * length or None for length in lengths]
        slab = build_slab(tiles, format="TIFF_PBF_MVT", tiles_per_width=count, tiles_per_height=1)
        index = make_index(slab, count)
        numbers = struct.unpack_from(f"<{2 * count}I", slab, 2048)
        stored = [
            (offset, size) if size else None
            for offset, size in zip(numbers[:count], numbers[count:], strict=True)
        ]
        assert index.tiles(range(count)) == stored


def test_damaged_size_does_not_hide_the_tiles_after_it() -> None:
    index = make_index(make_slab([2080, 2096, 2112], [5, 2**32 - 1, 7]), 3)
    assert (index.tile(0), index.tile(2)) == ((2080, 5), (2112, 7))
    with pytest.raises(SlabFormatError, match="tile 1"):
        index.tile(1)


def test_bytes_after_the_index_are_ignored() -> None:
    index = make_index(make_slab([2056], [3]) + b"xyz", 1)
    assert index.tile(0) == (2056, 3)


@pytest.mark.parametrize("length", [1, 3, 2047, 2048, index_length(4) - 1])
def test_truncated_index_is_an_error_that_names_the_slab(length: int) -> None:
    slab = build_slab([b"x"] * 4, format="TIFF_PBF_MVT")
    with pytest.raises(SlabFormatError, match=r"maps/00/00\.tif.*shorter"):
        make_index(slab[:length], 4)


@pytest.mark.parametrize("magic", [b"MM\0*", b"\x89PNG", b"\0\0\0\0", b"SYML"])
def test_other_data_is_an_error_that_names_the_slab(magic: bytes) -> None:
    with pytest.raises(SlabFormatError, match=r"maps/00/00\.tif"):
        make_index(make_slab([2056], [3], magic), 1)


@pytest.mark.parametrize("offset", [0, 1, 2047, 2048, 2048 + 8 * 2 - 1])
def test_tile_inside_header_or_index_is_an_error(offset: int) -> None:
    index = make_index(make_slab([offset, 2064], [1, 1]), 2)
    with pytest.raises(SlabFormatError, match=r"maps/00/00\.tif.*tile 0"):
        index.tile(0)
    assert index.tile(1) == (2064, 1)


@pytest.mark.parametrize("size", [MAX_TILE_SIZE + 1, 2**32 - 1])
def test_tile_that_is_too_large_is_an_error(size: int) -> None:
    index = make_index(make_slab([2056], [size]), 1)
    with pytest.raises(SlabFormatError, match="tile 0"):
        index.tile(0)


def test_tile_of_the_largest_size_is_accepted() -> None:
    assert make_index(make_slab([2056], [MAX_TILE_SIZE]), 1).tile(0) == (2056, MAX_TILE_SIZE)
