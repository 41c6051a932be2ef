"""Usage of a node in an SQLite database: one row for each cell and day."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from mastaba_usage.blocks import Block, place_of
from mastaba_usage.cells import Cell, Counts
from mastaba_usage.errors import UsageError

NAME: Final = "usage.sqlite"
_KEYS: Final = ("day", "service", "virtual", "layer", "level", "ability", "key", "status")
NUMBERS: Final = ("hits", "bytes", "cost", "uses")
GROUPS: Final = (
    *("month", "day", "service", "virtual", "layer", "level", "ability", "key", "label", "status"),
)
"""Columns by which sums may be grouped."""
SLOT: Final = 300
"""Seconds of a slot."""
REMOVED: Final = "removed"

MOST_BLOCKS: Final = 65_536
"""Of a node and day: those with most hits are kept."""
FEWEST: Final = 10
"""Hits of a block in a day below which it is not shown: it could tell of one person."""
_MOST_SHOWN: Final = 10_000

_VERSION: Final = 3
_SUMS: Final = ", ".join(f"{name} = {name} + excluded.{name}" for name in NUMBERS)
_HEAT: Final = """
CREATE TABLE IF NOT EXISTS heat (
    node TEXT NOT NULL, day TEXT NOT NULL, layer TEXT NOT NULL, level TEXT NOT NULL,
    row INTEGER NOT NULL, col INTEGER NOT NULL, hits INTEGER NOT NULL,
    PRIMARY KEY (node, day, layer, level, row, col)
) WITHOUT ROWID;
"""
"""New in version 3."""
_SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS day (
    node TEXT NOT NULL, is_front INTEGER NOT NULL,
    {", ".join(f"{name} TEXT NOT NULL" for name in _KEYS)},
    {", ".join(f"{name} INTEGER NOT NULL" for name in NUMBERS)},
    PRIMARY KEY (node, is_front, {", ".join(_KEYS)})
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS front (
    node TEXT NOT NULL, day TEXT NOT NULL, PRIMARY KEY (node, day)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (
    digest TEXT PRIMARY KEY, size INTEGER NOT NULL, day TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS label (key TEXT PRIMARY KEY, label TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS slot (
    start INTEGER NOT NULL, service TEXT NOT NULL, key TEXT NOT NULL,
    hits INTEGER NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (start, service, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS position (
    file TEXT NOT NULL, number INTEGER NOT NULL,
    {", ".join(f"{name} INTEGER NOT NULL" for name in NUMBERS)},
    PRIMARY KEY (file, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS forgotten (key TEXT PRIMARY KEY) WITHOUT ROWID;
{_HEAT}
PRAGMA user_version = {_VERSION};
"""
"""``front`` has the days whose hits a server in front has counted: of these, the rows of ``day``
with ``is_front`` count, of all others those without. ``log`` has what was read of its logs."""
_UPGRADE: Final = f"""
{_HEAT}
PRAGMA user_version = {_VERSION};
"""
"""From version 2."""


class Database:
    """The database of a directory. Each call opens it, so it may be used by several processes.

    Args:
        directory: of the database.
        node: name of this node, for `merge`.

    Every method raises `UsageError` if the database is of another version, or cannot be used.
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
        # Two processes may add at a time, during a reload: one waits for the other.
        with self._changing() as db:
            names = _Names(db)
            for cell, grown in _grown(db, file, cells):
                cell = names.known(cell)
                _add(db, (self._node, 0, day, *cell[:-1]), grown)
                db.execute(
                    "INSERT INTO slot VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                    "hits = hits + excluded.hits, bytes = bytes + excluded.bytes",
                    (slot, cell.service, cell.key, *grown[:2]),
                )

    def count_blocks(self, file: str, day: str, cells: Iterable[tuple[Cell, Counts]]) -> None:
        """Add blocks of tiles as `count` adds cells; of a day, those with most hits are kept.

        Args:
            file: its name.
            day: of its counters.
        """
        with self._changing() as db:
            for cell, grown in _grown(db, file, cells):
                place = place_of(cell)
                if place is not None:
                    db.execute(
                        "INSERT INTO heat VALUES (?, ?, ?, ?, ?, ?, ?) "
                        "ON CONFLICT DO UPDATE SET hits = hits + excluded.hits",
                        (self._node, day, cell.layer, cell.level, *place, grown[0]),
                    )
            that = (self._node, day)
            (count,) = db.execute(
                "SELECT count(*) FROM heat WHERE node = ? AND day = ?", that
            ).fetchone()
            if count > MOST_BLOCKS:
                db.execute(
                    "DELETE FROM heat WHERE (node, day, layer, level, row, col) IN "
                    "(SELECT node, day, layer, level, row, col FROM heat "
                    "WHERE node = ? AND day = ? ORDER BY hits LIMIT ?)",
                    (*that, count - MOST_BLOCKS),
                )

    def blocks(self, first: str, last: str, layer: str, level: str = "") -> list[Block]:
        """Return the blocks of a layer that were requested at least `FEWEST` times in a day.

        Args:
            first, last: days, both included.
            level: identifier of a tile matrix; empty for all.

        Returns:
            At most 10,000, those with most hits first.

        Raises:
            UsageError: the database cannot be read.
        """
        query = (
            "SELECT level, row, col, sum(hits) FROM (SELECT level, row, col, sum(hits) AS hits "
            "FROM heat WHERE day BETWEEN ? AND ? AND layer = ? AND (? = '' OR level = ?) "
            "GROUP BY day, level, row, col HAVING sum(hits) >= ?) "
            "GROUP BY level, row, col ORDER BY 4 DESC, level, row, col LIMIT ?"
        )
        given = (first, last, layer, level, level, FEWEST, _MOST_SHOWN)
        return [Block(*row) for row in self._rows(query, given)]

    def slots(self, first: float, last: float, key: str = "") -> list[tuple[int, int, int]]:
        """Return the sums of slots of `SLOT` seconds that begin in a period, in order.

        Args:
            first, last: Unix seconds; the second is not included.
            key: whose; empty for all.

        Returns:
            Begin in Unix seconds, hits and bytes of each slot with any.

        Raises:
            UsageError: the database cannot be read.
        """
        query = (
            "SELECT start, sum(hits), sum(bytes) FROM slot WHERE start >= ? AND start < ? "
            "AND (? = '' OR key = ?) GROUP BY start ORDER BY start"
        )
        return self._rows(query, (int(first), int(last), key, key))

    def _rows(self, query: str, given: Sequence[Any]) -> list[Any]:
        with self._reading() as db:
            return db.execute(query, given).fetchall()

    def logs(self) -> dict[str, int]:
        """Return what was read of the logs of front servers: bytes, by their digest."""
        return dict(self._rows("SELECT digest, size FROM log", ()))

    def count_log(
        self,
        known: Mapping[str, int],
        read: tuple[str, int],
        cells: Iterable[tuple[str, Cell, Counts]],
    ) -> None:
        """Add what a log contains, in one transaction. The node's own count of its days is hidden.

        Args:
            known: `logs`, as they were before it was read.
            read: digest and bytes of the log, up to where it was read.
            cells: days and their cells.

        Raises:
            UsageError: another log was added meanwhile.
        """
        with self._changing() as db:
            if dict(db.execute("SELECT digest, size FROM log")) != known:
                raise UsageError("another import is running; import the file again")
            names = _Names(db)
            days = set()
            for day, cell, counts in cells:
                days.add(day)
                _add(db, (self._node, 1, day, *names.known(cell)[:-1]), counts)
            db.executemany(
                "INSERT OR IGNORE INTO front VALUES (?, ?)", [(self._node, day) for day in days]
            )
            today = datetime.now(UTC).date().isoformat()
            db.execute("INSERT OR IGNORE INTO log VALUES (?, ?, ?)", (*read, today))

    def drop_positions(self, files: Iterable[str]) -> None:
        """Forget the positions of files that no longer exist.

        Args:
            files: those that exist.
        """
        there = set(files)
        with self._changing() as db:
            for (file,) in db.execute("SELECT DISTINCT file FROM position").fetchall():
                if file not in there:
                    db.execute("DELETE FROM position WHERE file = ?", (file,))

    def sums(
        self,
        first: str,
        last: str,
        by: Sequence[str],
        where: Mapping[str, str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield sums of `NUMBERS`, sorted by the columns of ``by``.

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
        names = {
            **{name: f"day.{name}" for name in GROUPS},
            "month": "substr(day.day, 1, 7)",
            "label": "coalesce(label.label, '')",
        }
        # All parts of the query are from the tables above.
        columns = [f"{names[name]} AS {name}" for name in by]
        numbers = [f"coalesce(sum(day.{name}), 0) AS {name}" for name in NUMBERS]
        conditions = [
            "day.day BETWEEN ? AND ?",
            "day.is_front = (front.day IS NOT NULL)",
            *(f"{names[name]} = ?" for name in where),
        ]
        grouped = ", ".join(str(number + 1) for number in range(len(by)))
        query = f"SELECT {', '.join(columns + numbers)} FROM day"  # noqa: S608
        query += " LEFT JOIN front ON front.node = day.node AND front.day = day.day"
        if "label" in (*by, *where):
            query += " LEFT JOIN label ON label.key = day.key"
        query += f" WHERE {' AND '.join(conditions)}"
        if by:
            query += f" GROUP BY {grouped} ORDER BY {grouped}"
        with self._reading() as db:
            db.row_factory = sqlite3.Row
            for row in db.execute(query, (first, last, *where.values())):
                yield dict(row)

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
                    days = "(SELECT node, day FROM other.day "
                    days += "UNION SELECT node, day FROM other.heat)"
                    for table in ("day", "front", "heat"):
                        db.execute(f"DELETE FROM {table} WHERE (node, day) IN {days}")  # noqa: S608
                        db.execute(f"INSERT INTO {table} SELECT * FROM other.{table}")  # noqa: S608
                    db.execute("INSERT OR IGNORE INTO label SELECT * FROM other.label")
                    for (key,) in db.execute("SELECT key FROM forgotten").fetchall():
                        _forget(db, key)
            except sqlite3.Error as error:
                raise UsageError(f"{other} cannot be merged: {error}") from error

    def forget(self, key: str) -> int:
        """Replace a key by ``removed`` in all days, also in those to come; sums stay.

        Returns:
            Number of rows that had it.
        """
        with self._changing() as db:
            db.execute("INSERT OR IGNORE INTO forgotten VALUES (?)", (key,))
            return _forget(db, key)

    def retire(self, first_day: str, first_slot: float) -> None:
        """Remove what is older than a day, and slots older than a time in Unix seconds."""
        with self._changing() as db:
            for table in ("day", "front", "log", "heat"):
                db.execute(f"DELETE FROM {table} WHERE day < ?", (first_day,))  # noqa: S608
            db.execute("DELETE FROM slot WHERE start < ?", (int(first_slot),))

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Open the database. Errors of SQLite in the context become `UsageError`."""
        with closing(self._open()) as db:
            try:
                yield db
            # The latter: a number does not fit into a column.
            except (sqlite3.Error, OverflowError) as error:
                raise self._unusable(error) from error

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """Begin a transaction, which an error ends without any change; see `_reading`."""
        with self._reading() as db, db:
            db.execute("BEGIN IMMEDIATE")
            yield db

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
            elif version == _VERSION - 1:
                db.executescript(f"BEGIN IMMEDIATE; {_UPGRADE} COMMIT;")
            elif version != _VERSION:
                raise UsageError(f"{self.path} is of version {version}; this is {_VERSION}")
        except sqlite3.Error as error:
            db.close()
            raise self._unusable(error) from error
        except BaseException:
            db.close()
            raise
        return db

    def _unusable(self, error: Exception) -> UsageError:
        return UsageError(f"the database {self.path.name} cannot be used: {error}")


class _Names:
    """Keys that are forgotten, and labels of the others."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._forgotten = {key for (key,) in db.execute("SELECT key FROM forgotten")}
        self._labels = dict(db.execute("SELECT key, label FROM label"))

    def known(self, cell: Cell) -> Cell:
        """Return a cell without a forgotten key; remember the label of any other key."""
        if cell.key in self._forgotten:
            return cell._replace(key=REMOVED)
        if cell.label and self._labels.get(cell.key) != cell.label:
            self._labels[cell.key] = cell.label
            self._db.execute("INSERT OR REPLACE INTO label VALUES (?, ?)", (cell.key, cell.label))
        return cell


def _grown(
    db: sqlite3.Connection, file: str, cells: Iterable[tuple[Cell, Counts]]
) -> Iterator[tuple[Cell, list[int]]]:
    """Yield what cells contain beyond what was added before, and remember that it is added now."""
    known = {
        number: counts
        for number, *counts in db.execute(
            "SELECT number, hits, bytes, cost, uses FROM position WHERE file = ?", (file,)
        )
    }
    for number, (cell, counts) in enumerate(cells):
        before = known.get(number, (0,) * len(NUMBERS))
        grown = [one - other for one, other in zip(counts, before, strict=True)]
        if any(grown):
            yield cell, grown
            db.execute(
                "INSERT OR REPLACE INTO position VALUES (?, ?, ?, ?, ?, ?)", (file, number, *counts)
            )


def _forget(db: sqlite3.Connection, key: str) -> int:
    rows = db.execute("SELECT * FROM day WHERE key = ?", (key,)).fetchall()
    db.execute("DELETE FROM day WHERE key = ?", (key,))
    place, end = 2 + _KEYS.index("key"), 2 + len(_KEYS)
    for row in rows:
        _add(db, (*row[:place], REMOVED, *row[place + 1 : end]), row[end:])
    for table in ("slot", "label"):
        db.execute(f"DELETE FROM {table} WHERE key = ?", (key,))  # noqa: S608
    return len(rows)


def _add(db: sqlite3.Connection, key: Sequence[str | int], counts: Sequence[int]) -> None:
    places = ", ".join("?" * (len(key) + len(counts)))
    db.execute(
        f"INSERT INTO day VALUES ({places}) ON CONFLICT DO UPDATE SET {_SUMS}",  # noqa: S608
        (*key, *counts),
    )
