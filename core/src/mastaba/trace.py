"""Trace of the request that a thread is processing: cache hits and the duration of steps.

In a thread without a trace, nothing is recorded and the overhead is negligible.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True)
class Trace:
    """Measurements of one request.

    Attributes:
        hits: hits of the slab index cache.
        misses: misses of the slab index cache.
        steps: total seconds of each step, by name.
    """

    hits: int = 0
    misses: int = 0
    steps: dict[str, float] = field(default_factory=dict)

    def add(self, step: str, seconds: float) -> None:
        """Add the duration of a step."""
        self.steps[step] = self.steps.get(step, 0.0) + seconds

    @property
    def cache(self) -> str:
        """``hit`` if all indices were cached, ``miss`` if one was not, ``-`` if none was needed."""
        return "miss" if self.misses else "hit" if self.hits else "-"


class _Local(threading.local):
    trace: Trace | None = None


_local = _Local()


def begin() -> Trace:
    """Start the trace of this thread."""
    trace = _local.trace = Trace()
    return trace


def end() -> None:
    """End the trace of this thread."""
    _local.trace = None


def current() -> Trace | None:
    """Return the trace of this thread, or None."""
    return _local.trace


def timed(name: str, function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that its calls are recorded as a step."""

    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with step(name):
            return function(*args, **kwargs)

    return wrapped


@contextmanager
def step(name: str) -> Iterator[None]:
    """Record the duration of the ``with`` block. Use it for steps of a map, not of a tile."""
    trace = _local.trace
    if trace is None:
        yield
        return
    start = perf_counter()
    try:
        yield
    finally:
        trace.add(name, perf_counter() - start)
