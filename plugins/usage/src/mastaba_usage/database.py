"""Usage of a node in an SQLite database: one row for each cell and day."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from mastaba_usage.cells import Cell, Counts
from mastaba_usage.errors import UsageError

NAME: Final = "usage.sqlite"
COLUMNS: Final = (
    *("day", "service", "virtual", "layer", "level", "ability", "key", "status"),
    *("hits", "bytes", "uses"),
)
GROUPS: Final = ("month", *COLUMNS[:8])
"""Columns by which sums may be grouped."""
SLOT: Final = 300
"""Seconds of a slot."""
REMOVED: Final = "removed"

_VERSION: Final = 1
_KEYS: Final = ", ".join(COLUMNS[:8])
_SCHEMA: Final = f"""
CREATE TABLE day (
    node TEXT NOT NULL, {", ".join(f"{name} TEXT NOT NULL" for name in COLUMNS[:8])},
    hits INTEGER NOT NULL, bytes INTEGER NOT NULL, uses INTEGER NOT NULL,
    PRIMARY KEY (node, {_KEYS})
) WITHOUT ROWID;
CREATE TABLE slot (
    start INTEGER NOT NULL, service TEXT NOT NULL, key TEXT NOT NULL,
    hits INTEGER NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (start, service, key)
) WITHOUT ROWID;
CREATE TABLE position (
    file TEXT NOT NULL, number INTEGER NOT NULL,
    hits INTEGER NOT NULL, bytes INTEGER NOT NULL, uses INTEGER NOT NULL,
    PRIMARY KEY (file, number)
) WITHOUT ROWID;
CREATE TABLE forgotten (key TEXT PRIMARY KEY) WITHOUT ROWID;
PRAGMA user_version = {_VERSION};
"""


class Database:
    """The database of a directory. Each call opens it, so it may be used by several processes.

    Args:
        directory: of the database.
        node: name of this node, for `merge`.

    Raises:
        UsageError: it cannot be opened, or is of another version.
    """

    def __init__(self, directory: Path, node: str = "") -> None:
        self.path = directory / NAME
        self._node = node

    def count(self, file: str, day: str, cells: Iterable[tuple[Cell, Counts]], now: float) -> None:
        """Add what a file contains beyond what was added before, in one transaction.

        Args:
            file: its name.
            day: of its counters.
            now: Unix seconds, for the slot of 5 minutes.
        """
        slot = int(now // SLOT * SLOT)
        with closing(self._open()) as db, db:
            # Two processes may add at a time, during a reload: one waits for the other.
            db.execute("BEGIN IMMEDIATE")
            known = {
                number: counts
                for number, *counts in db.execute(
                    "SELECT number, hits, bytes, uses FROM position WHERE file = ?", (file,)
                )
            }
            forgotten = {key for (key,) in db.execute("SELECT key FROM forgotten")}
            for number, (cell, counts) in enumerate(cells):
                if cell.key in forgotten:
                    cell = cell._replace(key=REMOVED)
                before = known.get(number, (0, 0, 0))
                grown = [one - other for one, other in zip(counts, before, strict=True)]
                if not any(grown):
                    continue
                _add(db, (self._node, day, *cell), grown)
                db.execute(
                    "INSERT INTO slot VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                    "hits = hits + excluded.hits, bytes = bytes + excluded.bytes",
                    (slot, cell.service, cell.key, *grown[:2]),
                )
                db.execute(
                    "INSERT OR REPLACE INTO position VALUES (?, ?, ?, ?, ?)",
                    (file, number, *counts),
                )

    def drop_positions(self, files: Iterable[str]) -> None:
        """Forget the positions of files that no longer exist.

        Args:
            files: those that exist.
        """
        there = set(files)
        with closing(self._open()) as db, db:
            db.execute("BEGIN IMMEDIATE")
            for (file,) in db.execute("SELECT DISTINCT file FROM position").fetchall():
                if file not in there:
                    db.execute("DELETE FROM position WHERE file = ?", (file,))

    def sums(
        self,
        first: str,
        last: str,
        by: Sequence[str],
        where: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]:
        """Return sums of hits, bytes and uses, sorted by the columns of ``by``.

        Args:
            first, last: days, both included.
            by: names of `GROUPS`.
            where: values that columns must have.

        Raises:
            ValueError: a column is unknown.
            UsageError: the database cannot be read.
        """
        where = where or {}
        for name in (*by, *where):
            if name not in GROUPS:
                raise ValueError(f"{name[:40]!r} is not one of {', '.join(GROUPS)}")
        names = {name: "substr(day, 1, 7)" if name == "month" else name for name in GROUPS}
        # All parts of the query are from the tables above.
        columns = [f"{names[name]} AS {name}" for name in by]
        numbers = [f"coalesce(sum({name}), 0) AS {name}" for name in ("hits", "bytes", "uses")]
        conditions = ["day BETWEEN ? AND ?", *(f"{names[name]} = ?" for name in where)]
        grouped = ", ".join(str(number + 1) for number in range(len(by)))
        query = f"SELECT {', '.join(columns + numbers)} FROM day"  # noqa: S608
        query += f" WHERE {' AND '.join(conditions)}"
        if by:
            query += f" GROUP BY {grouped} ORDER BY {grouped}"
        with closing(self._open()) as db:
            db.row_factory = sqlite3.Row
            try:
                found = db.execute(query, (first, last, *where.values())).fetchall()
            except sqlite3.Error as error:
                raise self._unusable(error) from error
        return [dict(row) for row in found]

    def merge(self, other: Path) -> None:
        """Take over the days of other nodes; days that are there already are replaced.

        Args:
            other: database of another node, or of several.

        Raises:
            UsageError: one of the databases cannot be used, or both are of the same node.
        """
        if not other.is_file():
            raise UsageError(f"there is no database {other}")
        if other.resolve() == self.path.resolve():
            raise UsageError(f"{other} is the database itself")
        with closing(self._open()) as db:
            try:
                db.execute("ATTACH ? AS other", (str(other),))
                (version,) = db.execute("PRAGMA other.user_version").fetchone()
                if version != _VERSION:
                    raise UsageError(f"{other} is not a database of this version")
                with db:
                    nodes = [node for (node,) in db.execute("SELECT DISTINCT node FROM other.day")]
                    if self._node in nodes:
                        raise UsageError(
                            f"{other} is of the node {self._node!r} too; give each node its name "
                            "(plugins.usage.node)"
                        )
                    db.execute(
                        "DELETE FROM day WHERE (node, day) IN "
                        "(SELECT DISTINCT node, day FROM other.day)"
                    )
                    db.execute("INSERT INTO day SELECT * FROM other.day")
            except sqlite3.Error as error:
                raise UsageError(f"{other} cannot be merged: {error}") from error

    def forget(self, key: str) -> int:
        """Replace a key by ``removed`` in all days, also in those to come; sums stay.

        Returns:
            Number of rows that had it.
        """
        with closing(self._open()) as db, db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT OR IGNORE INTO forgotten VALUES (?)", (key,))
            rows = db.execute("SELECT * FROM day WHERE key = ?", (key,)).fetchall()
            db.execute("DELETE FROM day WHERE key = ?", (key,))
            place = 1 + COLUMNS.index("key")
            for row in rows:
                _add(db, (*row[:place], REMOVED, *row[place + 1 : 9]), row[9:])
            db.execute("DELETE FROM slot WHERE key = ?", (key,))
        return len(rows)

    def retire(self, first_day: str, first_slot: float) -> None:
        """Remove what is older than a day, and slots older than a time in Unix seconds."""
        with closing(self._open()) as db, db:
            db.execute("DELETE FROM day WHERE day < ?", (first_day,))
            db.execute("DELETE FROM slot WHERE start < ?", (int(first_slot),))

    def _open(self) -> sqlite3.Connection:
        try:
            db = sqlite3.connect(self.path, timeout=30)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        try:
            db.execute("PRAGMA journal_mode = WAL")
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version == 0:
                # Another process may create it at the same time.
                db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
            elif version != _VERSION:
                raise UsageError(f"{self.path} is of version {version}; this is {_VERSION}")
        except sqlite3.Error as error:
            db.close()
            raise self._unusable(error) from error
        except BaseException:
            db.close()
            raise
        return db

    def _unusable(self, error: sqlite3.Error) -> UsageError:
        return UsageError(f"the database {self.path.name} cannot be used: {error}")


def _add(db: sqlite3.Connection, key: Sequence[str], counts: Sequence[int]) -> None:
    db.execute(
        "INSERT INTO day VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "hits = hits + excluded.hits, bytes = bytes + excluded.bytes, uses = uses + excluded.uses",
        (*key, *counts),
    )
