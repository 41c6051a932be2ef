"""Level *threads*: many threads use one storage, also while objects are replaced."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mastaba.api.storages import ByteRange, Storage
from mastaba.errors import ObjectChangedError, StorageUnavailableError
from mastaba_conformance.deadline import together
from mastaba_conformance.storage.kit import (
    DATA,
    ObjectWriter,
    StorageKit,
    check_read,
    check_stat,
    frequent_switches,
    generation,
    not_declared,
    replacing,
)

_OBJECTS = 8
_THREADS = 16
_ATTEMPTS = 50
"""Most reads of each thread while an object is replaced."""


class ThreadTests(StorageKit):
    level = "threads"

    repeats = 25
    """How often each thread repeats its calls; twice as often while an object is replaced."""

    def _repeated(self, check: Callable[[int], None]) -> None:
        """Call a check in threads that start together, with the number of the thread."""
        barrier = threading.Barrier(_THREADS)

        def repeat(number: int) -> None:
            barrier.wait(self.call_limit)
            for _ in range(self.repeats):
                check(number)

        with frequent_switches():
            together(
                self.call_limit,
                "a read in one of many threads",
                [lambda number=number: repeat(number) for number in range(_THREADS)],  # type: ignore[misc]
            )

    def test_many_threads(self, storage: Storage, writer: ObjectWriter, prefix: str) -> None:
        def content(number: int) -> bytes:
            return bytes([number]) * 3000 + DATA

        for number in range(_OBJECTS):
            writer.put(f"{prefix}thread-{number}", content(number))

        def check(thread: int) -> None:
            number = thread % _OBJECTS
            name, data, start = f"{prefix}thread-{number}", content(number), 2990 + thread
            check_read(storage.read(name, ByteRange(start, 500)), data[start : start + 500])
            reads = storage.read_ranges(name, [ByteRange(0, 9), ByteRange(start, 50)])
            check_read(reads[0], data[:9])
            check_read(reads[1], data[start : start + 50])

        self._repeated(check)

    def test_stat_and_exists_in_many_threads(
        self, storage: Storage, writer: ObjectWriter, prefix: str
    ) -> None:
        for number in range(_OBJECTS):
            writer.put(f"{prefix}stat-{number}", DATA[: 100 + number])

        def check(thread: int) -> None:
            number = thread % _OBJECTS
            check_stat(storage.stat(f"{prefix}stat-{number}"), 100 + number)
            assert storage.exists(f"{prefix}stat-{number}") is True
            assert storage.exists(f"{prefix}absent-{thread}") is False

        self._repeated(check)

    def _while_replaced(
        self, storage: Storage, writer: ObjectWriter, key: str, check: Callable[[], None]
    ) -> None:
        if not self.knows_versions:
            not_declared("versions: knows_versions is not set")

        def repeat() -> int:
            complete = 0
            for attempt in range(_ATTEMPTS):
                if complete and attempt >= 2 * self.repeats:
                    break
                try:
                    check()
                except (ObjectChangedError, StorageUnavailableError):
                    continue  # reported; stores do fail under this load
                complete += 1
            return complete

        with replacing(writer, key):
            complete = together(self.call_limit, "a read while it is replaced", [repeat] * 4)
        assert sum(complete), "no read ever succeeds while the object is replaced"

    def test_versions_are_never_mixed_while_an_object_is_replaced(
        self, storage: Storage, writer: ObjectWriter, prefix: str
    ) -> None:
        name = f"{prefix}replaced"
        seen: dict[str | None, int] = {}

        def check() -> None:
            first = storage.read(name, ByteRange(0, 100))
            check_read(first, generation(first.data[0])[:100])
            same = seen.setdefault(first.version, first.data[0]) == first.data[0]
            assert same, "two generations of an object have the same version"
            rest = storage.read(name, ByteRange(100, 9000), first.version)
            check_read(rest, generation(first.data[0])[100:])
            facts = storage.stat(name)
            number = seen.get(facts.version, facts.size - 5000)
            assert facts.size == 5000 + number, "size and version are of different generations"

        self._while_replaced(storage, writer, name, check)

    def test_ranges_are_never_mixed_while_an_object_is_replaced(
        self, storage: Storage, writer: ObjectWriter, prefix: str
    ) -> None:
        name, ranges = f"{prefix}replaced", [ByteRange(100, 2400), ByteRange(2500, 9000)]
        seen: dict[str | None, int] = {}

        def check() -> None:
            # Each result has its own version, whether or not one was required.
            for read, at in zip(storage.read_ranges(name, ranges), ranges, strict=True):
                number = seen.setdefault(read.version, read.data[0])
                check_read(read, generation(number)[at.offset : at.offset + at.length])
            first = storage.read(name, ByteRange(0, 100))
            reads = storage.read_ranges(name, ranges, first.version)
            whole = b"".join([first.data, *(read.data for read in reads)])
            assert whole == generation(first.data[0]), "ranges of two versions are mixed"

        self._while_replaced(storage, writer, name, check)
