"""Level *ranges*: single and several byte ranges, also beyond the end and in large objects."""

from __future__ import annotations

import random

import pytest

from mastaba.api.storages import ByteRange, Storage
from mastaba_conformance.storage.kit import DATA, ObjectWriter, StorageKit, check_read, check_stat

_WRAP = 1 << 24
_SIZE = _WRAP + 70_000


class RangeTests(StorageKit):
    level = "ranges"

    @pytest.mark.parametrize(
        ("offset", "length"),
        [(0, 1), (0, 2176), (5000, 300), (10_239, 1), (0, 10_240), (10_000, 240)],
    )
    def test_range(self, storage: Storage, key: str, offset: int, length: int) -> None:
        check_read(storage.read(key, ByteRange(offset, length)), DATA[offset : offset + length])

    @pytest.mark.parametrize(("offset", "length"), [(0, 1 << 20), (10_000, 500), (10_239, 2)])
    def test_range_past_the_end_is_truncated(
        self, storage: Storage, key: str, offset: int, length: int
    ) -> None:
        check_read(storage.read(key, ByteRange(offset, length)), DATA[offset:])

    @pytest.mark.parametrize(
        ("offset", "length"),
        [(10_240, 1), (20_000, 5), (0, 0), (77, 0), (10_240, 0), (2**31 + 5, 9), (2**32 + 5, 9)],
    )
    def test_range_without_bytes_is_empty(
        self, storage: Storage, key: str, offset: int, length: int
    ) -> None:
        check_read(storage.read(key, ByteRange(offset, length)), b"")

    def test_large_object(self, storage: Storage, writer: ObjectWriter, prefix: str) -> None:
        name = f"{prefix}large"
        data = random.Random(1).randbytes(_SIZE)  # noqa: S311 - test data
        writer.put(name, data)
        try:
            check_read(storage.read(name), data)
            check_stat(storage.stat(name), _SIZE)
            ranges = [
                ByteRange(_WRAP - 10, 20),
                ByteRange(_WRAP, 10),
                ByteRange(_WRAP + 60_000, 5),
                ByteRange(123_456, 5_000_000),
                ByteRange(_SIZE - 5, 500),
            ]
            reads = storage.read_ranges(name, ranges)
            for (offset, length), read in zip(ranges, reads, strict=True):
                check_read(read, data[offset : offset + length])
                check_read(
                    storage.read(name, ByteRange(offset, length)), data[offset : offset + length]
                )
        finally:
            writer.delete(name)

    @pytest.mark.parametrize(
        "ranges",
        [
            pytest.param([(9000, 5000), (0, 10), (5, 10), (0, 10)], id="unsorted"),
            pytest.param([(0, 10), (10, 10), (20, 10)], id="adjacent"),
            pytest.param([(0, 100), (50, 100), (60, 10)], id="overlapping"),
            pytest.param([(4, 0), (10_240, 7), (0, 3), (99_999, 1)], id="empty"),
            pytest.param([(7, 7)], id="single"),
            pytest.param([(number * 30, 20) for number in range(340)], id="many"),
        ],
    )
    def test_read_ranges_equals_single_reads(
        self, storage: Storage, key: str, ranges: list[tuple[int, int]]
    ) -> None:
        version = storage.read(key).version
        for required in (version, None):
            reads = storage.read_ranges(key, [ByteRange(*one) for one in ranges], required)
            assert isinstance(reads, list)
            assert len(reads) == len(ranges)
            for read, (offset, length) in zip(reads, ranges, strict=True):
                check_read(read, DATA[offset : offset + length])
                if offset < len(DATA):
                    assert read.version == version

    def test_no_ranges_are_no_reads(self, storage: Storage, key: str) -> None:
        assert storage.read_ranges(key, []) == []

    def test_ranges_may_be_in_any_sequence(self, storage: Storage, key: str) -> None:
        reads = storage.read_ranges(key, (ByteRange(1, 2), ByteRange(3, 4)))
        assert [read.data for read in reads] == [DATA[1:3], DATA[3:7]]
