"""The bytes of index packs (docs/storage/index-packs.md)."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mastaba_writer.index_packs import (
    IndexRecord,
    PackLayout,
    decode_record,
    encode_record,
    entry_of,
    is_pack,
    make_pack,
)
from mastaba_writer.slab_writer import build_slab

LAYOUT = PackLayout.of(16)

# The tests do not depend on the speed of the machine.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def index_of(sizes: list[int]) -> bytes:
    """Return the index of a slab that a writer made."""
    tiles = [bytes(size) or None for size in sizes]
    slab = build_slab(tiles, format="TIFF_PBF_MVT", tiles_per_width=4, tiles_per_height=4)
    return slab[2048 : 2048 + 8 * 16]


def places(index: bytes) -> list[tuple[int, int] | None]:
    """Return offset and size of the tiles that exist."""
    values = struct.unpack(f"<{len(index) // 4}I", index)
    half = len(values) // 2
    return [
        (offset, size) if size else None
        for offset, size in zip(values[:half], values[half:], strict=True)
    ]


@settings(unhurried, max_examples=20)
@given(sizes=st.lists(st.integers(0, 3000), min_size=16, max_size=16))
def test_the_index_of_a_written_slab_is_found_again(sizes: list[int]) -> None:
    index = index_of(sizes)
    data = encode_record(3, 5, IndexRecord("v", 1.5, index))
    assert data is not None
    record = decode_record(data, 3, 5, LAYOUT)
    assert record is not None
    assert places(record.index_bytes) == places(index)
    assert record._replace(index_bytes=b"") == IndexRecord("v", 1.5, b"")


@pytest.mark.thorough
@unhurried
@given(
    index=st.lists(st.integers(0, 2**32 - 1), min_size=32, max_size=32),
    texts=st.tuples(st.text(min_size=1, max_size=60), st.text(max_size=60), st.text(max_size=300)),
    modified=st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
def test_any_index_is_found_again(
    index: list[int], texts: tuple[str, str, str], modified: float | None
) -> None:
    version, link_version, target = texts
    written = struct.pack("<32I", *index)
    given_record = IndexRecord(version, modified, written, target, link_version)
    data = encode_record(0, 0, given_record)
    assert data is not None
    record = decode_record(data, 0, 0, LAYOUT)
    assert record is not None
    assert places(record.index_bytes) == places(written)
    assert record._replace(index_bytes=written) == given_record


@pytest.mark.parametrize("count", [1, 255, 256, 257, 1000, 65536])
def test_slabs_of_every_size(count: int) -> None:
    layout = PackLayout.of(count)
    for sizes in ([7 + 31 * number % 4096 for number in range(count)], [900] * count):
        at, offsets = 2048 + 8 * count, []
        for size in sizes:
            offsets.append(at)
            at = (at + size + 15) & ~15
        index = struct.pack(f"<{2 * count}I", *offsets, *sizes)
        data = encode_record(1, 2, IndexRecord("v", None, index))
        assert data is not None
        assert len(data) <= layout.max_record
        assert decode_record(data, 1, 2, layout) == IndexRecord("v", None, index)
    assert layout.side**2 * count <= 1 << 20 or layout.side == 1


def test_a_photograph_takes_less_than_a_quarter_of_its_index() -> None:
    # 256 tiles of 8 to 40 kB, as of JPEG tiles.
    sizes = [8000 + zlib.crc32(bytes([number])) % 32000 for number in range(256)]
    at, offsets = 2048 + 8 * 256, []
    for size in sizes:
        offsets.append(at)
        at = (at + size + 15) & ~15
    index = struct.pack("<512I", *offsets, *sizes)
    data = encode_record(0, 0, IndexRecord("d41d8cd98f00b204e9800998ecf8427e", 1.0, index))
    assert data is not None
    assert len(data) == 8 + 12 + 32 + 1 + 5 + 256 * 15 // 8


@unhurried
@given(data=st.data(), sizes=st.lists(st.integers(0, 90), min_size=16, max_size=16))
def test_a_damaged_record_is_absent(data: st.DataObject, sizes: list[int]) -> None:
    record = encode_record(3, 5, IndexRecord("version", 1.0, index_of(sizes)))
    assert record is not None
    place = data.draw(st.integers(0, len(record) - 1))
    bit = data.draw(st.integers(0, 7))
    damaged = bytearray(record)
    damaged[place] ^= 1 << bit
    assert decode_record(bytes(damaged), 3, 5, LAYOUT) is None
    assert decode_record(record[:place], 3, 5, LAYOUT) is None
    assert decode_record(record, 5, 3, LAYOUT) is None


@unhurried
@given(body=st.binary(max_size=200))
def test_bytes_with_a_right_checksum_but_without_sense_do_not_crash(body: bytes) -> None:
    checksum = zlib.crc32(body, zlib.crc32(struct.pack("<II", 3, 5)))
    record = decode_record(struct.pack("<II", len(body), checksum) + body, 3, 5, LAYOUT)
    assert record is None or len(record.index_bytes) == 8 * 16


@unhurried
@given(form=st.integers(0, 3), body=st.binary(max_size=200))
def test_an_index_without_sense_does_not_crash(form: int, body: bytes) -> None:
    body = struct.pack("<BBHd", 1, 0, 0, 1.0) + b"v" + bytes([form]) + body
    checksum = zlib.crc32(body, zlib.crc32(struct.pack("<II", 3, 5)))
    record = decode_record(struct.pack("<II", len(body), checksum) + body, 3, 5, LAYOUT)
    assert record is None or len(record.index_bytes) == 8 * 16


def test_an_index_that_inflates_without_end_is_absent() -> None:
    endless = zlib.compress(bytes(100_000_000), 1)
    for form in (1, 2):
        body = struct.pack("<BBHd", 1, 0, 0, 1.0) + b"v" + bytes([form]) + endless
        checksum = zlib.crc32(body, zlib.crc32(struct.pack("<II", 3, 5)))
        data = struct.pack("<II", len(body), checksum) + body
        assert decode_record(data, 3, 5, LAYOUT) is None


@unhurried
@given(data=st.binary(max_size=12))
def test_an_entry_leads_behind_the_directory(data: bytes) -> None:
    entry = entry_of(data, LAYOUT)
    assert entry is None or (entry[0] >= LAYOUT.start and entry[1] <= LAYOUT.max_record)


def test_the_bytes_of_a_pack_are_those_of_the_documentation() -> None:
    record = encode_record(65, 2, IndexRecord("ab", None, index_of([100] * 16)))
    assert record is not None
    pack = make_pack(LAYOUT, (1, 0), {(65, 2): record})
    assert pack[:40] == b"MASTABA\x1a" + struct.pack("<HHIII", 1, 64, 16, 1, 0) + bytes(16)
    assert pack[40:60] == bytes(20)
    assert pack[60:64] == struct.pack("<I", zlib.crc32(pack[:60]))
    slot = 2 * 64 + 1
    assert pack[64 : 64 + 8 * slot] == bytes(8 * slot)
    assert pack[64 + 8 * slot : 72 + 8 * slot] == struct.pack("<II", 32832, len(record))
    assert pack[32832:] == record
    body = struct.pack("<BBHQ", 2, 0, 0, 0x7FF8 << 48) + b"ab" + bytes([0, 0, 100, 0, 0, 0])
    checksum = zlib.crc32(body, zlib.crc32(struct.pack("<II", 65, 2)))
    assert record == struct.pack("<II", len(body), checksum) + body
    assert is_pack(pack, LAYOUT, (1, 0))
    assert not is_pack(pack, LAYOUT, (0, 1))
    assert not is_pack(pack[:32000], LAYOUT, (1, 0))
    assert not is_pack(pack, PackLayout.of(256), (1, 0))


def test_texts_that_do_not_fit_are_not_recorded() -> None:
    index = index_of([1] * 16)
    assert encode_record(0, 0, IndexRecord("", None, index)) is None
    assert encode_record(0, 0, IndexRecord("v" * 256, None, index)) is None
    assert encode_record(0, 0, IndexRecord("v", None, index, "t" * 65536, "v")) is None
    assert encode_record(0, 0, IndexRecord("v", None, index, "t", "v" * 256)) is None
