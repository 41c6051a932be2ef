"""Level *versions*: a read of a version never returns bytes of another one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest

from mastaba.api.storages import ByteRange, Storage
from mastaba.errors import ObjectChangedError, ObjectNotFoundError
from mastaba_conformance.storage.kit import (
    DATA,
    ObjectWriter,
    StorageKit,
    check_read,
    not_declared,
)

_OTHER = DATA[::-1]
_TICK = 0.05
"""Seconds; stores may give objects that are written in the same instant the same version."""


class VersionTests(StorageKit):
    level = "versions"

    @pytest.fixture
    def version(self, storage: Storage, key: str) -> str:
        """Version of the object `key`."""
        if not self.knows_versions:
            not_declared("versions: knows_versions is not set")
        version = storage.read(key, ByteRange(0, 10)).version
        assert version is not None, "knows_versions is set, but the version is None"
        time.sleep(_TICK)
        return version

    def test_version_is_stable_until_the_object_changes(self, storage: Storage, key: str) -> None:
        version = storage.read(key).version
        assert (version is not None) == self.knows_versions
        again = storage.read(key, ByteRange(3, 4), version)
        check_read(again, DATA[3:7])
        assert again.version == version
        assert storage.read(key, None, version).version == version
        assert storage.read_ranges(key, [ByteRange(0, 5)], version)[0].version == version
        assert storage.stat(key).version == version

    def test_replaced_object_is_not_read_as_the_old_version(
        self, storage: Storage, writer: ObjectWriter, key: str, version: str
    ) -> None:
        writer.put(key, _OTHER)
        # A driver may still have the old version open; it must not return bytes of the new one.
        with contextlib.suppress(ObjectChangedError):
            assert storage.read(key, ByteRange(20, 10), version).data == DATA[20:30]
        with contextlib.suppress(ObjectChangedError):
            reads = storage.read_ranges(key, [ByteRange(20, 10), ByteRange(0, 9)], version)
            assert [read.data for read in reads] == [DATA[20:30], DATA[:9]]
        new = storage.read(key, ByteRange(0, 10))
        assert new.version != version
        check_read(new, _OTHER[:10])
        check_read(storage.read(key, ByteRange(20, 10), new.version), _OTHER[20:30])
        with pytest.raises(ObjectChangedError) as caught:
            storage.read(key, ByteRange(20, 10), version)
        assert caught.value.key == key
        assert caught.value.storage == storage.full_name

    def test_new_version_of_equal_size_is_noticed(
        self, storage: Storage, writer: ObjectWriter, key: str, version: str
    ) -> None:
        writer.put(key, _OTHER)
        facts = storage.stat(key)
        assert facts.version is not None
        assert facts.version != version, "the bytes have changed, but the version has not"
        # This version has not been read yet, but the old one has.
        check_read(storage.read(key, ByteRange(1, 9), facts.version), _OTHER[1:10])
        assert storage.read(key).version == facts.version
        assert storage.read_ranges(key, [ByteRange(0, 9)])[0].version == facts.version

    def test_object_written_again_has_its_own_bytes(
        self, storage: Storage, writer: ObjectWriter, key: str, version: str
    ) -> None:
        storage.stat(key)
        writer.delete(key)
        time.sleep(_TICK)
        writer.put(key, _OTHER)
        with contextlib.suppress(ObjectChangedError, ObjectNotFoundError):
            assert storage.read(key, ByteRange(20, 10), version).data == DATA[20:30]
        check_read(storage.read(key), _OTHER)
        assert storage.stat(key).version != version

    @pytest.mark.parametrize("other", ["no such version", "0", "", "*"])
    def test_other_versions_are_refused(
        self, storage: Storage, key: str, version: str, other: str
    ) -> None:
        if other == version:
            other += "0"
        calls: dict[str, Callable[[], object]] = {
            "range": lambda: storage.read(key, ByteRange(20, 10), other),
            "whole": lambda: storage.read(key, None, other),
            "empty range": lambda: storage.read(key, ByteRange(5, 0), other),
            "ranges": lambda: storage.read_ranges(key, [ByteRange(0, 5), ByteRange(9, 5)], other),
        }
        for name, call in calls.items():
            with pytest.raises(ObjectChangedError) as caught:
                call()
            assert caught.value.key == key, name
