"""Level *sequences*: any order of writes, replacements, deletions, reads and forks."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any, Final

from mastaba.api.storages import ByteRange, Storage
from mastaba.errors import ObjectChangedError, ObjectNotFoundError
from mastaba_conformance.storage.kit import (
    ObjectWriter,
    StorageKit,
    check_read,
    check_stat,
    in_child,
)

_KEYS: Final = ("a", "deep/A")
_STEPS: Final = 30
_FURTHEST: Final = 400
"""Largest offset and length of a range in bytes."""


class StorageMachine:
    """Compares a storage with a dictionary.

    Args:
        prefix: of the keys; there must be no such objects.
        seconds: that a child process may take.
        chance: decides on the operations.

    Attributes:
        steps: the operations until now, as text.
    """

    def __init__(
        self,
        storage: Storage,
        writer: ObjectWriter,
        prefix: str,
        seconds: float,
        chance: random.Random,
    ) -> None:
        self.steps: list[str] = []
        self._storage = storage
        self._writer = writer
        self._prefix = prefix
        self._seconds = seconds
        self._chance = chance
        self._objects: dict[str, bytes] = {}
        self._versions: dict[tuple[str, str], bytes] = {}
        self._writes = 0
        # Forks take much longer than everything else.
        self._fork_at = chance.randrange(2 * _STEPS)

    def step(self) -> None:
        """Run one operation, and check its result."""
        if len(self.steps) == self._fork_at:
            self._fork()
            return
        operations = (
            self._write,
            self._delete,
            self._read,
            self._read_ranges,
            self._read_version,
            self._stat,
            self._exists,
        )
        self._chance.choice(operations)(self._chance.choice(_KEYS))

    def _write(self, key: str) -> None:
        # Versions of files consist of time and size, and several are written in one instant.
        self._writes += 1
        rest = self._chance.randbytes(self._chance.randrange(64))
        data = bytes([self._writes]) * 64 * self._writes + rest
        self._did("write", key, len(data))
        self._writer.put(self._prefix + key, data)
        self._objects[key] = data

    def _delete(self, key: str) -> None:
        self._did("delete", key)
        if key in self._objects:
            self._writer.delete(self._prefix + key)
            del self._objects[key]

    def _read(self, key: str) -> None:
        at = self._range() if self._chance.randrange(2) else None
        self._did("read", key, at)
        read = self._expected(key, lambda: self._storage.read(self._prefix + key, at))
        if read is not None:
            check_read(read, _part(self._objects[key], at))
            self._note(key, read.version)

    def _read_ranges(self, key: str) -> None:
        ranges = [self._range() for _ in range(self._chance.randint(1, 4))]
        self._did("read_ranges", key, *ranges)
        reads = self._expected(key, lambda: self._storage.read_ranges(self._prefix + key, ranges))
        for read, at in zip(reads or (), ranges if reads else (), strict=True):
            check_read(read, _part(self._objects[key], at))
            self._note(key, read.version)

    def _read_version(self, key: str) -> None:
        known = [version for of, version in self._versions if of == key]
        if not known:
            self._read(key)
            return
        version, at = self._chance.choice(known), self._range()
        expected = _part(self._versions[key, version], at)
        name = self._prefix + key
        is_single = self._chance.randrange(2)
        self._did("read" if is_single else "read_ranges", key, at, version)
        try:
            if is_single:
                read = self._storage.read(name, at, version)
            else:
                (read,) = self._storage.read_ranges(name, [at], version)
        except (ObjectChangedError, ObjectNotFoundError):
            # A driver may still return an old version, but need not.
            assert self._objects.get(key) != self._versions[key, version]
        else:
            check_read(read, expected)

    def _stat(self, key: str) -> None:
        self._did("stat", key)
        facts = self._expected(key, lambda: self._storage.stat(self._prefix + key))
        if facts is not None:
            check_stat(facts, len(self._objects[key]))
            self._note(key, facts.version)

    def _exists(self, key: str) -> None:
        self._did("exists", key)
        assert self._storage.exists(self._prefix + key) is (key in self._objects)

    def _fork(self) -> None:
        self._did("fork")

        def check() -> None:
            for key, data in self._objects.items():
                check_read(self._storage.read(self._prefix + key), data)

        in_child(self._seconds, check)

    def clear(self) -> None:
        """Delete all objects."""
        for key in self._objects:
            self._writer.delete(self._prefix + key)

    def _range(self) -> ByteRange:
        return ByteRange(self._chance.randint(0, _FURTHEST), self._chance.randint(0, _FURTHEST))

    def _did(self, operation: str, *operands: object) -> None:
        self.steps.append(f"{operation}({', '.join(map(repr, operands))})")

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
        start, seconds = f"{prefix}{uuid.uuid4().hex}", self.child_limit
        for number in range(self.examples):
            # The same sequences in each run: a driver conforms, or it does not. Hypothesis takes
            # constants from all modules that are loaded, so its sequences change with them.
            chance = random.Random(number)  # noqa: S311 - no secret
            machine = StorageMachine(storage, writer, f"{start}/{number}/", seconds, chance)
            try:
                for _ in range(_STEPS):
                    machine.step()
            except BaseException as error:
                error.add_note("\n".join(["The operations were:", *machine.steps]))
                raise
            finally:
                machine.clear()
