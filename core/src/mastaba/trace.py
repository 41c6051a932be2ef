"""Trace of the request that a thread is processing: cache hits and the duration of steps.

In a thread without a trace, nothing is recorded and the overhead is negligible.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Trace:
    """Measurements of one request.

    Attributes:
        begun: of `perf_counter`.
        hits, misses: of the cache of slab indices.
        steps: seconds by name of the step; the sum for a repeated step.
    """

    begun: float = field(default_factory=perf_counter)
    hits: int = 0
    misses: int = 0
    steps: dict[str, float] = field(default_factory=dict)

    def add(self, step: str, seconds: float) -> None:
        """Add the duration of a step."""
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
        """``hit`` if all indices were cached, ``miss`` if one was not, ``-`` if none was needed."""
        return "miss" if self.misses else "hit" if self.hits else "-"


class _Local(threading.local):
    trace: Trace | None = None


local = _Local()
"""Contains the trace of the current thread; None if there is none."""


def begin() -> Trace:
    """Start the trace of this thread."""
    trace = local.trace = Trace()
    return trace


def end() -> None:
    """End the trace of this thread."""
    local.trace = None
