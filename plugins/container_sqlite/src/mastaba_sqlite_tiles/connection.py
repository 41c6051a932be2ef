"""Connections to SQLite files of strangers: they only read, within limits of size and time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Final
from urllib.parse import quote

from mastaba.errors import ContainerFormatError

MAX_BLOB: Final = 64 * 1024 * 1024
"""Bytes of the largest value that SQLite may return or make."""
BUSY_TIMEOUT: Final = 0.25
"""Seconds to wait for a writer."""
MAX_STEPS: Final = 50_000
"""Steps of the virtual machine of SQLite after which a statement is stopped, at the latest twice as
many: views may be recursive, and tables without an index large."""
_CACHE: Final = 1024
"""KiB of pages that a connection keeps."""
_MAX_ROWS: Final = 10_000
_MAX_FACTS: Final = 16 * 1024 * 1024
"""Characters of the rows that describe a file."""
_FUNCTIONS: Final = frozenset(("abs", "coalesce", "ifnull", "length", "nullif"))
"""What views may call."""
_ALLOWED: Final = frozenset(
    # Views cannot begin transactions.
    (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_TRANSACTION)
)
Row = tuple[Any, ...]


class Connection:
    """A connection of one thread to one generation of a file. It only reads, and trusts nothing.

    Attributes:
        name: of the file, for messages.
        application: number of the application that the file belongs to; set when it is examined.
    """

    __slots__ = ("_connection", "_steps", "application", "name")

    def __init__(self, path: str, name: str, *, is_immutable: bool) -> None:
        uri = f"file:{quote(path)}?mode=ro{'&immutable=1' if is_immutable else ''}"
        self.name = name
        self.application = 0
        # Not a method of this object: it would keep the connection open until a collection.
        self._steps = _Steps()
        connection = sqlite3.connect(
            uri, BUSY_TIMEOUT, isolation_level=None, check_same_thread=False, uri=True
        )
        self._connection = connection
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_BLOB)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_progress_handler(self._steps.go_on_too_long, MAX_STEPS)
        connection.text_factory = _text
        # A truncated mapping would kill the process.
        for setting in (
            *("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"),
            *("mmap_size = 0", f"cache_size = -{_CACHE}", "temp_store = MEMORY"),
        ):
            connection.execute(f"PRAGMA {setting}").close()

    def guard(self) -> None:
        """Allow statements that only read from now on."""
        self._connection.set_authorizer(_is_allowed)

    def pragma(self, name: str) -> Any:
        """Return a value of the file. Only before `guard`."""
        return self._connection.execute(f"PRAGMA {name}").fetchone()[0]

    def one(self, statement: str, values: Sequence[Any] = ()) -> Row | None:
        """Return the first row, or None. Raises `sqlite3.Error`."""
        self._steps.rounds = 0
        cursor = self._connection.execute(statement, values)
        row = cursor.fetchone()
        # A statement that has not been stepped to its end keeps a lock on the file.
        cursor.close()
        return row  # type: ignore[no-any-return]

    def some(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return all rows of a table of facts.

        Raises:
            ContainerFormatError: they are too many, or too large.
            sqlite3.Error: they cannot be read.
        """
        self._steps.rounds = 0
        rows: list[Row] = []
        size = 0
        with closing(self._connection.execute(statement, values)) as cursor:
            for row in cursor:
                rows.append(row)
                size += sum(len(value) for value in row if isinstance(value, str | bytes))
                if len(rows) > _MAX_ROWS or size > _MAX_FACTS:
                    raise ContainerFormatError(f"{self.name}: a table of metadata is too large")
        return rows

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Read one state of a file that is written in place."""
        self.one("BEGIN")
        try:
            yield
        finally:
            with suppress(sqlite3.Error, UnicodeDecodeError):
                self.one("ROLLBACK")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __del__(self) -> None:
        # Connections are in cycles with their statements: without this, files stay open.
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()


class _Steps:
    """How often SQLite has counted the steps of a statement to the limit."""

    __slots__ = ("rounds",)

    def __init__(self) -> None:
        self.rounds = 0

    def go_on_too_long(self) -> bool:
        """Return whether the statement must stop."""
        # SQLite counts the steps of all runs of a statement: the first call may come early.
        self.rounds += 1
        return self.rounds > 1


def quoted(identifier: str) -> str:
    """Return an identifier in a statement.

    Raises:
        ContainerFormatError: it cannot be one.
    """
    if "\0" in identifier:
        raise ContainerFormatError("the name of a table contains a null character")
    return '"' + identifier.replace('"', '""') + '"'


def _is_allowed(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
