"""Archives that are SQLite databases: one transaction from checkpoint to checkpoint."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mastaba_export.errors import WriteError
from mastaba_export.sizes import PAGE
from mastaba_export.writers.base import Writer, synchronise

if TYPE_CHECKING:
    from mastaba_export.journal import Journal
    from mastaba_export.plan import ExportPlan


class SQLiteWriter(Writer):
    """A writer of a database. A killed process leaves what it has committed.

    It commits at each call of `sync`, just before the journal does. So after a kill, the database
    may be one checkpoint ahead of the journal: `undo` and `restore` remove that part.
    """

    def __init__(self, plan: ExportPlan, part: Path, journal: Journal) -> None:
        super().__init__(plan, part, journal)
        self._connection: sqlite3.Connection | None = None
        self.last = 0
        """Number of the last payload."""

    def start(self) -> None:
        for end in ("", "-wal", "-shm"):
            self.part.with_name(f"{self.part.name}{end}").unlink(missing_ok=True)
        self._open()
        self.create()
        self.run("COMMIT")
        self.run("BEGIN IMMEDIATE")

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._open()
        self.last = int(state["last"])

    def create(self) -> None:
        """Create the tables, and fill those that say what the archive is."""
        raise NotImplementedError

    def sync(self) -> dict[str, Any]:
        self.run("COMMIT")
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")
        synchronise(self.part)
        self.run("BEGIN IMMEDIATE")
        return {"last": self.last}

    def complete(self) -> None:
        """Commit the last transaction, and leave one file that needs no other."""
        self.run("COMMIT")
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")
        self.run("PRAGMA journal_mode = DELETE")
        self.close()
        synchronise(self.part)

    def run(self, statement: str, values: Iterable[Any] = ()) -> sqlite3.Cursor:
        """Execute a statement."""
        assert self._connection is not None
        try:
            return self._connection.execute(statement, tuple(values))
        except sqlite3.Error as error:
            raise WriteError(f"{self.part.name} cannot be written: {error}") from None

    def rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Yield what a statement finds."""
        try:
            yield from self.run(statement)
        except sqlite3.Error as error:
            raise WriteError(f"{self.part.name} cannot be read: {error}") from None

    def many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Execute a statement for each row."""
        assert self._connection is not None
        try:
            self._connection.executemany(statement, rows)
        except sqlite3.Error as error:
            raise WriteError(f"{self.part.name} cannot be written: {error}") from None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> None:
        self._connection = sqlite3.connect(self.part, isolation_level=None, check_same_thread=False)
        self.run(f"PRAGMA page_size = {PAGE}")
        self.run("PRAGMA journal_mode = WAL")
        self.run("PRAGMA synchronous = OFF")
        self.run("PRAGMA cache_size = -16384")
        self.run("BEGIN IMMEDIATE")
