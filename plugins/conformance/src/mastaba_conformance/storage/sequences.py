"""Level *sequences*: any order of writes, replacements, deletions, reads and forks."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import count
from typing import Any

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from mastaba.api.storages import ByteRange, Storage
from mastaba.errors import ObjectChangedError, ObjectNotFoundError
from mastaba_conformance.storage.kit import (
    ObjectWriter,
    StorageKit,
    check_read,
    check_stat,
    in_child,
)

_keys = st.sampled_from(["a", "deep/A"])
_numbers = st.integers(0, 9)
_ranges = st.builds(ByteRange, st.integers(0, 400), st.integers(0, 400))


class StorageMachine(RuleBasedStateMachine):
    """Compares a storage with a dictionary."""

    def __init__(self, storage: Storage, writer: ObjectWriter, prefix: str, seconds: float) -> None:
        super().__init__()
        self._storage = storage
        self._writer = writer
        self._prefix = prefix
        self._seconds = seconds
        self._objects: dict[str, bytes] = {}
        self._versions: dict[tuple[str, str], bytes] = {}
        self._writes = 0
        self._forked = False

    @rule(key=_keys, data=st.binary(max_size=63))
    def write(self, key: str, data: bytes) -> None:
        # Versions of files consist of time and size, and several are written in one instant.
        self._writes += 1
        data = bytes([self._writes]) * 64 * self._writes + data
        self._writer.put(self._prefix + key, data)
        self._objects[key] = data

    @rule(key=_keys)
    def delete(self, key: str) -> None:
        if key in self._objects:
            self._writer.delete(self._prefix + key)
            del self._objects[key]

    @rule(key=_keys, at=st.none() | _ranges)
    def read(self, key: str, at: ByteRange | None) -> None:
        read = self._expected(key, lambda: self._storage.read(self._prefix + key, at))
        if read is not None:
            check_read(read, _part(self._objects[key], at))
            self._note(key, read.version)

    @rule(key=_keys, ranges=st.lists(_ranges, min_size=1, max_size=4))
    def read_ranges(self, key: str, ranges: list[ByteRange]) -> None:
        reads = self._expected(key, lambda: self._storage.read_ranges(self._prefix + key, ranges))
        for read, at in zip(reads or (), ranges if reads else (), strict=True):
            check_read(read, _part(self._objects[key], at))
            self._note(key, read.version)

    @rule(number=_numbers, at=_ranges, single=st.booleans())
    def read_version(self, number: int, at: ByteRange, single: bool) -> None:
        if not self._versions:
            return
        key, version = list(self._versions)[number % len(self._versions)]
        expected = _part(self._versions[key, version], at)
        name = self._prefix + key
        try:
            if single:
                check_read(self._storage.read(name, at, version), expected)
            else:
                (read,) = self._storage.read_ranges(name, [at], version)
                check_read(read, expected)
        except (ObjectChangedError, ObjectNotFoundError):
            # A driver may still return an old version, but need not.
            assert self._objects.get(key) != self._versions[key, version]

    @rule(key=_keys)
    def stat(self, key: str) -> None:
        facts = self._expected(key, lambda: self._storage.stat(self._prefix + key))
        if facts is not None:
            check_stat(facts, len(self._objects[key]))
            self._note(key, facts.version)

    @rule(key=_keys)
    def exists(self, key: str) -> None:
        assert self._storage.exists(self._prefix + key) is (key in self._objects)

    @rule(number=_numbers)
    def fork(self, number: int) -> None:
        # Forks take much longer than everything else.
        if number or self._forked:
            return
        self._forked = True

        def check() -> None:
            for key, data in self._objects.items():
                check_read(self._storage.read(self._prefix + key), data)

        in_child(self._seconds, check)

    def teardown(self) -> None:
        for key in self._objects:
            self._writer.delete(self._prefix + key)

    def _expected(self, key: str, call: Callable[[], Any]) -> Any:
        """Return the result of a call; None if the object is absent, and reported as such."""
        try:
            result = call()
        except ObjectNotFoundError:
            assert key not in self._objects, f"{key} exists, but is reported as absent"
            return None
        assert key in self._objects, f"{key} is absent, but is read"
        return result

    def _note(self, key: str, version: str | None) -> None:
        if version is not None:
            data = self._versions.setdefault((key, version), self._objects[key])
            assert data == self._objects[key], "other bytes have the same version"


def _part(data: bytes, at: ByteRange | None) -> bytes:
    return data if at is None else data[at.offset : at.offset + at.length]


class SequenceTests(StorageKit):
    level = "sequences"

    examples = 60
    """Number of sequences that are tried."""

    def test_any_sequence_of_operations(
        self, storage: Storage, writer: ObjectWriter, prefix: str
    ) -> None:
        # The container may contain objects of other runs.
        start, numbers = f"{prefix}{uuid.uuid4().hex}", count()
        # The same sequences in each run: a driver conforms, or it does not.
        settings = hypothesis.settings(
            max_examples=self.examples,
            stateful_step_count=30,
            deadline=None,
            database=None,
            derandomize=True,
            # To find the shortest sequence takes minutes with most stores.
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )

        def machine() -> StorageMachine:
            return StorageMachine(storage, writer, f"{start}/{next(numbers)}/", self.child_limit)

        run_state_machine_as_test(machine, settings=settings)  # type: ignore[arg-type]
