"""The memory that a call needs."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import TypeVar

import pytest

from mastaba_server import body
from mastaba_server.web import pieces

T = TypeVar("T")

IN_MEMORY = 1 << 16
"""Bytes of answers that are kept in memory with `small_pieces`."""


def peak_of(call: Callable[[], T]) -> tuple[T, int]:
    """Return the result of a call, and the most bytes that were allocated in it at a time."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        result = call()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return result, peak - before


def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write answers larger than `IN_MEMORY` to files: small ones show what large ones need."""
    monkeypatch.setattr(body, "IN_MEMORY", IN_MEMORY)
    monkeypatch.setattr(pieces, "_PIECE", 1 << 14)
