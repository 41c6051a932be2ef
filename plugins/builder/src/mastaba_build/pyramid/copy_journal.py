"""What a copy of a pyramid has written so far."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any, NamedTuple

from mastaba_build.errors import OutputError


class CopiedSlab(NamedTuple):
    """A slab that was copied.

    Attributes:
        version: of the slab in the source; empty where the storage has none.
        size, md5: of its bytes; 0 and empty for a link.
        holder: root that contains the bytes.
    """

    version: str
    size: int
    md5: str
    holder: str


class CopyJournal:
    """The slabs of a copy by their keys in the target, in a file. Its methods are thread-safe.

    Raises:
        OutputError: the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS slabs (key TEXT PRIMARY KEY, version TEXT NOT NULL, "
                "size INTEGER NOT NULL, md5 TEXT NOT NULL, holder TEXT NOT NULL) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            raise OutputError(f"{path} cannot be used: {error}") from None

    def get(self, key: str) -> CopiedSlab | None:
        """Return what is known of a slab."""
        row = self._run("SELECT version, size, md5, holder FROM slabs WHERE key = ?", (key,))
        return None if row is None else CopiedSlab(*row)

    def put(self, key: str, slab: CopiedSlab) -> None:
        """Note that a slab was written."""
        self._run("INSERT OR REPLACE INTO slabs VALUES (?, ?, ?, ?, ?)", (key, *slab))

    def clear(self) -> None:
        """Forget everything."""
        self._run("DELETE FROM slabs", ())

    def close(self) -> None:
        self._database.close()

    def _run(self, statement: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Execute a statement, and return the first row that it finds."""
        try:
            with self._lock:
                row: tuple[Any, ...] | None = self._database.execute(statement, values).fetchone()
        except sqlite3.Error as error:
            raise OutputError(f"{self._path} cannot be used: {error}") from None
        return row
