"""SQLite databases that many processes use."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from mastaba_server.threads.per_process import PerProcess


class DatabaseConnection:
    """The connection of a process to a database; its threads take turns.

    A connection must not be used after a fork, so each process opens its own, on first use.

    Args:
        open: opens a connection that begins no transactions by itself.
        unusable: returns what is raised in place of an error of SQLite or of the system.
    """

    def __init__(
        self, open: Callable[[], sqlite3.Connection], unusable: Callable[[Exception], Exception]
    ) -> None:
        self._unusable = unusable
        self._lock = threading.Lock()
        self._connection = PerProcess(open)

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """Return the connection, which no other thread uses meanwhile."""
        try:
            with self._lock:
                yield self._connection.get()
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error

    @contextmanager
    def transaction(
        self, kind: Literal["DEFERRED", "IMMEDIATE"] = "IMMEDIATE"
    ) -> Iterator[sqlite3.Connection]:
        """Begin a transaction; it is committed, or rolled back after an error."""
        with self.use() as connection:
            connection.execute(f"BEGIN {kind}")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                # After some errors, such as a full disk, there is none any more.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection of this process; the next use opens another one."""
        with self._lock:
            connection = self._connection.drop()
            if connection is not None:
                connection.close()
