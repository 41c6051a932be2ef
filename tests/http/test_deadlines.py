"""Stores that send a byte now and then, and reads that wait for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Self

import pytest
from tests.hanging import Trickle
from tests.live.processes import wait_until

from mastaba.errors import NoResponseError, StorageUnavailableError
from mastaba_http.client import HTTPClient
from mastaba_http.storage import HTTPStorage
from mastaba_server import waiting
from mastaba_server.threads.bounded_calls import BoundedCalls
from mastaba_server.threads.per_process import ThreadPool
from mastaba_storage.base import ByteRange, ObjectRead, ObjectStat, Storage
from mastaba_storage.environment import Environment
from mastaba_storage.managed import ManagedStorage
from mastaba_storage.retry import RetryPolicy, read_timeout

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n"
CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 200\r\n\r\n"
# A server hello of TLS that announces more than it sends.
HANDSHAKE = b"\x16\x03\x03\x3f\xff\x02" + bytes(200)
SECONDS = 0.3
# For exchanges that must succeed in this time, also on a busy machine.
ENOUGH = 4.0


@pytest.fixture
def trickle() -> Iterator[Callable[..., Trickle]]:
    opened: list[Trickle] = []

    def start(*arguments: bytes, pause: float = 0.05) -> Trickle:
        opened.append(Trickle(*arguments, pause=pause))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


@pytest.mark.parametrize("at_once", [HEAD, CLOSING, b"HTTP/1.1 200 OK\r\nX: "])
def test_response_that_trickles_is_given_up(
    trickle: Callable[..., Trickle], at_once: bytes
) -> None:
    client = HTTPClient(f"http://127.0.0.1:{trickle(at_once).port}", 30, seconds=SECONDS)
    with closing(client), pytest.raises(NoResponseError, match="no response in time"):
        client.request("GET", "/", {})


def test_tls_handshake_that_trickles_is_given_up(trickle: Callable[..., Trickle]) -> None:
    server = trickle(HANDSHAKE[:6], HANDSHAKE[6:])
    client = HTTPClient(f"https://127.0.0.1:{server.port}", 30, verify=False, seconds=SECONDS)
    with closing(client), pytest.raises(NoResponseError, match="no response in time"):
        client.request("GET", "/", {})


def test_limit_is_of_each_exchange_not_of_the_connection(trickle: Callable[..., Trickle]) -> None:
    server = trickle(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", b"x", pause=ENOUGH / 10)
    client = HTTPClient(f"http://127.0.0.1:{server.port}", 30, seconds=ENOUGH)
    with closing(client):
        bodies = [client.request("GET", "/", {}).body for _ in range(11)]
    assert bodies == [b"x"] * 11
    assert server.connections == 1


def test_other_requests_of_the_client_go_on_while_one_trickles(
    trickle: Callable[..., Trickle],
) -> None:
    server = trickle(HEAD)
    client = HTTPClient(f"http://127.0.0.1:{server.port}", 30, seconds=ENOUGH)
    errors: list[NoResponseError] = []

    def ask() -> None:
        try:
            client.request("GET", "/", {})
        except NoResponseError as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 4
    server.at_once, server.then = HEAD + b"y" * 200, b""
    with closing(client):
        assert client.request("GET", "/", {}).body == b"y" * 200


class OverHTTP(HTTPStorage):
    name = "over-http"
    container_field = None

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        raise NotImplementedError


def test_trickles_open_the_circuit(trickle: Callable[..., Trickle]) -> None:
    server = trickle(HEAD)
    client = HTTPClient(f"http://127.0.0.1:{server.port}", 30, seconds=SECONDS)
    storage = ManagedStorage(OverHTTP("box", client), RetryPolicy(failures=2, pause=60))
    with closing(storage):
        for _ in range(2):
            with pytest.raises(StorageUnavailableError, match="no response in time"):
                storage.read("key", ByteRange(0, 200))
        assert storage.is_suspended
        with pytest.raises(StorageUnavailableError, match="circuit is open"):
            storage.read("key", ByteRange(0, 200))
    wait_until(lambda: server.connections >= 2)
    assert server.connections == 2


@pytest.mark.parametrize(("value", "expected"), [(None, 30), ("5", 5), ("0", None), ("x", 30)])
def test_the_limit_is_a_variable(value: str | None, expected: int | None) -> None:
    variables = {} if value is None else {"MASTABA_OBJECT_READ_TIMEOUT": value}
    assert read_timeout(Environment(variables)) == expected


class Gated(Storage):
    """Answers once a gate is open.

    Attributes:
        begun: released by each read.
    """

    name = "gated"
    container_field = None

    def __init__(self) -> None:
        super().__init__("box")
        self.gate = threading.Event()
        self.begun = threading.Semaphore(0)

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        raise NotImplementedError

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        self.begun.release()
        self.gate.wait()
        return ObjectRead(b"data")

    def stat(self, key: str) -> ObjectStat:
        return ObjectStat(len(self.read(key).data))


def test_no_more_reads_wait_for_a_store_than_allowed() -> None:
    store = Gated()
    storage = ManagedStorage(store, RetryPolicy(places=3))
    results: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: results.append(storage.read("key").data)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
        store.begun.acquire()
    for read in (storage.read, storage.stat, storage.exists):
        with pytest.raises(StorageUnavailableError, match="3 reads already wait for it"):
            read("key")
    # The store was not asked, so this is not its failure.
    assert not storage.is_suspended
    store.gate.set()
    for thread in threads:
        thread.join()
    assert results == [b"data"] * 3
    assert storage.read("key").data == b"data"


def test_read_waits_for_a_place_while_the_store_answers() -> None:
    store = Gated()
    storage = ManagedStorage(store, RetryPolicy(places=1))
    results: list[bytes] = []

    def read() -> None:
        results.append(storage.read("key").data)

    first = threading.Thread(target=read)
    first.start()
    store.begun.acquire()
    second = threading.Thread(target=read)
    second.start()
    store.gate.set()
    first.join()
    second.join()
    assert results == [b"data"] * 2


class Replaced:
    """Counts how often another thread has taken the place of this one."""

    def __init__(self) -> None:
        self.entered = self.left = 0

    def __call__(self) -> Replaced:
        return self

    def __enter__(self) -> None:
        self.entered += 1

    def __exit__(self, *_: object) -> None:
        self.left += 1


@pytest.fixture
def replaced() -> Iterator[Replaced]:
    stand_in = Replaced()
    before = waiting._local.replaced
    waiting.serve(stand_in)
    yield stand_in
    waiting.serve(before)


def test_another_thread_serves_while_one_reads(replaced: Replaced) -> None:
    store = Gated()
    store.gate.set()
    ManagedStorage(store, RetryPolicy()).read("key")
    assert (replaced.entered, replaced.left) == (1, 1)


def test_another_thread_serves_while_one_waits_for_parallel_reads(replaced: Replaced) -> None:
    gate = threading.Event()
    begun = threading.Event()

    def read(item: int) -> int:
        if item:
            begun.set()
            gate.wait()
        else:
            begun.wait()
            gate.set()
        return item

    assert ThreadPool(1, "test").map(read, [0, 1]) == [0, 1]
    assert (replaced.entered, replaced.left) == (1, 1)


def test_call_that_does_not_return_is_given_up() -> None:
    gate = threading.Event()
    calls = BoundedCalls(SECONDS, most=2)
    for _ in range(2):
        with pytest.raises(TimeoutError, match=r"within 0\.3 seconds"):
            calls.run(gate.wait)
    with pytest.raises(TimeoutError, match="2 calls before have no answer yet"):
        calls.run(gate.wait)
    gate.set()
    while True:
        try:
            assert calls.run(lambda: 7) == 7
            break
        except TimeoutError:
            continue  # the threads are about to notice


def test_bounded_call_passes_results_and_errors_on() -> None:
    calls = BoundedCalls(30)
    assert calls.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        calls.run(lambda: 1 // 0)
    threads = {calls.run(threading.get_ident) for _ in range(5)}
    assert threading.get_ident() not in threads


def test_without_a_limit_calls_run_in_the_calling_thread() -> None:
    assert BoundedCalls(None).run(threading.get_ident) == threading.get_ident()
