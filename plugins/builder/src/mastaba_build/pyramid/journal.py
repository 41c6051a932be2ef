"""The journal of a build: one row for each slab that is done or has failed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mastaba.api.catalogue import TileLimits
from mastaba_build.errors import BuildError
from mastaba_build.output.numbers import NumberedSlab, Share
from mastaba_build.output.records import Record
from mastaba_build.pixels.task import SlabResult
from mastaba_build.plan.plan import SlabKey

_TABLES = """
CREATE TABLE IF NOT EXISTS build (plan TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS slabs (
    level INTEGER, slab_column INTEGER, slab_row INTEGER,
    size INTEGER, md5 TEXT, version TEXT, tiles INTEGER,
    min_row INTEGER, max_row INTEGER, min_col INTEGER, max_col INTEGER,
    seconds REAL, quarter TEXT, fingerprint TEXT, holder TEXT, error TEXT,
    PRIMARY KEY (level, slab_column, slab_row)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS numbers (
    level INTEGER, slab_column INTEGER, slab_row INTEGER, facts TEXT,
    PRIMARY KEY (level, slab_column, slab_row)
) WITHOUT ROWID;
"""
_COLUMNS = 16
_NUMBERS = "SELECT level, slab_column, slab_row, facts FROM numbers"


@dataclass(frozen=True, slots=True)
class Row:
    """A slab that is done.

    Attributes:
        result: what its task returned, in this build or in an earlier one.
        fingerprint: as in `Fingerprints`.
        holder: root of the pyramid that contains the slab, if it was not built but is linked.
    """

    result: SlabResult
    fingerprint: str
    holder: str | None = None


def recorded_rows(record: Record, levels: Mapping[str, int]) -> dict[SlabKey, Row]:
    """Return slabs of a version as rows; their holders are the roots that contain them.

    Args:
        levels: positions of levels in a plan, by identifier; the slabs of others are left out.
    """
    rows = {}
    for one in record.slabs:
        if one.level in levels:
            slab = SlabKey(levels[one.level], one.column, one.row)
            result = SlabResult(
                slab, one.size, one.md5, None, one.tiles, one.limits, 0.0, one.quarter
            )
            rows[slab] = Row(result, one.fingerprint, one.holder or record.root)
    return rows


class Journal:
    """A SQLite database in the work directory, written by the coordinator only.

    Raises:
        BuildError: from every method, if the database cannot be read or written.
    """

    def __init__(self, directory: Path) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(directory / "journal.sqlite", isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            # No wait for the disk: rows that a power failure loses are slabs that are built again.
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.executescript(_TABLES)
        except (OSError, sqlite3.Error) as error:
            raise BuildError(f"{directory}: the journal cannot be opened: {error}") from None

    def close(self) -> None:
        self._database.close()

    @property
    def plan(self) -> str | None:
        """Identity of the plan that the rows belong to; None in a new journal."""
        row = self._execute("SELECT plan FROM build").fetchone()
        return None if row is None else str(row[0])

    def begin(self, plan: str) -> None:
        """Forget all rows and begin the journal of a plan."""
        for table in ("slabs", "numbers", "build"):
            self._execute(f"DELETE FROM {table}")  # noqa: S608
        self._execute("INSERT INTO build VALUES (?)", plan)

    def record(self, rows: Iterable[Row]) -> None:
        """Record slabs that are done, all or none of them."""
        self._execute("BEGIN")
        for row in rows:
            result, limits = row.result, row.result.limits
            edges = (
                (limits.min_row, limits.max_row, limits.min_col, limits.max_col)
                if limits
                else [None] * 4
            )
            self._execute(
                f"INSERT OR REPLACE INTO slabs VALUES ({', '.join('?' * _COLUMNS)})",  # noqa: S608
                *(*result.slab, result.size, result.md5, result.version, result.tiles, *edges),
                *(result.seconds, result.quarter, row.fingerprint, row.holder, None),
            )
            if result.numbers is not None:
                facts = json.dumps(result.numbers)
                self._execute(
                    "INSERT OR REPLACE INTO numbers VALUES (?, ?, ?, ?)", *result.slab, facts
                )
        self._execute("COMMIT")

    def record_failure(self, slab: SlabKey, error: str) -> None:
        """Record that a slab has failed."""
        values = (*slab, *[None] * (_COLUMNS - 4), error)
        self._execute(
            f"INSERT OR REPLACE INTO slabs VALUES ({', '.join('?' * _COLUMNS)})",  # noqa: S608
            *values,
        )

    def rows(self) -> Iterator[Row]:
        """Yield the slabs that are done, by level, row and column."""
        numbers = {SlabKey(*place): facts for *place, facts in self._execute(_NUMBERS)}
        rows = self._execute(
            "SELECT * FROM slabs WHERE error IS NULL ORDER BY level DESC, slab_row, slab_column"
        )
        for level, column, row, *values in rows:
            size, md5, version, tiles = values[:4]
            limits = None if values[4] is None else TileLimits(*values[4:8])
            seconds, quarter, fingerprint, holder = values[8:12]
            slab = SlabKey(level, column, row)
            result = SlabResult(
                slab,
                size,
                md5,
                version,
                tiles,
                limits,
                seconds,
                quarter,
                numbers=_numbered(numbers.get(slab)),
            )
            yield Row(result, fingerprint, holder)

    def _execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, values)
        except sqlite3.Error as error:
            raise BuildError(f"the journal cannot be written: {error}") from None


def _numbered(text: str | None) -> NumberedSlab | None:
    """Return the facts of a slab of source numbers."""
    if text is None:
        return None
    size, md5, shares, holder = json.loads(text)
    return NumberedSlab(size, md5, tuple(Share(*one) for one in shares), holder)
