"""Work that is slowed down to a number of bytes per second."""

from __future__ import annotations

import pytest

from mastaba_server.threads import pace
from mastaba_server.threads.pace import Pace


class Clock:
    """Time that passes only while something sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(pace, "time", found)
    return found


def test_bytes_are_spent_at_the_rate(clock: Clock) -> None:
    limited = Pace(1000.0)
    for _ in range(5):
        limited.spend(2000)
    # The first ones need not wait for others.
    assert clock.now == pytest.approx(108.0)


def test_time_without_work_is_not_saved(clock: Clock) -> None:
    limited = Pace(1000.0)
    clock.now += 50
    limited.spend(1000)
    limited.spend(1000)
    assert clock.now == pytest.approx(151.0)


def test_work_that_should_stop_does_not_wait(clock: Clock) -> None:
    limited = Pace(1.0)
    limited.spend(1000)
    limited.spend(1000, lambda: clock.now > 101)
    assert 101 < clock.now < 102


def test_without_a_rate_nothing_waits(clock: Clock) -> None:
    limited = Pace(None)
    limited.spend(10**12)
    limited.spend(10**12)
    assert clock.now == 100.0
