"""The database of the queue."""

from __future__ import annotations

import os
import sqlite3
from contextlib import AbstractContextManager
from typing import Final

from mastaba_export.jobs.refusals import QueueError
from mastaba_server.threads.database import DatabaseConnection

_BUSY: Final = 30.0
"""Seconds to wait for another process that writes."""
_TABLES: Final = """
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    process TEXT NOT NULL,
    layer TEXT NOT NULL,
    inputs TEXT NOT NULL,
    plan TEXT NOT NULL,
    estimate TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (
        state IN ('accepted', 'running', 'successful', 'failed', 'dismissed')
    ),
    progress INTEGER NOT NULL DEFAULT 0,
    message TEXT NOT NULL DEFAULT '',
    checkpoint INTEGER NOT NULL DEFAULT 0,
    status INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    worker TEXT NOT NULL DEFAULT '',
    files TEXT NOT NULL DEFAULT '[]',
    created REAL NOT NULL,
    started REAL NOT NULL DEFAULT 0,
    updated REAL NOT NULL,
    finished REAL NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state, owner, created);
CREATE INDEX jobs_by_owner ON jobs (owner, created);
CREATE TABLE workers (id TEXT PRIMARY KEY, pid INTEGER NOT NULL, beat REAL NOT NULL) STRICT;
CREATE TABLE owners (owner TEXT PRIMARY KEY, served INTEGER NOT NULL) STRICT;
"""
_ADDED: Final = (
    "ALTER TABLE jobs ADD COLUMN sources INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE jobs ADD COLUMN public INTEGER NOT NULL DEFAULT 0",
)
"""What each version has added to the first one. Results of older jobs name no sources, and are not
public."""
_VERSION: Final = 1 + len(_ADDED)


class Database:
    """A SQLite file that many processes use, each with one connection for all of its threads.

    Args:
        path: of the file, which is created on first use, with its directory.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection = DatabaseConnection(self._open, self._unusable)

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Begin a transaction that only reads.

        Raises:
            QueueError: the database cannot be used.
        """
        return self._connection.transaction("DEFERRED")

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Begin a transaction that no other process changes anything in.

        Raises:
            QueueError: the database cannot be used.
        """
        return self._connection.transaction()

    def close(self) -> None:
        """Close the connection of this process; the next transaction opens another one."""
        self._connection.close()

    def _unusable(self, error: Exception) -> QueueError:
        return QueueError(f"the queue {self._path} cannot be used: {error}")

    def _open(self) -> sqlite3.Connection:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        connection = sqlite3.connect(
            self._path, timeout=_BUSY, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            # A job that was accepted is not lost when the machine fails.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == 0:
                for statement in _TABLES.split(";"):
                    connection.execute(statement)
            if version < _VERSION:
                for statement in _ADDED[max(version - 1, 0) :]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.execute("COMMIT")
            if not 0 <= version <= _VERSION:
                raise sqlite3.DatabaseError(f"it has version {version}, not {_VERSION}")
        except BaseException:
            connection.close()
            raise
        return connection
