"""SQLite files of strangers that many threads and processes read while others replace them."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from mastaba.errors import (
    ContainerFormatError,
    MastabaError,
    StorageError,
    StorageUnavailableError,
    reason_of,
)
from mastaba_server.threads.per_process import PerProcess

if TYPE_CHECKING:
    from mastaba.api.containers import IndexCache
    from mastaba.api.storages import Storage

MAX_BLOB: Final = 64 * 1024 * 1024
"""Bytes of the largest value that SQLite may return or make."""
BUSY_TIMEOUT: Final = 0.25
"""Seconds to wait for a writer."""
MAX_STEPS: Final = 50_000
"""Steps of the virtual machine of SQLite after which a statement is stopped, at the latest twice as
many: views may be recursive, and tables without an index large."""
OPEN_FILES: Final = 64
"""Files that a thread keeps open."""

_CACHE: Final = 1024
"""KiB of pages that a connection keeps."""
_ATTEMPTS: Final = 16
"""Attempts to read a file that is being replaced."""
_TOUCH: Final = "SELECT 1 FROM sqlite_master LIMIT 1"
"""Opens the file, and reads its head."""
_MAX_ROWS: Final = 10_000
_MAX_FACTS: Final = 16 * 1024 * 1024
"""Characters of the rows that describe a file."""
_FUNCTIONS: Final = frozenset(("abs", "coalesce", "ifnull", "length", "nullif"))
"""What views may call."""
_ALLOWED: Final = frozenset(
    # Views cannot begin transactions.
    (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_TRANSACTION)
)
_UNAVAILABLE: Final = frozenset(
    (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
    )
)
"""Primary error codes after which a later attempt may succeed."""
_FAILURES: Final = (sqlite3.Error, MemoryError, UnicodeDecodeError)
"""The last one: a message of SQLite quotes a damaged name of a table."""

Facts = tuple[int, int, int, int, int]
"""Time of change in nanoseconds, size, inode; the first two of the write-ahead log, or zeros."""
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """What a file was from one change to the next.

    Attributes:
        facts: that show the next change.
        version: equal for copies of a file on several machines, as of other files.
        modified: time of the change, Unix seconds.
        is_immutable: whether no one writes it in place, so it is read without locks.
        contents: what `DatabaseFile` was told to look up in it.
        problem: why it cannot be served, or None.
    """

    facts: Facts
    version: str
    modified: float
    is_immutable: bool
    contents: Hashable = None
    problem: MastabaError | None = None


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


class DatabaseFile:
    """A database in a file that is read by all threads of all processes.

    Each thread opens it on first use, and again if another file has its name. A connection is never
    used in a process that it was not opened in.

    Args:
        path: in the file system.
        name: for messages.
        examine: looks up, once for each generation, what the contents are.

    Attributes:
        key: of the object in its storage.
        is_private: whether no other program writes it, or a log beside it.
    """

    is_private: ClassVar[bool] = False

    def __init__(
        self, path: str, name: str, examine: Callable[[Connection], Hashable] = lambda _: None
    ) -> None:
        self.path = self.key = path
        self.name = name
        self._examine = examine
        self._current: Generation | None = None
        self._lock = threading.Lock()

    def moved(self, storage: Storage, indices: IndexCache) -> DatabaseFile:
        """Return the file for a reader with another storage and cache."""
        return self

    def generation(self) -> Generation:
        """Return what the file is now; one or two calls of the system if it is as before.

        Raises:
            ContainerFormatError: the file is damaged, or something else.
            StorageError: it cannot be read.
        """
        current = self._current
        if current is not None and current.is_immutable and current.problem is None:
            # The usual case, with fewer calls.
            try:
                found = os.stat(self.path)
            except OSError as error:
                raise self._unavailable(reason_of(error)) from error
            time, size, inode, *_ = current.facts
            if found.st_ino == inode and found.st_mtime_ns == time and found.st_size == size:
                return current
        facts = self._facts(with_log=current is None or not current.is_immutable)
        if current is None or current.facts != facts:
            current = self._renewed()
        if current.problem is not None:
            raise current.problem.with_traceback(None)
        return current

    @contextmanager
    def reading(self) -> Iterator[tuple[Generation, Connection]]:
        """Return a connection of this thread, and what it reads: one state for all statements.

        Raises:
            ContainerFormatError, StorageError: as `one`.
        """
        with self._errors():
            for _ in range(_ATTEMPTS):
                generation = self.generation()
                connection = self._connection(generation)
                if connection is None:
                    continue
                if generation.is_immutable:
                    yield generation, connection
                    return
                with connection.unchanged():
                    # The first statement takes the lock; nothing changes after it.
                    connection.one(_TOUCH)
                    if self._facts(with_log=True) == generation.facts:
                        yield generation, connection
                        return
            raise self._unavailable("it is replaced all the time")

    def one(self, statement: str, values: Sequence[Any]) -> tuple[Generation, Row | None]:
        """Return the first row of a statement, and the generation that it is from.

        Raises:
            ContainerFormatError: the file is damaged.
            StorageUnavailableError: a writer locks it, or it does not exist any more.
            StorageError: it cannot be read.
        """
        generation = self.generation()
        if generation.is_immutable:
            # The usual case, without the contexts of `reading`, and with fewer calls.
            try:
                opened = _opened.get()._local.files.get(self.path)
            except AttributeError:
                opened = None
            if opened is not None and opened[0] is generation:
                connection = opened[1]
                connection._steps.rounds = 0
                try:
                    # Nothing is locked until the cursor is gone.
                    return generation, connection._connection.execute(statement, values).fetchone()
                except _FAILURES as error:
                    raise self._translated(error) from error
        with self.reading() as (generation, connection):
            return generation, connection.one(statement, values)

    def failed(self, reason: str) -> ContainerFormatError:
        """Return the error of a file whose contents are invalid."""
        return ContainerFormatError(f"{self.name}: {reason}")

    def _facts(self, *, with_log: bool) -> Facts:
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise self._unavailable(reason_of(error)) from error
        facts = found.st_mtime_ns, found.st_size, found.st_ino
        if with_log and not self.is_private:
            with suppress(OSError):
                log = os.stat(f"{self.path}-wal")
                return *facts, log.st_mtime_ns, log.st_size
        return *facts, 0, 0

    def _renewed(self) -> Generation:
        """Look at a file that is new or has changed."""
        with self._lock, self._errors():
            for _ in range(_ATTEMPTS):
                facts = self._facts(with_log=True)
                current = self._current
                if current is not None and current.facts == facts:
                    return current
                if (found := self._examined(facts)) is not None:
                    self._current = found
                    return found
            raise self._unavailable("it is replaced all the time")

    def _examined(self, facts: Facts) -> Generation | None:
        """Return the generation with these facts, or None if it is gone."""
        # The header of the file is read by SQLite only: closing another descriptor of the file
        # would release the locks of all connections of this process.
        is_private = self.is_private
        with closing(Connection(self.path, self.name, is_immutable=is_private)) as connection:
            is_written = not is_private and (
                connection.pragma("journal_mode") == "wal"
                or any(os.path.exists(f"{self.path}-{end}") for end in ("wal", "journal"))
            )
            connection.application = connection.pragma("application_id")
            connection.guard()
            contents: Hashable = None
            problem: MastabaError | None = None
            try:
                contents = self._examine(connection)
            except (ContainerFormatError, StorageUnavailableError) as error:
                problem = error
            if self._facts(with_log=True) != facts:
                return None
        version = f"{facts[0]:x}-{facts[1]:x}"
        if is_written and any(facts[3:]):
            version += f"-{facts[3]:x}-{facts[4]:x}"
        seconds = max(facts[0], facts[3]) / 1e9
        return Generation(facts, version, seconds, not is_written, contents, problem)

    def _connection(self, generation: Generation) -> Connection | None:
        """Return the connection of this thread to a generation, or None if that is gone."""
        opened = _opened.get()
        connection = opened.get(self.path, generation)
        if connection is None:
            connection = Connection(self.path, self.name, is_immutable=generation.is_immutable)
            connection.guard()
            connection.one(_TOUCH)
            if self._facts(with_log=not generation.is_immutable)[:3] != generation.facts[:3]:
                connection.close()
                return None
            opened.put(self.path, generation, connection)
        return connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> MastabaError:
        """Return the error for a failed statement; this thread opens the file again next time."""
        _opened.get().drop(self.path)
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code == sqlite3.SQLITE_INTERRUPT:
            return self.failed(
                f"a statement takes more than {MAX_STEPS} steps: an index on zoom_level, "
                "tile_column and tile_row is missing, or a view is too complex"
            )
        if code == sqlite3.SQLITE_AUTH:
            return self.failed("a view does more than to read tables")
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return self._unavailable("it is locked by a writer")
        if code == sqlite3.SQLITE_CANTOPEN and os.path.isfile(self.path):
            return self._unavailable(
                "it cannot be opened: if it has a write-ahead log, its directory must be "
                "writable; otherwise run PRAGMA journal_mode=DELETE on it"
            )
        if isinstance(error, MemoryError) or code in _UNAVAILABLE:
            return self._unavailable(str(error) or "memory is exhausted")
        if code == sqlite3.SQLITE_NOTADB:
            return self.failed("it is not an SQLite database")
        if code == sqlite3.SQLITE_CORRUPT or isinstance(error, UnicodeDecodeError):
            return self.failed("the database is damaged; check it with PRAGMA integrity_check")
        return self.failed(str(error))

    def _unavailable(self, reason: str) -> StorageError:
        reason = f"cannot read the file {self.name}: {reason}"
        return StorageUnavailableError(reason, storage="file://", key=self.key)


class _OpenFiles:
    """The connections of each thread of this process."""

    def __init__(self) -> None:
        self._local = threading.local()

    def get(self, path: str, generation: Generation) -> Connection | None:
        """Return the connection to a generation, if this thread has one."""
        try:
            found = self._local.files.get(path)
        except AttributeError:
            return None
        return found[1] if found is not None and found[0] is generation else None

    def put(self, path: str, generation: Generation, connection: Connection) -> None:
        """Keep a connection, instead of another one to the same path."""
        files: OrderedDict[str, tuple[Generation, Connection]]
        files = self._local.__dict__.setdefault("files", OrderedDict())
        self.drop(path)
        files[path] = generation, connection
        while len(files) > OPEN_FILES:
            files.popitem(last=False)[1][1].close()

    def drop(self, path: str) -> None:
        """Close the connection of this thread to a file."""
        found = self._local.__dict__.get("files", {}).pop(path, None)
        if found is not None:
            found[1].close()


_opened: Final = PerProcess(_OpenFiles)


def close_connections() -> None:
    """Close the connections of all threads of this process that do not use them now."""
    _opened.drop()


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
