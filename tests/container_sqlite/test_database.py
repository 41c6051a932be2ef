"""Connections to files of strangers: threads, forks, replacements and hostile schemas."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.sizes import sized

from mastaba.errors import ContainerFormatError, StorageUnavailableError
from mastaba_sqlite_tiles import database
from mastaba_sqlite_tiles.database import DatabaseFile, _opened

FIND = "SELECT value FROM facts WHERE id = ?"


def write(path: Path, value: str, *more: str, age: float = 0) -> Path:
    part = path.with_name(f"{path.name}.{threading.get_ident()}")
    part.unlink(missing_ok=True)
    connection = sqlite3.connect(part)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("CREATE TABLE facts (id INTEGER PRIMARY KEY, value)")
    connection.executemany("INSERT INTO facts VALUES (?, ?)", [(n, value) for n in range(100)])
    connection.commit()
    for statement in more:
        connection.execute(statement)
    connection.commit()
    connection.close()
    os.utime(part, (time.time() - age,) * 2)
    part.replace(path)
    return path


def descriptors(path: Path) -> int:
    names = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    return sum(os.path.realpath(name).startswith(str(path)) for name in names)


def test_a_replaced_file_is_another_generation(tmp_path: Path) -> None:
    file = DatabaseFile(str(write(tmp_path / "a", "one")), "a")
    first, row = file.one(FIND, (1,))
    assert row == ("one",)
    assert first.is_immutable
    write(tmp_path / "a", "three")
    second, row = file.one(FIND, (1,))
    assert row == ("three",)
    assert second.version != first.version


@pytest.mark.parametrize("is_calm", [False, True])
@pytest.mark.parametrize(
    ("replacements", "readers"),
    [(12, 4), pytest.param(*sized((40, 20), (200, 50)), marks=pytest.mark.thorough)],
)
def test_nothing_is_mixed_while_a_file_is_replaced(
    tmp_path: Path, replacements: int, readers: int, *, is_calm: bool
) -> None:
    """Calm files are replaced several times before they are examined again."""
    path = write(tmp_path / "a", "0", age=3600 if is_calm else 0)
    file = DatabaseFile(str(path), "a")
    versions: dict[str, set[str]] = {}
    stop = threading.Event()

    def read() -> list[tuple[str, str]]:
        found = []
        while not stop.is_set():
            with file.reading() as (generation, connection):
                values = {connection.one(FIND, (n,)) for n in range(20)}
            assert len(values) == 1
            ((value,),) = values
            found.append((generation.version, value))
        return found

    with ThreadPoolExecutor(readers) as pool:
        runs = [pool.submit(read) for _ in range(readers)]
        for number in range(replacements):
            write(path, "x" * number, age=3000 - number if is_calm else 0)
            stop.wait(0.04)
        stop.set()
        for run in runs:
            for version, value in run.result():
                versions.setdefault(version, set()).add(value)
    assert all(len(values) == 1 for values in versions.values())


def test_a_write_ahead_log_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "old")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    file = DatabaseFile(str(path), "a")
    assert file.one(FIND, (1,))[1] == ("old",)
    assert not file.generation().is_immutable
    writer.execute("UPDATE facts SET value = 'new'")
    assert file.one(FIND, (1,))[1] == ("new",)
    _opened.drop()
    writer.close()


def test_a_locked_file_is_unavailable(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "old")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    writer.execute("UPDATE facts SET value = 'new'")
    with pytest.raises(StorageUnavailableError, match="locked"):
        DatabaseFile(str(path), "a").generation()
    writer.execute("COMMIT")
    writer.close()
    assert DatabaseFile(str(path), "a").one(FIND, (1,))[1] == ("new",)


def test_each_thread_of_each_process_has_its_own_connection(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "one")
    file = DatabaseFile(str(path), "a")
    barrier = threading.Barrier(8)

    def read(_: int) -> bool:
        barrier.wait()
        return file.one(FIND, (1,))[1] == ("one",)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(8)))
        assert descriptors(path) == 8
        for _ in range(4):
            child = os.fork()
            if child == 0:
                # Nothing was inherited, and what is opened here is another connection.
                count = descriptors(path)
                is_right = file.one(FIND, (1,))[1] == ("one",)
                os._exit(0 if is_right and count == 0 and descriptors(path) == 1 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    _opened.drop()
    assert descriptors(path) == 0


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (
            "CREATE VIEW v AS WITH RECURSIVE r(value) AS "
            "(SELECT 1 UNION ALL SELECT value + 1 FROM r) SELECT value FROM r WHERE value < 0",
            "not authorized|does more than to read",
        ),
        ("CREATE VIEW v AS SELECT zeroblob(1000000000) AS value", "not authorized"),
        ("CREATE VIEW v AS SELECT load_extension('x') AS value", "unsafe use"),
        (
            "CREATE VIEW v AS SELECT a.id AS value FROM facts a, facts b, facts c, facts d "
            "WHERE a.id + b.id + c.id + d.id = -1",
            "steps",
        ),
    ],
)
def test_hostile_views(tmp_path: Path, view: str, reason: str) -> None:
    file = DatabaseFile(str(write(tmp_path / "a", "one", view)), "a")
    with pytest.raises(ContainerFormatError, match=reason):
        file.one("SELECT value FROM v", ())
    assert file.one(FIND, (1,))[1] == ("one",)


def test_legitimate_statements_are_never_stopped(tmp_path: Path) -> None:
    file = DatabaseFile(str(write(tmp_path / "a", "one")), "a")
    for _ in range(20_000):
        assert file.one(FIND, (1,))[1] == ("one",)


def _read_all(file: DatabaseFile) -> None:
    for number in range(100):
        assert file.one(FIND, (number,))[1] is not None


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "one" * 2000)
    data = path.read_bytes()
    for end in (0, 10, 50, 100, 512, 4096, len(data) // 2):
        path.write_bytes(data[:end])
        file = DatabaseFile(str(path), "a")
        with pytest.raises((ContainerFormatError, StorageUnavailableError)):
            _read_all(file)
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(ContainerFormatError, match="not an SQLite database"):
        DatabaseFile(str(path), "a").generation()


def test_a_missing_file_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailableError):
        DatabaseFile(str(tmp_path / "a"), "a").generation()


def test_a_calm_file_is_examined_ten_times_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a", "old")
    os.utime(path, (1e9, 1e9))
    now, looks, stat = 1000.0, [0], os.stat
    monkeypatch.setattr(database, "monotonic", lambda: now)

    def counted(*arguments: Any, **options: Any) -> os.stat_result:
        looks[0] += 1
        return stat(*arguments, **options)

    file = DatabaseFile(str(path), "a")
    statement = "SELECT value FROM facts"
    file.one(statement, ()), file.one(statement, ())
    monkeypatch.setattr(os, "stat", counted)
    for _ in range(10):
        assert file.one(statement, ())[1] == ("old",)
    assert looks == [0]
    new = write(tmp_path / "b", "new")
    os.utime(new, (2e9, 2e9))
    new.rename(path)
    # This thread has the old file open. Another one opens it, and finds the new one.
    assert file.one(statement, ())[1] == ("old",)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(file.one, statement, ()).result()[1] == ("new",)
    assert file.one(statement, ())[1] == ("new",)
    now += 0.2
    path.unlink()
    with pytest.raises(StorageUnavailableError):
        file.one(statement, ())


def test_a_young_file_is_examined_each_time(tmp_path: Path) -> None:
    """It may still be written in place."""
    path = write(tmp_path / "a", "old")
    file = DatabaseFile(str(path), "a")
    statement = "SELECT value FROM facts"
    for number in range(5):
        write(tmp_path / "b", str(number)).rename(path)
        assert file.one(statement, ())[1] == (str(number),)


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "old")
    file = DatabaseFile(str(path), "a")
    assert file.one(FIND, (1,))[1] == ("old",)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "pipe").replace(path)
    for one in (file, DatabaseFile(str(path), "a"), DatabaseFile(str(tmp_path), "a")):
        with pytest.raises(StorageUnavailableError, match="it is not a regular file"):
            one.one(FIND, (1,))


@pytest.mark.parametrize("has_log", [True, False])
def test_a_write_ahead_log_in_a_directory_that_is_not_writable(
    has_log: bool, tmp_path: Path
) -> None:
    """In a process without the rights of root, to which every directory is writable."""
    path = write(tmp_path / "a", "one", "PRAGMA journal_mode = WAL")
    program = (
        "import os, sys\n"
        "from mastaba.errors import StorageUnavailableError\n"
        "from mastaba_sqlite_tiles.database import DatabaseFile\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: DatabaseFile(sys.argv[1], 'a').one('SELECT value FROM facts', ())\n"
        "except StorageUnavailableError as error: print(error)\n"
    )
    with closing(sqlite3.connect(path)) as writer, TemporaryDirectory() as folder:
        writer.execute("UPDATE facts SET value = 'two'")
        writer.commit()
        for end in ("", "-wal") if has_log else ("",):
            Path(folder, f"a{end}").write_bytes(Path(f"{path}{end}").read_bytes())
        # The directories of pytest are for its user only.
        Path(folder).chmod(0o555)
        words = [sys.executable, "-c", program, f"{folder}/a"]
        printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        Path(folder).chmod(0o755)
    assert "its directory must be writable; otherwise run PRAGMA journal_mode=DELETE" in printed
