"""Rates and quotas of several nodes, in a real store, and without it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.access.conftest import MakeGate
from tests.access.test_rates import MAP, Clock, accepted, grant, rules, spent
from tests.live.processes import Process, free_port, program, wait_until

from mastaba.errors import ConfigurationError
from mastaba_access.rates.nodes import SharedBuckets, SharedQuotas
from mastaba_access.rates.quotas import period_at
from mastaba_access.rates.store import Store


class Server:
    """A store on a port."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"valkey://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._process: Process | None = None
        self.start()

    def start(self) -> None:
        binary = program("redis-server", "redis-server")
        command: list[str | Path] = [binary, "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", self._folder]
        self._process = Process("redis", command, self._folder)
        self._process.__enter__()
        wait_until(lambda: self.ask("PING") == b"+PONG")

    def stop(self) -> None:
        if self._process is not None:
            self._process.__exit__(None, None, None)
        self._process = None

    def ask(self, *words: str) -> bytes:
        """Send one command, and return the first part of the answer."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as sock:
                sock.sendall((" ".join(words) + "\r\n").encode())
                return sock.recv(65536).strip()
        except OSError:
            return b""

    def store(self, **settings: Any) -> Store:
        found = Store.of({"url": self.url, "timeout": 30, **settings})
        assert found is not None
        return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("store"))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def server(running: Server) -> Server:
    running.ask("FLUSHALL")
    return running


def nodes(server: Server, count: int = 2, **settings: Any) -> list[SharedBuckets]:
    return [SharedBuckets(server.store(**settings)) for _ in range(count)]


@pytest.mark.live
def test_nodes_share_a_bucket(server: Server) -> None:
    one, other = nodes(server)
    assert spent(one.lease("a", 1e-3, 160)) == 160
    assert other.lease("a", 1e-3, 160).take(5) == pytest.approx(5000, rel=0.05)
    # Another name, another bucket.
    assert other.lease("b", 1e-3, 160).take(160) == 0


@pytest.mark.live
def test_a_node_gives_back_what_it_does_not_use(server: Server) -> None:
    one, other = nodes(server)
    lease = one.lease("a", 1e-3, 160)
    assert lease.take(1) == 0
    assert spent(other.lease("a", 1e-3, 160)) == 149
    lease._ends = 0.0
    lease.give_back()
    assert spent(other.lease("a", 1e-3, 160)) == 10


@pytest.mark.live
def test_nodes_take_from_a_bucket_at_the_same_time(server: Server) -> None:
    """Threads of four nodes, as many as they can: the sum is the burst."""
    counts: list[int] = []
    started = threading.Barrier(4)

    def work(node: SharedBuckets) -> None:
        lease = node.lease("a", 1e-6, 2000)
        # Before the first one can take all.
        assert lease.take(1) == 0
        started.wait(30)
        counts.append(1 + spent(lease))

    threads = [threading.Thread(target=work, args=(one,)) for one in nodes(server, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == 4
    assert sum(counts) == 2000


@pytest.mark.live
def test_the_store_holds_no_names_and_forgets(server: Server) -> None:
    (node,) = nodes(server, 1)
    assert node.lease("secret\000192.0.2.1", 10, 100).take(1) == 0
    keys = server.ask("KEYS", "*")
    assert keys.count(b"mastaba:") == 2  # with the salt
    assert b"secret" not in keys
    assert b"192.0.2.1" not in keys
    name = next(word for word in keys.split() if word.startswith(b"mastaba:rate:"))
    # Full after 10 seconds, and two windows of leases.
    assert 10 < int(server.ask("TTL", name.decode()).lstrip(b":")) <= 18


@pytest.mark.live
def test_nodes_share_a_quota(server: Server, tmp_path: Path) -> None:
    clock = Clock(time.time())
    one, other = (
        SharedQuotas(server.store(), str(tmp_path / f"{n}.sqlite"), clock) for n in range(2)
    )
    lease = one.lease("a", 1000, "day")
    assert sum(lease.take(1) == 0 for _ in range(400)) == 400
    lease.give_back(is_last=True)
    assert sum(other.lease("a", 1000, "day").take(1) == 0 for _ in range(1100)) == 600
    assert lease.take(601) > 0
    clock.now = period_at("day", clock.now)[1] + 1
    assert lease.take(1000) == 0


@pytest.mark.live
def test_without_the_store_each_node_has_its_part(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(tmp_path)
    clock = Clock(time.time())
    try:
        one, other = nodes(server)
        quotas = SharedQuotas(server.store(), str(tmp_path / "q.sqlite"), clock)
        unlimited = SharedQuotas(server.store(), None, clock)
        quota = quotas.lease("a", 256_000, "day")
        assert quota.take(1) == 0
        assert one.lease("a", 1e-3, 64).take(4) == 0
        server.stop()
        # What was leased is still spent, then half of the burst.
        assert spent(one.lease("a", 1e-3, 64)) in (32, 36)
        assert spent(other.lease("b", 1e-3, 64)) == 32
        assert other.lease("c", 1e-3, 64).take(64) == 0
        assert sum(quota.take(1000) == 0 for _ in range(300)) == 128
        assert unlimited.lease("a", 10, "day").take(10) == 0
        assert unlimited.lease("a", 10, "day").take(10) == 0
        assert any("failed 2 times" in record.message for record in caplog.records)
        server.start()
        # The store, which has forgotten everything, is asked again after a second.
        wait_until(lambda: other.lease("d", 1e-3, 64).take(64) == 0 and _asked(server))
        assert spent(other.lease("e", 1e-3, 64)) == 64
    finally:
        server.stop()


def _asked(server: Server) -> bool:
    return b"mastaba:rate:" in server.ask("KEYS", "*")


@pytest.mark.live
def test_the_gate_limits_keys_by_the_store(
    server: Server, make_gate: MakeGate, tmp_path: Path
) -> None:
    both = {"name": "all", "per": "rule", "rate": 1e-3, "burst": 8, "quota": {"day": 5}}
    settings = {"url": server.url, "nodes": 2, "timeout": 1}
    # No database is needed.
    one, other = (make_gate(rules(both), store=settings) for _ in range(2))
    assert accepted(one, grant(one), MAP) + accepted(other, grant(other), MAP) == 5
    one.close()
    del tmp_path


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nodes": 2}, "store.url: is missing"),
        ({"url": "valkey://127.0.0.1:port/0"}, "store: cannot be used"),
        ({"url": "valkey://127.0.0.1:1/0?db=no"}, "store: cannot be used"),
    ],
)
def test_mistakes_in_the_store(make_gate: MakeGate, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_gate(rules(), store=settings)


def test_a_store_that_is_not_there_stops_no_node(make_gate: MakeGate) -> None:
    rate = {"name": "all", "per": "rule", "rate": 1e-3, "burst": 8}
    url = f"valkey://user:hidden@127.0.0.1:{free_port()}/0"
    gate = make_gate(rules(rate), store={"url": url, "nodes": 4})
    assert accepted(gate, grant(gate), MAP) == 2


def test_the_password_is_not_in_the_name_of_a_store() -> None:
    assert Store("valkey://user:hidden@host:1/0", 0.01, 2).name == "valkey://host:1/0"


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mastaba_access.rates.store.valkey", None)
    with pytest.raises(ValueError, match=r"mastaba-access\[valkey\]"):
        Store("valkey://host", 0.01, 2)
