"""Rates and quotas: what is accepted never exceeds them, in all workers together."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import struct
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.access.conftest import MakeGate
from tests.access.identification.conftest import Credentials

from mastaba.api.access import Form, Grant, Shown, Spending
from mastaba.errors import AccessError, ConfigurationError, UnknownCredentialError
from mastaba_access.gate import RulesGate
from mastaba_access.keystore.form import new_id, new_key
from mastaba_access.rates import buckets as buckets_module
from mastaba_access.rates import quotas as quotas_module
from mastaba_access.rates.buckets import Buckets, Lease
from mastaba_access.rates.quotas import Quotas, period_at

MAP = Spending("wms", "", "maps", "", "LAYERS=RGB_JPG")
TILE = Spending("wmts", "", "tiles", "", "LAYER=RGB_JPG")
DAY = 86400


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    return Credentials(tmp_path)


def spent(lease: Lease, most: int = 100_000) -> int:
    """Return how often a lease gives 1."""
    return next(number for number in range(most) if lease.take(1))


# ---------------------------------------------------------------- buckets


def test_a_bucket_gives_the_burst_and_then_the_rate(clock: Clock) -> None:
    lease = Buckets(clock).lease("a", 10, 32)
    assert spent(lease) == 32
    assert lease.take(5) == pytest.approx(0.5)
    clock.now += 0.5
    assert lease.take(5) == 0
    assert lease.take(1) > 0
    clock.now += 3600
    assert spent(lease) == 32
    assert spent(Buckets(clock).lease("b", 10, 32)) == 32


def test_a_cost_above_the_burst_counts_as_the_burst(clock: Clock) -> None:
    lease = Buckets(clock).lease("a", 10, 32)
    assert lease.take(1000) == 0
    assert lease.take(1000) == pytest.approx(3.2)
    lease.give(1000)
    assert lease.take(32) == 0


def test_what_is_left_is_given_back(clock: Clock) -> None:
    shared = Buckets(clock)
    one = shared.lease("a", 1, 160)
    assert one.take(1) == 0
    # The rest of a worker's lease is missing for others, until it is over.
    assert _in_child(lambda: spent(shared.lease("a", 1, 160))) == 149
    one.give_back()
    assert _in_child(lambda: spent(shared.lease("a", 1, 160))) == 0
    clock.now += 1
    one.give_back()
    assert _in_child(lambda: spent(shared.lease("a", 1, 160))) == 10 + 1


def test_leases_of_killed_workers_come_back(clock: Clock) -> None:
    shared = Buckets(clock)
    for _ in range(20):
        _in_child(lambda: shared.lease("a", 16, 16).take(1))
        clock.now += 8
    assert spent(shared.lease("a", 16, 16)) == 16


@pytest.mark.parametrize("seed", range(3))
def test_accepted_cost_is_bounded_in_any_time(seed: int, clock: Clock) -> None:
    """Four workers take turns at random moments; no window of time exceeds the bound."""
    source = random.Random(seed)
    rate, burst = 20.0, 64.0
    workers = [Buckets(clock) for _ in range(4)]
    for one in workers[1:]:
        one._shared, one._key = workers[0]._shared, workers[0]._key
    accepted: list[tuple[float, int]] = []
    begun = clock.now
    for _ in range(2000):
        worker, cost = source.choice(workers), source.choice((1, 1, 1, 4, 16))
        if worker.lease("a", rate, burst).take(cost) == 0:
            accepted.append((clock.now, cost))
        if source.random() < 0.05:
            worker.give_back()
        # Times of rest let the bucket fill while leases are out.
        clock.now += 0.0 if source.random() < 0.9 else source.choice((0.05, 0.3, 5))
    times = sorted({at for at, _ in accepted})
    for start in times[:: len(times) // 50 or 1]:
        for end in (start, start + 1, start + 7, start + 60):
            total = sum(cost for at, cost in accepted if start <= at <= end)
            assert total <= burst + rate * (end - start) + 1e-6
    # Demand was above the rate while it was not resting.
    assert sum(cost for _, cost in accepted) > burst + 0.3 * rate * (clock.now - begun)


def test_a_busy_subject_gets_all_that_it_may(clock: Clock) -> None:
    shared = [Buckets(clock) for _ in range(4)]
    for one in shared[1:]:
        one._shared, one._key = shared[0]._shared, shared[0]._key
    accepted = 0
    for step in range(6000):
        clock.now = 1000 + step / 100
        accepted += sum(one.lease("a", 100, 160).take(1) == 0 for one in shared)
        accepted += sum(one.lease("a", 100, 160).take(1) == 0 for one in shared)
    assert 0.97 * (160 + 100 * 60) <= accepted <= 160 + 100 * 60


def test_the_oldest_bucket_gives_way(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets_module, "_SETS", 1)
    shared = Buckets(clock)
    for name in "abcde":
        clock.now += 1
        assert spent(shared.lease(name, 0.001, 5)) == 5
    assert shared.lease("e", 0.001, 5).take(1) > 0
    assert shared.lease("a", 0.001, 5).take(1) == 0


def test_workers_share_a_bucket() -> None:
    """Four processes take what they can at the same time."""
    shared = Buckets(Clock())
    pids, reads = [], []
    for _ in range(4):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(write, struct.pack("<Q", spent(shared.lease("a", 1, 1000))))
            os._exit(0)
        os.close(write)
        pids.append(pid)
        reads.append(read)
    counts = [int(struct.unpack("<Q", os.read(read, 8))[0]) for read in reads]
    for pid, read in zip(pids, reads, strict=True):
        os.waitpid(pid, 0)
        os.close(read)
    assert sum(counts) == 1000


def _in_child(work: Any) -> int:
    """Return the result of a function in a worker that is killed afterwards."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, struct.pack("<Q", int(work())))
        signal.pause()
    os.close(write)
    (result,) = struct.unpack("<Q", os.read(read, 8))
    os.close(read)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return int(result)


# ---------------------------------------------------------------- quotas


def test_a_quota_ends_with_its_period(tmp_path: Path) -> None:
    clock = Clock(1_795_600_000.0)
    quotas = Quotas(str(tmp_path / "q.sqlite"), clock)
    lease = quotas.lease("a", 1000, "day")
    assert sum(lease.take(1) == 0 for _ in range(1100)) == 1000
    assert lease.take(1) == period_at("day", clock.now)[1] - clock.now
    clock.now += DAY
    assert lease.take(600) == 0
    # Another process knows what was spent.
    other = Quotas(str(tmp_path / "q.sqlite"), clock).lease("a", 1000, "day")
    assert sum(other.take(1) == 0 for _ in range(1100)) == 400


def test_what_a_process_does_not_use_is_given_back(tmp_path: Path) -> None:
    clock = Clock()
    first, second = (Quotas(str(tmp_path / "q.sqlite"), clock) for _ in range(2))
    assert first.lease("a", 2560, "month").take(1) == 0
    assert sum(second.lease("a", 2560, "month").take(1) == 0 for _ in range(2600)) == 2550
    clock.now += 10
    first.give_back()
    assert sum(second.lease("a", 2560, "month").take(1) == 0 for _ in range(20)) == 9


def test_a_database_that_fails_refuses_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "q.sqlite"
    quotas = Quotas(str(file), Clock())
    file.write_bytes(b"damaged" * 1000)
    for extra in tmp_path.glob("q.sqlite-*"):
        extra.unlink()
    lease = quotas.lease("a", 10, "day")
    assert [lease.take(5) for _ in range(5)] == [0] * 5
    assert len(caplog.records) == 1
    with pytest.raises(OSError, match="file is not a database"):
        Quotas(str(file))


def test_a_database_that_others_hold_does_not_hold_up_each_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas_module, "_PATIENCE", 0)
    file = tmp_path / "q.sqlite"
    lease = Quotas(str(file), Clock()).lease("a", 10, "day")
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        assert lease.take(5) == 0
    # Nobody holds it any more, but it is not asked again for a while.
    assert [lease.take(5) for _ in range(5)] == [0] * 5
    later = time.monotonic() + 11
    monkeypatch.setattr(quotas_module.time, "monotonic", lambda: later)
    assert [lease.take(5) > 0 for _ in range(3)] == [False, False, True]


def test_what_a_database_leased_is_given_back_when_it_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas_module, "_PATIENCE", 0)
    clock = Clock()
    file = tmp_path / "q.sqlite"
    quotas = Quotas(str(file), clock)
    lease = quotas.lease("a", 2560, "day")
    assert lease.take(1) == 0
    clock.now += 10
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        quotas.give_back()
        # More than is leased is not counted, and takes nothing from the lease.
        assert lease.take(100) == 0
        holder.execute("COMMIT")
        # It is not asked again for a while, but at the end of the process.
        quotas.give_back()
        assert holder.execute("SELECT cost FROM spent").fetchone() == (10,)
        quotas.give_back(is_last=True)
        assert holder.execute("SELECT cost FROM spent").fetchone() == (1,)


@pytest.mark.parametrize("refunded", [False, True])
def test_many_leases_outlast_a_database_that_others_hold(
    refunded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas_module, "_PATIENCE", 0)
    monkeypatch.setattr(quotas_module, "_MOST_LEASES", 8)
    asked: list[bytes] = []
    exchanged = Quotas._exchanged

    def counted(self: Quotas, name: bytes, *arguments: Any) -> int:
        asked.append(name)
        return exchanged(self, name, *arguments)

    monkeypatch.setattr(Quotas, "_exchanged", counted)
    file = tmp_path / "q.sqlite"
    quotas = Quotas(str(file), Clock())
    for number in range(8):
        assert quotas.lease(f"old{number}", 2560, "day").take(1) == 0
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        asked.clear()
        for number in range(100):
            lease = quotas.lease(f"new{number}", 2560, "day")
            assert lease.take(1) == 0
            if refunded:
                lease.give(1)
            assert len(quotas._leases.get()) <= 16
        # Then it is not asked for a while.
        assert len(asked) == 1
        holder.execute("COMMIT")
        later = time.monotonic() + 11
        monkeypatch.setattr(quotas_module.time, "monotonic", lambda: later)
        # The next one that is new finds all others given back.
        for number in range(16):
            quotas.lease(f"newest{number}", 2560, "day")
        assert len(quotas._leases.get()) <= 8
        spent = holder.execute("SELECT cost FROM spent").fetchall()
        assert sorted(spent, reverse=True)[:8] == [(1,)] * 8


@pytest.mark.parametrize("followed", [False, True])
@pytest.mark.parametrize("used", [False, True])
def test_a_lease_that_made_room_is_given_back_after_later_use(
    used: bool, followed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas_module, "_MOST_LEASES", 4)
    file = tmp_path / "q.sqlite"
    quotas = Quotas(str(file), Clock())
    # Grants keep it.
    kept = quotas.lease("kept", 25_600, "day")
    taken = 0
    if used:
        assert kept.take(1) == 0
        taken += 1
    for number in range(5):
        quotas.lease(f"other{number}", 25_600, "day")
    if followed:
        assert quotas.lease("kept", 25_600, "day").take(1) == 0
        taken += 1
    assert kept.take(1) == 0
    quotas.give_back(is_last=True)
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT cost FROM spent").fetchall() == [(taken + 1,)]


def test_a_refunded_cost_is_given_back_after_room_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas_module, "_MOST_LEASES", 4)
    file = tmp_path / "q.sqlite"
    quotas = Quotas(str(file), Clock())
    kept = quotas.lease("kept", 100, "day")
    assert kept.take(3) == 0
    for number in range(5):
        quotas.lease(f"other{number}", 100, "day")
    kept.give(2)
    quotas.give_back(is_last=True)
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT cost FROM spent").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("period", "at", "name", "length"),
    [
        ("day", 0.0, "1970-01-01", DAY),
        ("month", 0.0, "1970-01", 31 * DAY),
        ("month", 31 * DAY + 5.0, "1970-02", 28 * DAY - 5.0),
        ("month", 364 * DAY, "1970-12", DAY),
    ],
)
def test_periods(period: str, at: float, name: str, length: float) -> None:
    assert period_at(period, at) == (name, at + length)


# ---------------------------------------------------------------- rules


def rules(*rates: dict[str, Any]) -> dict[str, Any]:
    return {"default": "allow", "rates": list(rates)}


def grant(gate: RulesGate, key: str | None = None, address: str = "192.0.2.1") -> Grant:
    shown = [] if key is None else [Shown(Form.PATH, key)]
    return gate.grant(shown, {"REMOTE_ADDR": address}, address)


def accepted(gate: RulesGate, found: Grant, spending: Spending, address: str = "192.0.2.1") -> int:
    """Return how many requests of cost 1 are accepted, up to 50."""
    assert gate.rates is not None
    for number in range(50):
        try:
            gate.rates.spend(found, {"REMOTE_ADDR": address}, spending, 1)
        except AccessError:
            return number
    return 50


def test_rates_apply_by_ability_and_address(make_gate: MakeGate) -> None:
    what = {"abilities": ["maps"], "layers": ["RGB_*"]}
    gate = make_gate(rules({"name": "maps", "what": what, "per": "address", "rate": 1e-3}))
    found = grant(gate)
    assert accepted(gate, found, MAP) == 1
    assert accepted(gate, found, TILE) == 50
    assert accepted(gate, found, MAP._replace(query="LAYERS=GREY_PNG")) == 50
    # A body that is not read may name any layer.
    assert accepted(gate, found, MAP._replace(query=None), "192.0.2.9") == 1
    assert accepted(gate, found, MAP, "192.0.2.2") == 1
    assert accepted(gate, found, MAP, "2001:db8::1") == 1
    # A client may choose any address of its network.
    assert accepted(gate, found, MAP, "2001:db8::2") == 0
    assert accepted(gate, found, MAP, "::ffff:192.0.2.2") == 0


def test_keys_and_rules_share_what_they_may(make_gate: MakeGate, credentials: Credentials) -> None:
    by_key = {"name": "each", "who": ["known"], "per": "key", "rate": 1e-3, "burst": 3}
    together = {"name": "all", "per": "rule", "rate": 1e-3, "burst": 5}
    gate = make_gate(rules(by_key, together), **credentials.section())
    one, other = (grant(gate, credentials.key()) for _ in range(2))
    assert accepted(gate, one, TILE) == 3
    # What one rate refuses is not taken from others.
    assert accepted(gate, other, TILE) == 2
    assert accepted(gate, grant(gate), TILE) == 0


def test_a_reload_begins_nothing_anew(make_gate: MakeGate, credentials: Credentials) -> None:
    """It makes another gate while the present one exists."""
    document = rules({"name": "all", "per": "address", "rate": 1e-3, "burst": 5})
    gates = [make_gate(document, **credentials.section())]
    wrong = new_key(new_id())
    assert accepted(gates[0], grant(gates[0]), TILE) == 5
    for _ in range(31):
        with pytest.raises(UnknownCredentialError):
            grant(gates[0], wrong)
    gates.append(make_gate(document, **credentials.section()))
    assert accepted(gates[1], grant(gates[1]), TILE) == 0
    with pytest.raises(AccessError) as caught:
        grant(gates[1], wrong)
    assert caught.value.status == 429


def test_a_key_has_a_rate_of_its_own(make_gate: MakeGate, credentials: Credentials) -> None:
    gate = make_gate(rules(), **credentials.section())
    assert accepted(gate, grant(gate, credentials.key(rate=0.5)), MAP) == 5
    assert accepted(gate, grant(gate, credentials.key()), MAP) == 50


def test_tiles_of_the_table_are_taken_from_the_same(make_gate: MakeGate) -> None:
    gate = make_gate(rules({"name": "all", "per": "address", "rate": 1e-3, "burst": 4}))
    assert gate.rates is not None
    found, headers = grant(gate), {"REMOTE_ADDR": "192.0.2.1"}
    assert [gate.rates.take(found, headers, None, "wmts", "") for _ in range(3)] == [True] * 3
    assert accepted(gate, found, TILE) == 1
    assert not gate.rates.take(found, headers, None, "wmts", "")
    assert gate.rates.take(found, {"REMOTE_ADDR": "192.0.2.2"}, None, "wmts", "")


def test_a_refusal_says_when_to_come_back(make_gate: MakeGate, tmp_path: Path) -> None:
    rate = {"name": 'few "maps"', "per": "rule", "rate": 0.5, "burst": 2}
    gate = make_gate(rules(rate), rate_headers=True)
    assert gate.rates is not None
    gate.rates.spend(grant(gate), {}, MAP, 2)
    with pytest.raises(AccessError, match="the rate is used up") as caught:
        gate.rates.spend(grant(gate), {}, MAP, 1)
    assert caught.value.retry_after == 2
    assert dict(caught.value.headers) == {
        "RateLimit-Policy": '"few ?maps?";q=2;w=4',
        "RateLimit": '"few ?maps?";r=0;t=2',
    }
    quota = {"name": "little", "per": "rule", "quota": {"day": 3}}
    gate = make_gate(rules(quota), quotas=str(tmp_path / "q.sqlite"))
    assert accepted(gate, grant(gate), MAP) == 3


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        ({"per": "key"}, "must have the key 'rate' or 'quota'"),
        ({"per": "key", "quota": {"day": 1}, "burst": 1}, "needs the key 'rate'"),
        ({"per": "key", "rate": 0}, "rates"),
        ({"per": "planet", "rate": 1}, "rates"),
        ({"per": "key", "rate": 1, "who": ["nobody"]}, "is not a selector"),
        ({"per": "key", "rate": 1, "what": {"abilities": ["fly"]}}, "is not an ability"),
        ({"per": "key", "rate": 1, "what": {"styles": ["normal"]}}, "styles"),
        ({"per": "key", "quota": {"day": 1}}, "rates have quotas"),
    ],
)
def test_mistakes_in_rates(make_gate: MakeGate, rate: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_gate(rules({"name": "one", **rate}))


def test_two_rates_need_two_names(make_gate: MakeGate) -> None:
    one = {"name": "one", "per": "key", "rate": 1}
    with pytest.raises(ConfigurationError, match="the rate 1 has the same name"):
        make_gate(rules(one, one))
