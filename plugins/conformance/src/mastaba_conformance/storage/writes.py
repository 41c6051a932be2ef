"""Level *writes*: for drivers that name a `WritableStorage`, with which pyramids are built."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from mastaba.api.storages import ByteRange, Storage
from mastaba.api.writable_storages import WritableStorage
from mastaba_conformance.storage.kit import (
    DATA,
    StorageKit,
    check_read,
    check_stat,
    in_child,
    not_declared,
)

_RACERS = 8
_PART = 5 * 1024 * 1024


class WriteTests(StorageKit):
    level = "writes"

    def test_the_driver_names_its_writer(self, storage: Storage, writable: WritableStorage) -> None:
        assert storage.writer is not None, "the class attribute writer names the class that writes"
        module, _, name = storage.writer.partition(":")
        assert isinstance(writable, getattr(importlib.import_module(module), name))
        assert writable.full_name == storage.full_name

    def test_written_object_is_read(
        self, storage: Storage, writable: WritableStorage, prefix: str
    ) -> None:
        for name, data in (("new", DATA), ("deep/er", b"\r\n\0"), ("nothing", b"")):
            version = writable.write(prefix + name, data)
            check_read(storage.read(prefix + name), data)
            facts = storage.stat(prefix + name)
            check_stat(facts, len(data))
            assert version is None or version == facts.version, "write returns another version"
            check_read(writable.read(prefix + name), data)

    def test_written_object_replaces(
        self, storage: Storage, writable: WritableStorage, key: str
    ) -> None:
        old = storage.read(key)
        writable.write(key, b"much shorter")
        new = storage.read(key)
        check_read(new, b"much shorter")
        assert not self.knows_versions or new.version != old.version
        check_read(storage.read(key, ByteRange(5, 99)), b"shorter")

    def test_existing_object_is_not_replaced_if_unwanted(
        self, storage: Storage, writable: WritableStorage, key: str, prefix: str
    ) -> None:
        self._require_exclusive_creation()
        with pytest.raises(FileExistsError):
            writable.write(key, b"another one", only_if_absent=True)
        check_read(storage.read(key), DATA)
        writable.delete(f"{prefix}first")
        writable.write(f"{prefix}first", b"the first one", only_if_absent=True)
        check_read(storage.read(f"{prefix}first"), b"the first one")

    def test_one_of_many_creates_an_object(
        self, storage: Storage, writable: WritableStorage, prefix: str
    ) -> None:
        self._require_exclusive_creation()

        def create(number: int) -> int | None:
            try:
                writable.write(f"{prefix}race", b"%d" % number, only_if_absent=True)
            except FileExistsError:
                return None
            return number

        for _ in range(3):
            writable.delete(f"{prefix}race")
            with ThreadPoolExecutor(_RACERS) as threads:
                created = [
                    number for number in threads.map(create, range(_RACERS)) if number is not None
                ]
            assert len(created) == 1, f"{len(created)} of {_RACERS} threads created one object"
            check_read(storage.read(f"{prefix}race"), b"%d" % created[0])

    def test_deleted_object_is_absent(
        self, storage: Storage, writable: WritableStorage, key: str
    ) -> None:
        assert storage.exists(key) is True
        writable.delete(key)
        assert storage.exists(key) is False
        writable.delete(key)

    def test_objects_are_listed_by_prefix(
        self, storage: Storage, writable: WritableStorage, prefix: str
    ) -> None:
        names = [f"{prefix}list/a{number}" for number in range(3)] + [f"{prefix}list/deep/a"]
        for name in [*names, f"{prefix}lisp", f"{prefix}lists/a"]:
            writable.write(name, b"x")
        assert sorted(writable.list(f"{prefix}list/")) == names
        assert sorted(writable.list(f"{prefix}list/a")) == names[:3]
        assert list(writable.list(f"{prefix}none/")) == []
        writable.delete(names[0])
        assert sorted(writable.list(f"{prefix}list/a")) == names[1:3]

    def test_listed_versions_are_those_of_the_objects(
        self, storage: Storage, writable: WritableStorage, prefix: str
    ) -> None:
        name = f"{prefix}versions"
        for data in (b"x", b"y"):
            writable.write(name, data)
            ((key, version),) = writable.list_versions(name)
            assert key == name
            assert version in (None, storage.stat(name).version)

    def test_object_in_parts_is_complete_or_absent(
        self, storage: Storage, writable: WritableStorage, prefix: str
    ) -> None:
        if not writable.most_parts:
            not_declared("most_parts is 0")
        name, parts = f"{prefix}parts", [b"1" * _PART, b"2" * _PART, b"3"]
        writable.delete(name)
        abandoned, upload = writable.begin_parts(name), writable.begin_parts(name)
        writable.write_part(name, abandoned, 1, b"4" * _PART)
        # In any order, and the first one twice.
        tags = {3: writable.write_part(name, upload, 3, parts[2])}
        writable.write_part(name, upload, 1, b"0" * _PART)
        for number in (2, 1):
            tags[number] = writable.write_part(name, upload, number, parts[number - 1])
        writable.abandon_parts(name, abandoned)
        assert storage.exists(name) is False, "an object exists before it is complete"
        version = writable.complete_parts(name, upload, [tags[number] for number in (1, 2, 3)])
        facts = storage.stat(name)
        check_stat(facts, 2 * _PART + 1)
        assert version is None or version == facts.version, "complete_parts returns another version"
        check_read(storage.read(name), b"".join(parts))

    def test_child_process_can_write(
        self, storage: Storage, writable: WritableStorage, key: str
    ) -> None:
        writable.write(key, b"of the parent")
        in_child(self.child_limit, lambda: self._write(writable, key))
        check_read(storage.read(key), b"of the child")

    def _require_exclusive_creation(self) -> None:
        if not self.creates_exclusively:
            not_declared("creates_exclusively is not set")

    def _write(self, writable: WritableStorage, key: str) -> None:
        writable.write(key, b"of the child")
