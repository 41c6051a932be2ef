"""Level *forks*: an open storage works in child processes, and they do not disturb the parent."""

from __future__ import annotations

import threading

from mastaba.api.storages import ByteRange, Storage
from mastaba_conformance.deadline import together
from mastaba_conformance.storage.kit import (
    DATA,
    StorageKit,
    check_read,
    in_child,
    not_declared,
    operations,
)


class ForkTests(StorageKit):
    level = "forks"

    def _read_in_threads(self, storage: Storage, key: str) -> None:
        def read() -> None:
            for offset in range(0, 5000, 250):
                at = ByteRange(offset, 400)
                check_read(storage.read(key, at), DATA[offset : offset + 400])

        together(self.call_limit, "a read after a fork", [read] * 4)

    def test_child_process_can_read(self, storage: Storage, key: str) -> None:
        self._read_in_threads(storage, key)
        in_child(self.child_limit, lambda: self._read_in_threads(storage, key))
        self._read_in_threads(storage, key)

    def test_every_method_works_in_a_child_process(self, storage: Storage, key: str) -> None:
        before = {name: call() for name, call in operations(storage, key).items()}

        def compare() -> None:
            for name, call in operations(storage, key).items():
                assert call() == before[name], name

        in_child(self.child_limit, compare)

    def test_close_in_a_child_process_leaves_the_parent_alone(
        self, storage: Storage, key: str
    ) -> None:
        self._read_in_threads(storage, key)

        def read_and_close() -> None:
            storage.read(key)
            storage.close()

        in_child(self.child_limit, read_and_close)
        self._read_in_threads(storage, key)

    def test_parent_and_child_read_at_the_same_time(self, storage: Storage, key: str) -> None:
        self._read_in_threads(storage, key)

        def read() -> None:
            for _ in range(5):
                self._read_in_threads(storage, key)

        in_child(self.child_limit, read, meanwhile=read)

    def test_fork_while_other_threads_read(self, storage: Storage, key: str) -> None:
        if not self.forks_while_reading:
            not_declared("forks while threads read: forks_while_reading is not set")
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                check_read(storage.read(key), DATA)

        def fork() -> None:
            try:
                for _ in range(5):
                    in_child(self.child_limit, lambda: self._read_in_threads(storage, key))
            finally:
                stop.set()

        together(self.time_limit, "a read beside forks", [fork, read, read])
