"""What happened in the request that a thread is answering: cache hits, and the time of steps.

Nothing is noted, and next to nothing spent, in a thread that has not begun a trace.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Trace:
    """Notes on one request.

    Attributes:
        hits, misses: of the cache of slab indices.
        steps: seconds by name of the step; a step that was taken often counts its sum.
    """

    hits: int = 0
    misses: int = 0
    steps: dict[str, float] = field(default_factory=dict)

    def add(self, step: str, seconds: float) -> None:
        """Note the time of a step."""
        self.steps[step] = self.steps.get(step, 0.0) + seconds

    @property
    def cache(self) -> str:
        """``hit`` when all indices were known, ``miss`` when one was not, ``-`` without any."""
        return "miss" if self.misses else "hit" if self.hits else "-"


class _Local(threading.local):
    trace: Trace | None = None


_local = _Local()


def begin() -> Trace:
    """Begin to take notes on what this thread does."""
    trace = _local.trace = Trace()
    return trace


def end() -> None:
    """Take no more notes in this thread."""
    _local.trace = None


def current() -> Trace | None:
    """Return the notes of this thread; None when none are taken."""
    return _local.trace


def pulled(name: str, items: Iterable[T], apart: str) -> Iterator[T]:
    """Yield items, and note the time that getting them takes.

    Args:
        apart: a step inside that is noted by itself.
    """
    notes = _local.trace
    if notes is None:
        yield from items
        return
    iterator = iter(items)
    while True:
        begun, inside = perf_counter(), notes.steps.get(apart, 0.0)
        try:
            item = next(iterator)
        except StopIteration:
            return
        finally:
            inside = notes.steps.get(apart, 0.0) - inside
            notes.add(name, perf_counter() - begun - inside)
        yield item


@contextmanager
def step(name: str) -> Iterator[None]:
    """Note the time of what is done inside. For steps of a map, not of a tile."""
    trace = _local.trace
    if trace is None:
        yield
        return
    begun = perf_counter()
    try:
        yield
    finally:
        trace.add(name, perf_counter() - begun)
