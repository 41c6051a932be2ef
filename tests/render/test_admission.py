"""The limits of maps: their order, what passes whom, and how waiting ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from types import SimpleNamespace

import pytest

from mastaba.errors import ClientGoneError, OverloadedError
from mastaba.model.settings import MapLimits
from mastaba_render.admission import LIGHT, Admission
from mastaba_server import cancellation

MIB = 1024**2
HEAVY = LIGHT + 1


class Maps:
    """Threads that draw a map each, until they are stopped."""

    def __init__(self, limits: MapLimits) -> None:
        self.admission = Admission(limits)
        self.begun: list[str] = []
        self._ends: dict[str, threading.Event] = {}
        self._threads: list[threading.Thread] = []
        self._ended = 0

    def ask(self, name: str, cost: int, who: str = "") -> None:
        """Ask for a map for somebody, and wait until it is drawn or waits."""
        self._ends[name] = threading.Event()

        def draw() -> None:
            cancellation.begin(
                None,
                600,
                SimpleNamespace(latest=0.0),
                {"REMOTE_ADDR": who and f"192.0.2.{ord(who)}"},
            )
            with suppress(OverloadedError), self.admission.map(cost):
                self.begun.append(name)
                assert self._ends[name].wait(120)

        before = self._count()
        thread = threading.Thread(target=draw)
        self._threads.append(thread)
        thread.start()
        until(lambda: self._count() > before)
        self._settle()

    def end(self, name: str) -> None:
        running = self.admission.running + self.admission.waiting
        self._ends[name].set()
        until(lambda: self.admission.running + self.admission.waiting < running)
        self._ended += 1
        self._settle()

    def _settle(self) -> None:
        """Wait until each map that was admitted has begun."""
        until(lambda: len(self.begun) - self._ended == self.admission.running)

    def tear_down(self) -> None:
        for end in self._ends.values():
            end.set()
        for thread in self._threads:
            thread.join(120)
        assert (self.admission.running, self.admission.waiting) == (0, 0)

    def _count(self) -> int:
        return len(self.begun) + self.admission.waiting


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def maps(request: pytest.FixtureRequest) -> Iterator[Maps]:
    made = Maps(request.param)
    yield made
    made.tear_down()


@pytest.mark.parametrize("maps", [MapLimits(memory=100 * MIB, concurrent=4)], indirect=True)
def test_light_maps_pass_heavy_ones_that_do_not_fit(maps: Maps) -> None:
    for name in ("a", "b", "c"):
        maps.ask(name, HEAVY)
    maps.ask("light", 1)
    assert maps.begun == ["a", "b", "light"]
    maps.end("a")
    until(lambda: maps.begun[-1] == "c")


@pytest.mark.parametrize("maps", [MapLimits(memory=100 * MIB, concurrent=8)], indirect=True)
def test_memory_is_a_limit_and_what_exceeds_all_of_it_is_drawn_alone(maps: Maps) -> None:
    maps.ask("a", 60 * MIB)
    maps.ask("b", 60 * MIB)
    maps.ask("huge", 1000 * MIB)
    assert maps.begun == ["a"]
    maps.end("a")
    until(lambda: maps.begun == ["a", "b"])
    maps.end("b")
    until(lambda: maps.begun == ["a", "b", "huge"])
    maps.ask("c", 1)
    assert maps.begun == ["a", "b", "huge"]


@pytest.mark.parametrize("maps", [MapLimits(memory=20 * MIB, concurrent=2)], indirect=True)
def test_light_maps_do_not_keep_a_heavy_one_waiting_for_ever(maps: Maps) -> None:
    maps.ask("0", 1)
    maps.ask("heavy", 20 * MIB)
    for number in range(1, 200):
        maps.ask(str(number), 1)
        maps.end(str(number - 1))
        if "heavy" in maps.begun:
            break
    assert 50 < maps.begun.index("heavy") < 80


@pytest.mark.parametrize("maps", [MapLimits(concurrent=1, waiting=2)], indirect=True)
def test_more_than_may_wait_are_refused(maps: Maps) -> None:
    for name in ("a", "b", "c"):
        maps.ask(name, 1)
    with pytest.raises(OverloadedError), maps.admission.map(1):
        pass
    maps.end("a")
    until(lambda: maps.begun == ["a", "b"])


@pytest.mark.parametrize("maps", [MapLimits(concurrent=4)], indirect=True)
def test_a_client_leaves_half_of_the_places_to_others_that_wait(maps: Maps) -> None:
    for number in range(7):
        maps.ask(f"a{number}", 1, "a")
    # All of them, while nobody else waits.
    assert maps.begun == ["a0", "a1", "a2", "a3"]
    maps.ask("b0", 1, "b")
    maps.ask("b1", 1, "b")
    maps.ask("b2", 1, "b")
    maps.end("a0")
    until(lambda: maps.begun[4:] == ["b0"])
    maps.end("a1")
    until(lambda: maps.begun[4:] == ["b0", "b1"])
    # Both have half: the next one of either waits until one of its own ends.
    maps.end("b0")
    until(lambda: maps.begun[4:] == ["b0", "b1", "b2"])
    maps.end("a2")
    until(lambda: maps.begun[4:] == ["b0", "b1", "b2", "a4"])


@pytest.mark.parametrize("maps", [MapLimits(concurrent=1)], indirect=True)
def test_clients_take_turns(maps: Maps) -> None:
    order = ["a0", "a1", "a2", "a3", "b0", "c0", "b1"]
    for name in order:
        maps.ask(name, 1, name[0])
    expected = ["a0", "a1", "b0", "c0", "a2", "b1", "a3"]
    for number, name in enumerate(expected[:-1], 1):
        maps.end(name)
        until(lambda number=number: len(maps.begun) > number)
    assert maps.begun == expected


@pytest.mark.parametrize("maps", [MapLimits(concurrent=1, waiting=3)], indirect=True)
def test_a_client_that_waits_for_many_maps_refuses_nobody_else_a_place(maps: Maps) -> None:
    for number in range(4):
        maps.ask(f"a{number}", 1, "a")
    thread = threading.Thread(target=maps.ask, args=("b0", 1, "b"))
    thread.start()
    until(lambda: any(one.who == f"192.0.2.{ord('b')}" for one in maps.admission._queue))
    assert maps.admission.waiting == 3
    maps.end("a0")
    until(lambda: maps.begun == ["a0", "a1"])
    maps.end("a1")
    until(lambda: maps.begun == ["a0", "a1", "b0"])
    maps.end("b0")
    until(lambda: maps.begun == ["a0", "a1", "b0", "a2"])
    maps.ask("c0", 1, "c")
    thread.join(120)


class Client:
    def __init__(self) -> None:
        self.gone = False

    def is_gone(self) -> bool:
        return self.gone

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.mark.parametrize("maps", [MapLimits(concurrent=1)], indirect=True)
def test_waiting_ends_with_the_client_or_with_the_time_of_the_request(maps: Maps) -> None:
    maps.ask("a", 1)
    client = Client()
    cancellation.begin(client, 0.3, SimpleNamespace(latest=0.0), {})
    try:
        with pytest.raises(OverloadedError, match="longer than"), maps.admission.map(1):
            pass
        client.gone = True
        with pytest.raises(ClientGoneError), maps.admission.map(1):
            pass
    finally:
        cancellation.end()
    cancellation.check()
    assert maps.admission.waiting == 0
