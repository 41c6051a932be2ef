"""Trace of the request that a thread is processing: cache hits and the duration of steps.

In a thread without a trace, nothing is recorded and the overhead is negligible.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from time import perf_counter
from types import MappingProxyType
from typing import TypeVar

T = TypeVar("T")


class Trace:
    """Measurements of one request.

    Attributes:
        hits, misses: of the cache that the application reports here.
        is_timed: whether the duration of steps is wanted. They may be there without.
        steps: seconds by name of the step; the sum for a repeated step.
    """

    # Defaults: a new trace sets nothing, because each stored tile has one.
    hits = misses = 0
    is_timed = False
    steps: Mapping[str, float] = MappingProxyType({})

    def add(self, step: str, seconds: float) -> None:
        """Add the duration of a step."""
        if not self.steps:
            self.steps = {}
        assert isinstance(self.steps, dict)
        self.steps[step] = self.steps.get(step, 0.0) + seconds

    def measured(self, step: str, items: Iterator[T], apart: str = "") -> Iterator[T]:
        """Yield items, and add the time that getting them takes.

        Args:
            apart: inner step that is recorded separately.
        """
        while True:
            begun, inside = perf_counter(), self.steps.get(apart, 0.0)
            try:
                item = next(items)
            except StopIteration:
                return
            finally:
                inside = self.steps.get(apart, 0.0) - inside
                self.add(step, perf_counter() - begun - inside)
            yield item

    @property
    def cache(self) -> str:
        """``hit`` if all was cached, ``miss`` if something was not, ``-`` if nothing was needed."""
        return "miss" if self.misses else "hit" if self.hits else "-"


class _Local(threading.local):
    trace: Trace | None = None


local = _Local()
"""Contains the trace of the current thread; None if there is none."""


def begin(*, is_timed: bool = True) -> Trace:
    """Start the trace of this thread."""
    trace = local.trace = Trace()
    if is_timed:
        trace.is_timed = True
    return trace


def end() -> None:
    """End the trace of this thread."""
    local.trace = None
