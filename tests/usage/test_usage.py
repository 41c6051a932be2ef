"""Counters survive their processes, and sums are those of the answers."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import random
import signal
import sqlite3
import time
from collections import Counter, namedtuple
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mastaba_usage import cells, process
from mastaba_usage.cells import HEAT_SUFFIX, OTHER, Cell, CellFile, is_closed, read_cells
from mastaba_usage.database import REMOVED, Database
from mastaba_usage.errors import UsageError
from mastaba_usage.meter import UsageMeter, outcome
from mastaba_usage.process import counters
from mastaba_usage.roll_up import roll_up

DAY = "2026-11-24"
EVER = ("0000-00-00", "9999-99-99")


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path, "here")


def sums(database: Database, *by: str) -> dict[tuple[Any, ...], tuple[int, int]]:
    rows = database.sums(*EVER, by)
    return {tuple(row[name] for name in by): (row["hits"], row["bytes"]) for row in rows}


def count(directory: Path, *hits: tuple[Cell, int]) -> CellFile:
    file = CellFile(directory, DAY)
    for cell, size in hits:
        file.add(file.number(cell), size)
    return file


def test_sums_are_those_of_the_hits(tmp_path: Path, database: Database) -> None:
    tile = Cell("wmts", layer="ORTHO", level="14", ability="tiles", key="7f3k9q2d")
    other = Cell("wms", layer="PLAN", status="missing")
    file = count(tmp_path, (tile, 100), (tile, 50), (other, 7))
    roll_up(tmp_path, database)
    roll_up(tmp_path, database)
    assert sums(database, "service", "layer", "key") == {
        ("wmts", "ORTHO", "7f3k9q2d"): (2, 150),
        ("wms", "PLAN", "anonymous"): (1, 7),
    }
    file.add(file.number(tile), 1)
    roll_up(tmp_path, database)
    assert sums(database, "service")[("wmts",)] == (3, 151)
    assert sums(database, "month", "level") == {
        ("2026-11", "14"): (3, 151),
        ("2026-11", ""): (1, 7),
    }


def test_files_of_ended_processes_are_removed_once_counted(
    tmp_path: Path, database: Database
) -> None:
    file = count(tmp_path, (Cell("tms"), 5))
    (path,) = tmp_path.glob("*.cells")
    roll_up(tmp_path, database)
    assert path.exists()
    file.close()
    assert is_closed(path)
    roll_up(tmp_path, database)
    assert not path.exists()
    assert sums(database, "service") == {("tms",): (1, 5)}
    with sqlite3.connect(database.path) as opened:
        assert opened.execute("SELECT count(*) FROM position").fetchone() == (0,)


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.thorough)])
def test_killed_processes_lose_one_hit_at_most(
    kills: int, tmp_path: Path, database: Database
) -> None:
    """A roll-up that is killed counts nothing twice either."""
    log = tmp_path / "log"
    source = random.Random(5)
    lines = 0
    for number in range(kills):
        pid = os.fork()
        if pid == 0:
            _answer_requests(tmp_path, log, number)
        adders = []
        for _ in range(2):
            adders.append(os.fork())
            if adders[-1] == 0:
                while True:
                    roll_up(tmp_path, database)
        lines += 200 + source.randrange(300)
        while log.exists() is False or log.read_bytes().count(b"\n") < lines:
            time.sleep(0.005)
        for one in (*adders, pid):
            os.kill(one, signal.SIGKILL)
            os.waitpid(one, 0)
        lines = log.read_bytes().count(b"\n")
    roll_up(tmp_path, database)
    assert not list(tmp_path.glob("*.cells"))
    expected: Counter[tuple[str, str, str]] = Counter()
    sizes: Counter[tuple[str, str, str]] = Counter()
    for line in log.read_text().splitlines():
        service, layer, key, size = line.split()
        expected[service, layer, key] += 1
        sizes[service, layer, key] += int(size)
    found = sums(database, "service", "layer", "key")
    hits = {key: hits for key, (hits, _) in found.items()}
    # The hit is counted before its line is written.
    assert all(hits.get(key, 0) >= times for key, times in expected.items())
    assert sum(hits.values()) - lines <= kills
    assert sum(size for _, size in found.values()) - sum(sizes.values()) <= kills * 9


def _answer_requests(directory: Path, log: Path, seed: int) -> None:
    source = random.Random(seed)
    file = CellFile(directory, DAY)
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        service, layer, key = (source.choice(names) for names in ("ab", "cdefg", "hijk"))
        size = source.randrange(10)
        file.add(file.number(Cell(service, layer=layer, key=key)), size)
        os.write(opened, f"{service} {layer} {key} {size}\n".encode())


def test_a_name_that_was_written_in_part_is_not_read(tmp_path: Path) -> None:
    count(tmp_path, (Cell("wms"), 1), (Cell("wmts"), 2))
    (path,) = tmp_path.glob("*.cells")
    data = bytearray(path.read_bytes())
    place = data.rindex(b'"wmts"')
    data[place] ^= 1
    path.write_bytes(data)
    assert [cell.service for cell, _ in read_cells(path)] == [OTHER, "wms"]


def test_cells_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "MOST_CELLS", 30)
    monkeypatch.setattr(cells, "_KEPT", 10)
    file = CellFile(tmp_path, DAY)
    for number in range(100):
        file.add(file.number(Cell("wms", layer=f"L{number}", key=f"k{number}")), 1)
    (path,) = tmp_path.glob("*.cells")
    found = dict(read_cells(path))
    assert len(found) <= 30
    assert sum(counts.hits for counts in found.values()) == 100
    assert any(cell.layer == OTHER and cell.key.startswith("k") for cell in found)
    assert Cell("wms", layer=OTHER, key=OTHER) in found
    assert file.is_full


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=1m"):
        pytest.skip(f"no file system can be mounted here: {os.strerror(ctypes.get_errno())}")
    try:
        yield folder
    finally:
        libc.umount2(os.fsencode(folder), 2)


@pytest.mark.thorough
def test_a_full_disk_ends_no_process(small_disk: Path) -> None:
    """To write a page of a mapped file that the disk has no room for would be SIGBUS."""
    pid = os.fork()
    if pid == 0:
        file = CellFile(small_disk, DAY)
        (small_disk / "filler").write_bytes(bytes(600_000))
        for number in range(5000):
            file.add(file.number(Cell("wms", layer=f"L{number}")), 1)
        os._exit(0 if file.is_full else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    (path,) = small_disk.glob("*.cells")
    found = dict(read_cells(path))
    assert sum(counts.hits for counts in found.values()) == 5000
    assert found[Cell(OTHER)].hits
    with contextlib.suppress(OSError), (small_disk / "filler").open("ab", buffering=0) as filler:
        while filler.write(bytes(4096)):
            pass
    assert process.Counters(small_disk).file() is None


@pytest.mark.thorough
def test_what_is_new_has_cells_of_its_own_once_the_disk_has_room_again(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Group = namedtuple("Group", "layer level")
    now = 1_000_000.0
    monkeypatch.setattr(process.time, "time", lambda: now)
    meter = UsageMeter(None, small_disk)  # type: ignore[arg-type]
    answer: Any = SimpleNamespace(status=200, body=b"x")
    hits = 0

    def count_tile(layer: str) -> None:
        nonlocal hits
        hits += 1
        meter.tile(None, Group(layer, "0"), answer, "wmts", "")

    count_tile("first")
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("ab", buffering=0) as stream:
        while stream.write(bytes(4096)):
            pass
    for number in range(3000):
        count_tile(f"L{number}")
    for _ in range(20):
        now += 30
        count_tile("last")
        count_tile("first")
    assert len(caplog.records) == 1
    filler.unlink()
    now += 60
    for _ in range(2):
        count_tile("last")
    found: Counter[str] = Counter()
    for path in small_disk.glob("*.cells"):
        for cell, counts in read_cells(path):
            found[cell.layer] += counts.hits
    assert found["last"] == 2
    assert found["first"] == 21
    assert found.total() == hits
    assert [one.name for one in small_disk.iterdir() if one.suffix == ".part"] == []


@pytest.mark.parametrize("has_disk", [False, True])
def test_blocks_have_cells_of_their_own_once_there_is_room_again(
    has_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the file was made, or tried to be made, less than a minute before it was full."""
    Group = namedtuple("Group", "layer level")
    now = 1_000_000.0
    monkeypatch.setattr(process.time, "time", lambda: now)
    meter = UsageMeter(None, tmp_path, has_heat=True)  # type: ignore[arg-type]
    answer: Any = SimpleNamespace(status=200, body=b"x")

    def count_block() -> None:
        meter.tile(None, Group("L", "0"), answer, "wmts", "", (0, 0))

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(cells, "_STEP", 0)
        meter.tile(None, Group("L", "0"), answer, "wmts", "", None)
        assert counters(tmp_path, HEAT_SUFFIX).file() is not None
        now += 30
        if has_disk:
            full.setattr(cells, "MOST_CELLS", cells._KEPT)
        else:
            full.setattr(CellFile, "_reserve", fail)
        count_block()
    now += 60
    for _ in range(3):
        count_block()
    files = tmp_path.glob("*.heat")
    counted = [found for path in files for found in read_cells(path)]
    assert sum(counts.hits for _, counts in counted) == 4
    assert sum(counts.hits for cell, counts in counted if cell.layer == "L") == 3


def test_a_damaged_database_is_reported(tmp_path: Path, database: Database) -> None:
    count(tmp_path, *((Cell("wms", layer=f"L{number}"), 1) for number in range(500)))
    roll_up(tmp_path, database)
    with sqlite3.connect(database.path) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(database.path.read_bytes())
    # All pages but the first one, which says what the file is and which tables it has.
    data[8192:] = b"\xff" * (len(data) - 8192)
    database.path.write_bytes(data)
    for call in (
        lambda: database.forget("one"),
        lambda: database.retire(DAY, 0),
        database.logs,
        lambda: database.blocks(*EVER, "L1"),
        lambda: sums(database, "layer"),
        lambda: roll_up(tmp_path, database),
    ):
        with pytest.raises(UsageError, match="cannot be used"):
            call()


def test_counters_are_written_to_the_disk_while_they_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(cells.os, "fdatasync", lambda fd: synced.append(os.fstat(fd).st_ino))
    file = count(tmp_path, (Cell("wms"), 1))
    (path,) = tmp_path.glob("*.cells")
    file.flush()
    file.close()
    file.flush()
    assert synced == [path.stat().st_ino]


def test_a_file_that_is_something_else_stops_nothing(tmp_path: Path, database: Database) -> None:
    (tmp_path / f"{DAY}-1-aa.cells").write_bytes(b"x" * 100)
    count(tmp_path, (Cell("wms"), 1))
    roll_up(tmp_path, database)
    assert sums(database, "service") == {("wms",): (1, 1)}


def test_nodes_are_merged_by_day(tmp_path: Path, database: Database) -> None:
    other = tmp_path / "other"
    other.mkdir()
    there = Database(other, "there")
    count(tmp_path, (Cell("wms"), 1))
    file = count(other, (Cell("wms"), 10))
    roll_up(tmp_path, database)
    roll_up(other, there)
    for _ in range(2):
        database.merge(there.path)
        assert sums(database, "service") == {("wms",): (2, 11)}
    file.add(file.number(Cell("wms")), 10)
    roll_up(other, there)
    database.merge(there.path)
    assert sums(database, "service") == {("wms",): (3, 21)}
    with pytest.raises(UsageError, match="is the database itself"):
        database.merge(database.path)
    with pytest.raises(UsageError, match="there is no database"):
        database.merge(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="of the node"):
        Database(other, "here").merge(database.path)


def test_a_forgotten_key_is_not_counted_by_name_again(tmp_path: Path, database: Database) -> None:
    file = count(tmp_path, (Cell("wms", key="one"), 1), (Cell("wms", key="two"), 1))
    roll_up(tmp_path, database)
    assert database.forget("one") == 1
    file.add(file.number(Cell("wms", key="one")), 5)
    roll_up(tmp_path, database)
    assert sums(database, "key") == {(REMOVED,): (2, 6), ("two",): (1, 1)}


def test_a_forgotten_key_does_not_come_back_from_another_node(
    tmp_path: Path, database: Database
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    there = Database(other, "there")
    count(other, (Cell("wms", key="one", label="One"), 1))
    roll_up(other, there)
    database.forget("one")
    database.merge(there.path)
    assert sums(database, "key", "label") == {(REMOVED, ""): (1, 1)}


def test_old_days_are_removed(tmp_path: Path, database: Database) -> None:
    count(tmp_path, (Cell("wms"), 1))
    roll_up(tmp_path, database)
    database.retire(DAY, 0)
    assert sums(database, "day")
    database.retire("2026-11-25", time.time() + 1)
    assert not sums(database, "day")


def test_the_most_used_blocks_are_kept(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mastaba_usage.database.MOST_BLOCKS", 2)
    file = CellFile(tmp_path, DAY, cells.HEAT_SUFFIX)
    for hits in (30, 10, 20):
        for _ in range(hits):
            file.add(file.number(Cell("", "", "ORTHO", "14", f"5/{hits}", "")), 0)
    file.add(file.number(Cell("", "", OTHER, "", "9/9", "")), 0)
    for _ in range(2):
        roll_up(tmp_path, database)
        assert database.blocks(*EVER, "ORTHO") == [("14", 5, 30, 30), ("14", 5, 20, 20)]
    file.close()
    roll_up(tmp_path, database)
    assert not list(tmp_path.glob("*.heat"))
    database.retire("2026-11-25", 0)
    assert database.blocks(*EVER, "ORTHO") == []


def test_a_database_of_the_version_before_is_used(tmp_path: Path, database: Database) -> None:
    count(tmp_path, (Cell("wms"), 1))
    roll_up(tmp_path, database)
    with sqlite3.connect(database.path) as opened:
        opened.execute("DROP TABLE heat")
        opened.execute("PRAGMA user_version = 2")
    assert database.blocks(*EVER, "ORTHO") == []
    assert sums(database, "service") == {("wms",): (1, 1)}


def test_full_files_of_a_day_are_followed_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(process.time, "time", lambda: now)
    counters = process.Counters(tmp_path)
    first = counters.file()
    counters.renew()
    assert counters.file() is first
    now += 60
    counters.renew()
    assert counters.file() is not first


def test_a_clock_that_is_set_back_begins_the_file_of_its_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, everything is counted in a day to come, until that day is over."""
    now = 4_000_000_000.0
    monkeypatch.setattr(process.time, "time", lambda: now)
    counters = process.Counters(tmp_path)
    first = counters.file()
    now = 1_000_000_000.0
    second = counters.file()
    assert first is not None
    assert second is not None
    assert (first.day, second.day) == ("2096-10-02", "2001-09-09")
    now += 3600
    assert counters.file() is second


def test_on_a_full_disk_a_file_is_tried_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt makes and removes a file; with many new cells, each asks for one."""
    now, tried = 1_000_000.0, 0
    monkeypatch.setattr(process.time, "time", lambda: now)
    counters = process.Counters(tmp_path)
    first = counters.file()

    def fail(*_: Any) -> CellFile:
        nonlocal tried
        tried += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(process, "CellFile", fail)
        for _ in range(300):
            now += 1
            counters.renew()
            assert counters.file() is first
    assert tried == 5
    now += 60
    assert counters.file() is not first


def test_without_a_file_for_a_new_day_usage_counts_for_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(process.time, "time", lambda: now)
    counters = process.Counters(tmp_path)
    first = counters.file()

    def fail(*_: Any) -> CellFile:
        raise OSError("disk full")

    with monkeypatch.context() as full:
        full.setattr(process, "CellFile", fail)
        now += 86400
        assert counters.file() is first
        assert caplog.messages == ["usage is counted for 1970-01-12: disk full"]
        caplog.clear()
        assert process.Counters(tmp_path).file() is None
        assert caplog.messages == ["usage is not counted: disk full"]
    now += 10
    second = counters.file()
    assert second is not None
    assert second.day == "1970-01-13"


def test_each_day_and_each_process_has_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(process.time, "time", lambda: now)
    counters = process.Counters(tmp_path)
    first = counters.file()
    assert first is counters.file()
    now += 86400
    second = counters.file()
    assert second is not None
    assert first is not None
    assert (first.day, second.day) == ("1970-01-12", "1970-01-13")
    pid = os.fork()
    if pid == 0:
        os._exit(counters.file() is second)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_directory_that_cannot_be_written_stops_no_request(tmp_path: Path) -> None:
    assert process.Counters(tmp_path / "nowhere").file() is None


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, "ok"),
        (204, "ok"),
        (304, "unchanged"),
        (404, "missing"),
        (401, "refused"),
        (403, "refused"),
        (429, "limited"),
        (400, "error"),
        (500, "error"),
    ],
)
def test_outcomes(status: int, expected: str) -> None:
    assert outcome(status) == expected
