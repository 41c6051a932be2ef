"""What an export holds in memory does not grow with the number of its tiles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support.memory import peak_of

from mastaba_export.writers import pmtiles
from mastaba_export.writers.entry_file import EntryFile

COUNT = 400_000
"""Entries, each of 24 bytes."""


@pytest.fixture
def entries(tmp_path: Path) -> EntryFile:
    found = EntryFile(tmp_path / "out.part", pmtiles._ENTRY)
    found.start()
    numbers = np.arange(COUNT)
    for part in np.array_split(numbers, 40):
        found.add([(5 * n + 7, 1000 * n, 1000, 2) for n in part.tolist()])
        found.sync()
    return found


def test_directories_of_many_entries_take_little_memory(entries: EntryFile) -> None:
    def made() -> tuple[bytes, bytes]:
        counts = pmtiles._counted(entries.read, COUNT)
        assert counts == (True, 2 * COUNT, COUNT)
        return pmtiles._directories(entries.read, COUNT)

    (root, leaves), peak = peak_of(made)
    assert len(root) < 16_384
    assert leaves
    # All entries at once, also sorted by offset, took more than twice their size.
    assert peak < COUNT * 24 / 2
    entries.close()


def test_entries_in_another_order_are_sorted(entries: EntryFile) -> None:
    # They have the bytes of tiles that were written before.
    entries.add([(3, 2000, 1000, 1), (4, 1000, 1000, 1)])
    count = entries.sync()
    assert pmtiles._counted(entries.read, count) == (False, 2 * COUNT + 2, COUNT)
    read = pmtiles._sorted(entries.read())
    assert read(0, 3)["number"].tolist() == [3, 4, 7]
    entries.close()
