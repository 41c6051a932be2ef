"""What all levels of the tests of a driver share: hooks of the author, test data, helpers."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final, NoReturn, Protocol

import pytest

from mastaba.api.storages import ByteRange, ObjectRead, ObjectStat, Storage
from mastaba.api.writable_storages import WritableStorage
from mastaba_conformance.deadline import eventually, within
from mastaba_conformance.descriptors import open_descriptors

DATA: Final = bytes(range(256)) * 40
"""10,240 bytes in which adjacent short ranges differ."""

_EARLIEST: Final = 1_500_000_000
_DAY: Final = 86_400


class ObjectWriter(Protocol):
    """Writes objects into the tested container without using the tested driver."""

    def put(self, key: str, data: bytes) -> None:
        """Write an object, atomically replacing any existing object with this key."""

    def delete(self, key: str) -> None:
        """Remove an object."""


class StorageKit:
    """What all levels share; see `StorageTests`."""

    kit: ClassVar = "storage driver"
    levels: ClassVar = (
        "reads",
        "ranges",
        "versions",
        "threads",
        "forks",
        "faults",
        "writes",
        "sequences",
    )

    time_limit: ClassVar[float] = 60.0
    patience: ClassVar[float] = 5.0
    knows_versions: ClassVar[bool] = True
    keys_are_paths: ClassVar[bool] = False
    shares_connections: ClassVar[bool] = False
    holds_large_objects: ClassVar[bool] = True
    forks_while_reading: ClassVar[bool] = False
    creates_exclusively: ClassVar[bool] = True

    # Inner limits are shorter, because their messages say more.

    @property
    def call_limit(self) -> float:
        """Seconds after which a call hangs."""
        return self.time_limit / 2

    @property
    def child_limit(self) -> float:
        """Seconds after which a child process hangs."""
        return self.time_limit * 0.8

    @pytest.fixture
    def storage(self) -> Storage:
        """An open container."""
        raise NotImplementedError("override the fixture storage")

    @pytest.fixture
    def writer(self) -> ObjectWriter:
        """A writer for the container of `storage`."""
        raise NotImplementedError("override the fixture writer")

    @pytest.fixture
    def writable(self) -> WritableStorage:
        """The container of `storage`, opened by the class that the driver names as its writer."""
        not_declared("the fixture writable: a WritableStorage for the container of storage")

    @pytest.fixture
    def prefix(self) -> str:
        """Prefix of the keys of all test objects."""
        return "conformance/"

    @pytest.fixture
    def open_refused(self) -> Callable[[], Storage]:
        """Opens a container with invalid credentials."""
        not_declared("the fixture open_refused: a container with invalid credentials")

    @pytest.fixture
    def open_unreachable(self) -> Callable[[], Storage]:
        """Opens a container of an unreachable store."""
        not_declared("the fixture open_unreachable: a container of an unreachable store")

    @pytest.fixture
    def open_silent(self) -> Callable[[], Storage]:
        """Opens a container of a store that accepts requests but never answers."""
        not_declared("the fixture open_silent: a container of a store that never answers")

    @pytest.fixture
    def outage(self) -> Callable[[], AbstractContextManager[Any]]:
        """Returns a context manager during which the store of `storage` fails."""
        not_declared("the fixture outage: a time during which the store fails")

    @pytest.fixture
    def key(self, writer: ObjectWriter, prefix: str) -> str:
        """Key of an object that contains `DATA`."""
        writer.put(f"{prefix}data", DATA)
        return f"{prefix}data"

    @pytest.fixture(autouse=True)
    def descriptors_before(
        self, request: pytest.FixtureRequest, key: str
    ) -> Iterator[dict[int, str]]:
        """Descriptors that were open before the storage was; opens and closes it in time."""
        before = open_descriptors()
        storage: Storage = within(
            self.time_limit, "opening the storage", lambda: request.getfixturevalue("storage")
        )
        yield before
        within(self.time_limit, "close", storage.close)

    def closed_in_time(self, before: dict[int, str], allowed: int = 0) -> list[str]:
        """Return what descriptors lead to that were opened after a count, and are still open.

        Args:
            before: the count.
            allowed: descriptors that may stay open.
        """

        def further() -> list[str]:
            return [at for number, at in open_descriptors().items() if before.get(number) != at]

        eventually(self.patience, lambda: len(further()) <= allowed)
        return further()


def not_declared(what: str) -> NoReturn:
    """Skip a test, because the author has not declared an ability."""
    pytest.skip(f"not declared: {what}")


def operations(storage: Storage, key: str) -> dict[str, Callable[[], Any]]:
    """Return every way to ask for an object, by name."""
    return {
        "read": lambda: storage.read(key),
        "read of a range": lambda: storage.read(key, ByteRange(0, 10)),
        "read of an empty range": lambda: storage.read(key, ByteRange(5, 0)),
        "read_ranges": lambda: storage.read_ranges(key, [ByteRange(0, 10), ByteRange(20, 10)]),
        "stat": lambda: storage.stat(key),
        "exists": lambda: storage.exists(key),
    }


def check_read(read: Any, data: bytes) -> None:
    """Check the types of the result of a read, and its bytes."""
    assert isinstance(read, ObjectRead), f"a read returns an ObjectRead, not {read!r:.80}"
    assert type(read.data) is bytes, f"data is bytes, not {type(read.data).__name__}"
    # Without a diff of thousands of bytes.
    same = read.data == data
    assert same, f"wrong bytes: {read.data[:40]!r}… instead of {data[:40]!r}…"
    _check_facts(read.version, read.modified)


def check_stat(facts: Any, size: int) -> None:
    """Check the types of the result of `Storage.stat`, and its size."""
    assert isinstance(facts, ObjectStat), f"stat returns an ObjectStat, not {facts!r:.80}"
    assert type(facts.size) is int, f"size is an int, not {type(facts.size).__name__}"
    assert facts.size == size
    _check_facts(facts.version, facts.modified)


def _check_facts(version: Any, modified: Any) -> None:
    kind = type(version).__name__
    assert version is None or isinstance(version, str), f"version is a str, not {kind}"
    assert version != "", "an empty version cannot be required: use None"
    if modified is None:
        return
    kind = type(modified).__name__
    is_number = isinstance(modified, int | float) and not isinstance(modified, bool)
    assert is_number, f"modified is a number, not {kind}"
    assert _EARLIEST < modified < time.time() + _DAY, "modified is in seconds since 1970, UTC"


@contextlib.contextmanager
def frequent_switches() -> Iterator[None]:
    """Switch threads much more often than usual, so that races are found."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def generation(number: int) -> bytes:
    """Return one version of an object that is `replacing`; number 0 to 199."""
    return bytes([number]) * (5000 + number)


@contextlib.contextmanager
def replacing(writer: ObjectWriter, key: str) -> Iterator[None]:
    """Replace an object in another thread, again and again."""
    stop = threading.Event()

    def replace() -> None:
        number = 0
        # Sometimes slow enough for a whole object to be read in between.
        while not stop.wait(0.02 if number % 8 == 0 else 0):
            number = (number + 1) % 200
            writer.put(key, generation(number))

    writer.put(key, generation(0))
    thread = threading.Thread(target=replace, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def in_child(
    seconds: float, check: Callable[[], None], meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Run checks in a child process; fail with its traceback, or if it takes too long.

    Args:
        seconds: time limit.
        check: called in the child process.
        meanwhile: called in this process after the fork.
    """
    receiver, sender = os.pipe()
    with warnings.catch_warnings():
        # Forking beside other threads is what is tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _report_and_exit(sender, check)
    os.close(sender)
    ended: list[int] = []
    try:
        meanwhile()
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(receiver)
        raise

    def has_ended() -> bool:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            ended.append(os.waitstatus_to_exitcode(status))
        return bool(ended)

    in_time = eventually(seconds, has_ended)
    if not in_time:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with open(receiver, encoding="utf-8", errors="replace") as pipe:
        report = pipe.read()
    if not in_time:
        pytest.fail(f"the driver hangs in a child process: no result after {seconds:g} s")
    if ended != [0]:
        report = report or f"its exit status is {ended[0]}"
        pytest.fail(f"the driver fails in a child process:\n{report}", pytrace=False)


def _report_and_exit(sender: int, check: Callable[[], None]) -> NoReturn:
    status = 1
    try:
        check()
        status = 0
    except BaseException:  # noqa: BLE001 - reported to the parent
        os.write(sender, traceback.format_exc().encode()[-4000:])
    finally:
        os._exit(status)
