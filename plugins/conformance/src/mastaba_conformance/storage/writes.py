"""Level *writes*: for drivers that also have the methods of `ObjectWriter`."""

from __future__ import annotations

from typing import Any

import pytest

from mastaba.api.storages import ByteRange, Storage
from mastaba_conformance.storage.kit import (
    DATA,
    StorageKit,
    check_read,
    check_stat,
    in_child,
    not_declared,
)


class WriteTests(StorageKit):
    level = "writes"

    @pytest.fixture
    def writable(self, storage: Storage) -> Any:
        """The storage, which also is an `ObjectWriter`."""
        if not self.can_write:
            not_declared("writes: can_write is not set")
        return storage

    def test_written_object_is_read(self, storage: Storage, writable: Any, prefix: str) -> None:
        for name, data in (("new", DATA), ("deep/er", b"\r\n\0"), ("nothing", b"")):
            writable.put(prefix + name, data)
            check_read(storage.read(prefix + name), data)
            check_stat(storage.stat(prefix + name), len(data))

    def test_written_object_replaces(self, storage: Storage, writable: Any, key: str) -> None:
        old = storage.read(key)
        writable.put(key, b"much shorter")
        new = storage.read(key)
        check_read(new, b"much shorter")
        assert not self.knows_versions or new.version != old.version
        check_read(storage.read(key, ByteRange(5, 99)), b"shorter")

    def test_deleted_object_is_absent(self, storage: Storage, writable: Any, key: str) -> None:
        assert storage.exists(key) is True
        writable.delete(key)
        assert storage.exists(key) is False

    def test_child_process_can_write(self, storage: Storage, writable: Any, key: str) -> None:
        writable.put(key, b"of the parent")
        in_child(self.child_limit, lambda: writable.put(key, b"of the child"))
        check_read(storage.read(key), b"of the child")
