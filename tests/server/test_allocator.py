"""Freed memory that the C library keeps, measured in a new process."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from mastaba_server.processes.allocator import return_freed_memory

_PROGRAM = """
import numpy as np
from mastaba_server.processes.allocator import keep_freed_memory, return_freed_memory

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))

keep_freed_memory()
tiles = [np.ones(2**18, np.uint8) for _ in range(400)]
full = resident()
# Every tenth stays, as in a cache of decoded tiles.
tiles = tiles[9::10]
freed = resident()
return_freed_memory()
print(full - freed, full - resident())
"""


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not glibc"
)
def test_freed_memory_between_blocks_in_use_is_returned() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", _PROGRAM], check=True, capture_output=True, text=True
    ).stdout
    kept, returned = (int(word) / 1024 for word in shown.split())
    assert kept < 10 < 80 < returned  # of 90 MiB that were freed


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    return_freed_memory()
