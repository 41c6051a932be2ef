"""Admission of maps: which are drawn now and which wait."""

from __future__ import annotations

import threading
from bisect import insort
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import sleep
from typing import Final

from mastaba.errors import OverloadedError
from mastaba.model.settings import MapLimits
from mastaba_server import cancellation

LIGHT: Final = 16 * 1024**2
"""Bytes; a map that needs no more is light, for example 256 × 256 pixels."""

_MOST_OVERTAKING: Final = 64
"""Maps that may overtake one that has waited longer."""

_GLANCE: Final = 0.2
"""Seconds after which a waiting map checks whether its client is still connected."""


_YIELDED: Final = 0.05
"""Seconds that long work pauses while maps wait."""


@dataclass(slots=True, eq=False)
class _Waiting:
    cost: int
    who: str
    round: int = 0
    overtaken: int = 0
    is_refused: bool = False
    turn: threading.Event = field(default_factory=threading.Event)


class Admission:
    """Admits maps while there is room. Shared by all threads.

    Clients take turns, and the maps of one are admitted in order. Lighter maps may overtake a heavy
    one that does not fit, up to a limit. While maps of several clients wait, none of them begins
    more than half of the maps that may run; if too many wait, those of the client with most of them
    give way.

    Attributes:
        running: maps being drawn now.
    """

    def __init__(self, limits: MapLimits) -> None:
        self.limits = limits
        self.running = 0
        self._heavy = 0
        self._memory = 0
        self._queue: list[_Waiting] = []
        self._round = 0
        self._running_of: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """Number of waiting maps."""
        return len(self._queue)

    @contextmanager
    def map(self, cost: int) -> Iterator[None]:
        """Wait for the turn of a map; draw and encode it inside this context.

        Args:
            cost: upper estimate of the bytes that it needs.

        Raises:
            OverloadedError: too many maps are waiting, or the request has timed out.
            ClientGoneError: the client has disconnected.
        """
        with cancellation.aside():
            waiting = _Waiting(cost, cancellation.who())
            try:
                self._enter(waiting)
                yield
            finally:
                with self._lock:
                    if waiting.turn.is_set():
                        self._count(waiting, -1)
                    elif waiting in self._queue:
                        self._queue.remove(waiting)
                    self._admit()

    def give_way(self) -> None:
        """Let waiting maps begin first: return at once if there are none, or after 50 ms."""
        if self._queue:
            sleep(_YIELDED)

    def _enter(self, waiting: _Waiting) -> None:
        with self._lock:
            is_next = not self._queue and self._fits(waiting.cost)
            if len(self._queue) >= self.limits.waiting and not is_next:
                self._make_room(waiting.who)
            # One map of each client in each round.
            own = [other.round for other in self._queue if other.who == waiting.who]
            waiting.round = max(own[-1] + 1 if own else 0, self._round)
            insort(self._queue, waiting, key=lambda other: other.round)
            self._admit()
        while not waiting.turn.wait(_GLANCE):
            if waiting.is_refused:
                break
            cancellation.check()
        if waiting.is_refused:
            raise _overloaded()

    def _make_room(self, who: str) -> None:
        """Refuse the last map of the client that waits for most of them.

        Raises:
            OverloadedError: it is the client that asks for another one.
        """
        counts = Counter(other.who for other in self._queue)
        if not counts:
            raise _overloaded()
        most, count = counts.most_common(1)[0]
        if counts[who] + 1 >= count:
            raise _overloaded()
        last = next(other for other in reversed(self._queue) if other.who == most)
        self._queue.remove(last)
        last.is_refused = True

    def _admit(self) -> None:
        """Admit the maps that fit, from the head of the queue."""
        passed: list[_Waiting] = []
        for waiting in self._queue[:]:
            if self._has_its_share(waiting.who):
                continue
            if self._fits(waiting.cost):
                self._queue.remove(waiting)
                self._count(waiting, 1)
                self._round = max(self._round, waiting.round)
                waiting.turn.set()
                for other in passed:
                    other.overtaken += 1
            elif waiting.overtaken >= _MOST_OVERTAKING:
                return
            else:
                passed.append(waiting)

    def _has_its_share(self, who: str) -> bool:
        """Return whether a client must leave what is free to others that wait."""
        return self._running_of[who] >= max(1, self.limits.concurrent // 2) and any(
            other.who != who for other in self._queue
        )

    def _fits(self, cost: int) -> bool:
        if not self.running:
            return True
        return (
            self.running < self.limits.concurrent
            and self._memory + cost <= self.limits.memory
            and (cost <= LIGHT or self._heavy < max(1, self.limits.concurrent // 2))
        )

    def _count(self, waiting: _Waiting, sign: int) -> None:
        self.running += sign
        self._memory += sign * waiting.cost
        self._heavy += sign * (waiting.cost > LIGHT)
        self._running_of[waiting.who] += sign
        if not self._running_of[waiting.who]:
            del self._running_of[waiting.who]


def _overloaded() -> OverloadedError:
    return OverloadedError("too many maps are requested at the moment")
