"""What an export has written so far, so that it can be resumed after a kill."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from mastaba_export.errors import DestinationError, WriteError


class Journal:
    """The journal of one export, in a file that only one process may use at a time.

    Everything that is written between two calls of `commit` becomes valid together.

    Args:
        path: of the file; created if it is absent.

    Raises:
        DestinationError: the file cannot be used, or another process uses it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._database.execute("PRAGMA busy_timeout = 0")
            self._database.execute("PRAGMA journal_mode = DELETE")
            self._database.execute("BEGIN EXCLUSIVE")
            for statement in (
                "state (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
                "slabs (unit INTEGER PRIMARY KEY, version TEXT NOT NULL)",
                "seen (digest BLOB PRIMARY KEY, place INTEGER NOT NULL, length INTEGER NOT NULL)",
            ):
                self._database.execute(f"CREATE TABLE IF NOT EXISTS {statement}")
            self._database.execute("COMMIT")
            self._database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise DestinationError("another export is writing this output") from None
            raise DestinationError(f"the journal cannot be used: {error}") from None
        except sqlite3.Error as error:
            raise DestinationError(f"the journal cannot be used: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def state(self) -> dict[str, Any]:
        """Return what was committed last; empty for a new journal."""
        rows = self._run("SELECT key, value FROM state")
        return {key: json.loads(value) for key, value in rows}

    def commit(self, state: Mapping[str, Any]) -> None:
        """Make everything valid, and note a state: values of JSON by their names."""
        rows = [(key, json.dumps(value)) for key, value in state.items()]
        self._many("INSERT OR REPLACE INTO state VALUES (?, ?)", rows)
        self._run("COMMIT")
        self._run("BEGIN IMMEDIATE")

    def note_slab(self, unit: int, version: str) -> None:
        """Note the version of the slab whose tiles a unit has."""
        self._run("INSERT OR REPLACE INTO slabs VALUES (?, ?)", (unit, version))

    def slabs(self) -> Iterator[tuple[int, str]]:
        """Yield the units whose tiles were written, and the versions of their slabs."""
        yield from self._run("SELECT unit, version FROM slabs ORDER BY unit")

    def note_seen(self, rows: Iterable[tuple[bytes, int, int]]) -> None:
        """Note digests of payloads, where each is, and its length."""
        self._many("INSERT OR IGNORE INTO seen VALUES (?, ?, ?)", rows)

    def seen(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield what `note_seen` noted."""
        yield from self._run("SELECT digest, place, length FROM seen ORDER BY rowid")

    def close(self) -> None:
        """Close the file; what was not committed is forgotten."""
        self._database.close()

    def _run(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, values)
        except sqlite3.Error as error:
            raise WriteError(f"the journal cannot be used: {error}") from None

    def _many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        try:
            self._database.executemany(statement, rows)
        except sqlite3.Error as error:
            raise WriteError(f"the journal cannot be used: {error}") from None
