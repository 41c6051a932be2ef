"""Level *reads*: whole objects, keys, absence, facts, and what a driver leaves open."""

from __future__ import annotations

import contextlib
import threading
import unicodedata
import uuid

import pytest

from mastaba.api.storages import MAX_WHOLE, ByteRange, Storage
from mastaba.errors import ObjectNotFoundError, StorageError, StorageUnavailableError
from mastaba_conformance.deadline import eventually, together
from mastaba_conformance.descriptors import need_descriptors, open_descriptors
from mastaba_conformance.storage.kit import (
    DATA,
    ObjectWriter,
    StorageKit,
    check_read,
    check_stat,
    not_declared,
    operations,
)

_NAME = "Exact.tif"
_SIMILAR = (
    "exact.tif",
    "EXACT.TIF",
    "Exact.ti",
    "Exact.tif2",
    "Exact.tif/",
    "Exact.tif ",
    " Exact.tif",
    "Exact.ti_",
    "Exact%",
    "Exact*",
    "Exact.ti?",
    "Exact.[t]if",
    "Exact..if",
    "Ex%61ct.tif",
    "Exact",
)
_ROUNDS = 30
_SPARE = 10
"""Descriptors or threads that a driver may start to use late."""


class ReadTests(StorageKit):
    level = "reads"

    def test_driver_has_the_required_attributes(self, storage: Storage) -> None:
        assert storage.name == storage.name.lower()
        assert storage.name.isascii()
        assert storage.name.isidentifier()
        assert storage.full_name.startswith(f"{storage.name}://")
        assert isinstance(storage.is_remote, bool)
        assert isinstance(storage.is_suspended, bool)
        if storage.is_remote:
            assert storage.container_field
            assert storage.container

    def test_whole_object(self, storage: Storage, key: str) -> None:
        check_read(storage.read(key), DATA)

    def test_short_and_empty_objects(
        self, storage: Storage, writer: ObjectWriter, prefix: str
    ) -> None:
        writer.put(f"{prefix}short", b"SYMLINK#a/b")
        writer.put(f"{prefix}empty", b"")
        check_read(storage.read(f"{prefix}short", ByteRange(0, 2176)), b"SYMLINK#a/b")
        check_read(storage.read(f"{prefix}empty"), b"")
        check_read(storage.read(f"{prefix}empty", ByteRange(0, 2176)), b"")
        check_stat(storage.stat(f"{prefix}empty"), 0)
        assert storage.exists(f"{prefix}empty") is True

    @pytest.mark.parametrize(
        "data",
        [b"\r\n\r\n", b"\0\0\0", b"\n", b"\x1f\x8b\x08\x00 not gzip", b"\xef\xbb\xbf\xff\xfe"],
    )
    def test_bytes_are_returned_unchanged(
        self, storage: Storage, writer: ObjectWriter, prefix: str, data: bytes
    ) -> None:
        writer.put(f"{prefix}bytes", data)
        check_read(storage.read(f"{prefix}bytes"), data)
        check_stat(storage.stat(f"{prefix}bytes"), len(data))

    def test_object_above_the_bound_is_not_read_whole(
        self, storage: Storage, writer: ObjectWriter, prefix: str
    ) -> None:
        if not self.holds_large_objects:
            not_declared("objects above the bound: holds_large_objects is not set")
        name, size = f"{prefix}huge", MAX_WHOLE + 3
        writer.put(name, b"".join((b"first", bytes(size - 9), b"last")))
        try:
            with pytest.raises(StorageError) as caught:
                storage.read(name)
            assert not isinstance(caught.value, StorageUnavailableError), "a retry cannot help"
            check_read(storage.read(name, ByteRange(size - 4, 10)), b"last")
            check_stat(storage.stat(name), size)
        finally:
            writer.delete(name)

    @pytest.mark.parametrize(
        "name",
        [
            *("a b", "é", "100%25", "a+b", "x#y", "q?a=b&c", "deep/er/still", "~tilde", "a:b"),
            *("quote'", 'double"', "semi;colon", "a=b", "(a)[b]{c}", "Ω𝄞", "x" * 255),
        ],
    )
    def test_keys_are_used_unchanged(
        self, storage: Storage, writer: ObjectWriter, prefix: str, name: str
    ) -> None:
        writer.put(prefix + name, name.encode())
        check_read(storage.read(prefix + name, ByteRange(0, 1000)), name.encode())
        check_read(storage.read(prefix + name), name.encode())
        assert storage.exists(prefix + name) is True

    @pytest.mark.parametrize("name", ["up/../down", "here/./there", "a//b", "..dots"])
    def test_keys_are_not_normalised_as_paths(
        self, storage: Storage, writer: ObjectWriter, prefix: str, name: str
    ) -> None:
        if self.keys_are_paths:
            not_declared("keys other than paths: keys_are_paths is set")
        writer.put(f"{prefix}down", b"another object")
        writer.put(prefix + name, name.encode())
        check_read(storage.read(prefix + name), name.encode())

    @pytest.mark.parametrize("similar", _SIMILAR)
    def test_similar_key_is_another_object(
        self, storage: Storage, writer: ObjectWriter, prefix: str, similar: str
    ) -> None:
        writer.put(prefix + _NAME, b"exact")
        assert storage.exists(prefix + similar) is False
        for read in (storage.read, storage.stat):
            with pytest.raises(ObjectNotFoundError):
                read(prefix + similar)

    def test_composed_and_decomposed_characters_differ(
        self, storage: Storage, writer: ObjectWriter, prefix: str
    ) -> None:
        if self.keys_are_paths:
            not_declared("keys other than paths: keys_are_paths is set")
        writer.put(f"{prefix}é", b"composed")
        assert storage.exists(prefix + unicodedata.normalize("NFD", "é")) is False

    def test_long_keys_with_a_common_start_differ(
        self, storage: Storage, writer: ObjectWriter, prefix: str
    ) -> None:
        start = f"{prefix}{'level/' * 10}{'s' * 100}"
        writer.put(f"{start}1", b"one")
        writer.put(f"{start}2", b"two")
        check_read(storage.read(f"{start}1"), b"one")
        check_read(storage.read(f"{start}2"), b"two")

    def test_absent_object_is_reported_by_name(self, storage: Storage, key: str) -> None:
        absent = key + "-absent"
        calls = operations(storage, absent)
        del calls["exists"]
        calls["read of a version"] = lambda: storage.read(absent, ByteRange(0, 10), "some version")
        for name, call in calls.items():
            with pytest.raises(ObjectNotFoundError) as caught:
                call()
            assert absent in str(caught.value), f"{name}: the message does not name the object"
            assert caught.value.key == absent, name
            assert caught.value.storage == storage.full_name, name

    def test_exists(self, storage: Storage, writer: ObjectWriter, key: str) -> None:
        assert storage.exists(key) is True
        assert storage.exists(key + "-absent") is False
        writer.delete(key)
        assert storage.exists(key) is False

    def test_absence_is_not_remembered(
        self, storage: Storage, writer: ObjectWriter, prefix: str
    ) -> None:
        # The container may contain objects of other runs.
        name = f"{prefix}late-{uuid.uuid4().hex}"
        for call in operations(storage, name).values():
            with contextlib.suppress(ObjectNotFoundError):
                call()
        writer.put(name, DATA)
        check_read(storage.read(name), DATA)
        check_read(storage.read(name, ByteRange(5, 5)), DATA[5:10])
        check_read(storage.read_ranges(name, [ByteRange(7, 5)])[0], DATA[7:12])
        check_stat(storage.stat(name), len(DATA))
        assert storage.exists(name) is True

    def test_presence_is_not_remembered(
        self, storage: Storage, writer: ObjectWriter, key: str
    ) -> None:
        calls = operations(storage, key)
        for call in calls.values():
            call()
        writer.delete(key)
        assert calls.pop("exists")() is False
        for call in calls.values():
            with pytest.raises(ObjectNotFoundError):
                call()

    def test_stat(self, storage: Storage, writer: ObjectWriter, key: str) -> None:
        facts = storage.stat(key)
        check_stat(facts, len(DATA))
        assert facts.version == storage.read(key, ByteRange(0, 10)).version
        assert facts.version == storage.read(key).version
        writer.put(key, DATA[:77])
        check_stat(storage.stat(key), 77)

    def test_close_twice(self, storage: Storage, key: str) -> None:
        storage.read(key)
        storage.close()
        storage.close()

    def test_reads_leave_nothing_open(
        self, storage: Storage, writer: ObjectWriter, key: str
    ) -> None:
        need_descriptors()

        def use(times: int) -> None:
            for number in range(times):
                for name in (key, f"{key}-absent"):
                    for call in operations(storage, name).values():
                        with contextlib.suppress(ObjectNotFoundError):
                            call()
                writer.put(key, DATA[number:])

        use(3)
        before, threads = open_descriptors(), threading.active_count()
        use(_ROUNDS)
        leaked = self.closed_in_time(before, _SPARE)
        assert len(leaked) <= _SPARE, f"{_ROUNDS} reads leave open {len(leaked)}: {leaked[:5]}"
        most = threads + _SPARE
        few = eventually(self.patience, lambda: threading.active_count() <= most)
        assert few, f"{_ROUNDS} reads leave {threading.active_count() - threads} threads running"

    def test_close_leaves_nothing_open(
        self, storage: Storage, key: str, descriptors_before: dict[int, str]
    ) -> None:
        need_descriptors()
        if self.shares_connections:
            not_declared("connections of its own: shares_connections is set")
        together(
            self.call_limit,
            "reading in threads",
            [call for call in operations(storage, key).values() for _ in range(3)],
        )
        storage.close()
        leaked = self.closed_in_time(descriptors_before)
        assert not leaked, f"open after close: {leaked[:5]}"
