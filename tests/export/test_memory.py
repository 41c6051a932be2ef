"""What an export holds in memory does not grow with the number of its tiles."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks.export import written
from benchmarks.formula import SLAB, FormulaPlugin
from tests.support.memory import peak_of

from mastaba.plugins.manager import Plugins
from mastaba.wsgi import create_application
from mastaba_export import run as run_module
from mastaba_export.journal import Journal
from mastaba_export.plan import Unit, plan
from mastaba_export.request import ExportRequest
from mastaba_export.run import run
from mastaba_export.sources import Batch
from mastaba_export.writers import dedup, pmtiles
from mastaba_export.writers.dedup import Seen
from mastaba_export.writers.entry_file import EntryFile
from mastaba_export.writers.pmtiles import PMTilesWriter
from mastaba_writer.descriptor import LevelPlan
from mastaba_writer.installation import write_installation
from mastaba_writer.pyramids import write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

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


def test_payloads_that_were_seen_take_little_memory(tmp_path: Path) -> None:
    count = 60_000
    with Journal(tmp_path / "journal") as journal:

        def made() -> Seen:
            found = Seen(journal, everything=True)
            for number in range(count):
                digest, place = found.find(b"%d" % number)
                assert place is None
                found.add(digest, len(b"%d" % number), 40_000 * number)
                if number % 1000 == 999:
                    found.sync()
            return found

        seen, peak = peak_of(made)
        # One block for 262,144 of them. Dicts of tuples took 270 bytes for each.
        assert peak < 16 << 20

        def restored() -> Seen:
            found = Seen(journal, everything=True)
            found.restore()
            return found

        again, peak = peak_of(restored)
        assert peak < 24 << 20
        for number in range(0, count, 7):
            payload = b"%d" % number
            for one in (seen, again):
                assert one.find(payload)[1] == 40_000 * number
                assert one.find(payload + b" ")[1] is None


def test_no_more_payloads_are_remembered_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedup, "_MOST", 5)
    with Journal(tmp_path / "journal") as journal:
        seen = Seen(journal, everything=False)
        for number in range(100):
            digest, place = seen.find(b"%d" % number)
            assert place is None
            seen.add(digest, 2, number)
        assert [seen.find(b"%d" % n)[1] for n in range(10, 20)] == [None] * 10
        seen = Seen(journal, everything=False)
        for number in range(10, 20):
            seen.add(seen.find(b"%d" % number)[0], 2, number)
        found = [seen.find(b"%d" % number)[1] for number in range(10, 20)]
        assert found == [10, 11, 12, 13, 14, *[None] * 5]


@pytest.mark.parametrize(("slabs", "most"), [(1, 1), (2, 2), (50, 4)])
def test_few_large_slabs_are_read_at_a_time(
    slabs: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one is read, several times its bytes are held."""
    size = 500
    monkeypatch.setattr(run_module, "_READING", slabs * SLAB**2 * size)
    monkeypatch.setattr(run_module, "_MOST_AHEAD", 4)
    monkeypatch.setattr(run_module, "_FURTHER", 1)
    found: list[int] = []
    reading: list[Unit] = []
    fetch = PMTilesWriter.fetch

    def counted(self: PMTilesWriter, unit: Unit) -> Batch:
        reading.append(unit)
        found.append(len(reading))
        try:
            return fetch(self, unit)
        finally:
            reading.remove(unit)

    monkeypatch.setattr(PMTilesWriter, "fetch", counted)
    server = written(tmp_path, 40 * SLAB**2, size, 5)
    site = create_application(str(server), Plugins(extra={"formula": FormulaPlugin()})).site
    made = plan(ExportRequest.from_inputs({"layer": "IMAGES", "format": "pmtiles"}), site)
    assert run(made, tmp_path / "out.pmtiles").tiles >= 40 * SLAB**2 - SLAB**2
    assert max(found) <= most
    site.close_services()


@pytest.mark.parametrize(
    ("units", "largest"),
    [
        ([(20, 500), (20, 500), (256, 6), (16, 5)], 500),
        ([(1, 900)], 900),
        ([(1, 900), (2, 950), (1, 20)], 950),
        ([(3, 900), (16, 7), (1, 900), (256, 8)], 8),
        ([(256, 0), (0, 100)], 100),
    ],
)
def test_the_largest_tiles_count_but_in_units_of_very_few(
    units: list[tuple[int, int]], largest: int
) -> None:
    """Slabs with few tiles of land, and then full ones of sea, may come before others of land."""
    sizes = run_module._TileSizes()
    for count, size in units:
        read = size * (count or 1)
        sizes.add(Batch((), "", read, count, read), count or 1)
    assert sizes.largest == largest


@pytest.mark.parametrize("slabs", [1, 3])
@pytest.mark.parametrize("first", [100, SLAB**2 * 100])
def test_few_bytes_are_read_at_a_time_after_coarse_levels(
    slabs: int, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slabs of coarse levels have few tiles, and are read first. One large tile means little."""
    monkeypatch.setattr(run_module, "_READING", slabs * SLAB**2 * 100)
    monkeypatch.setattr(run_module, "_MOST_AHEAD", 8)
    found: list[int] = []
    reading: dict[Unit, int] = {}
    fetch = PMTilesWriter.fetch

    def counted(self: PMTilesWriter, unit: Unit) -> Batch:
        reading[unit] = 100 * min(4 ** self.plan.levels[unit.level].zoom, SLAB**2)
        found.append(sum(reading.values()))
        time.sleep(0.002)
        try:
            return fetch(self, unit)
        finally:
            del reading[unit]

    monkeypatch.setattr(PMTilesWriter, "fetch", counted)

    def tile(level: str, row: int, column: int) -> bytes:
        size = first if level == "0" else 100
        return b"\x89PNG" + f"{level} {row} {column}".encode().ljust(size - 4, b"x")

    images = write_pyramid(
        tmp_path / "pyramids",
        "IMAGES",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan(str(zoom), 0, 2**zoom - 1, 0, 2**zoom - 1) for zoom in range(7)],
        tile=tile,
        tiles_per_width=SLAB,
        tiles_per_height=SLAB,
    )
    server = write_installation(tmp_path, layers={"IMAGES": images}, services=["wmts"])
    site = create_application(str(server), Plugins()).site
    made = plan(ExportRequest.from_inputs({"layer": "IMAGES", "format": "pmtiles"}), site)
    result = run(made, tmp_path / "out.pmtiles", threads=8)
    assert result.tiles == sum(4**zoom for zoom in range(7))
    assert SLAB**2 * 100 <= max(found) <= slabs * SLAB**2 * 100
    # The overhead of slabs leaves room for one less.
    assert max(found) >= max(slabs - 1, 1) * SLAB**2 * 100
    site.close_services()
