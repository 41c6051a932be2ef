"""SQLite files that many threads and processes read while others replace them."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from time import monotonic, time
from typing import TYPE_CHECKING, Any, ClassVar, Final

from mastaba.errors import (
    ContainerFormatError,
    MastabaError,
    StorageError,
    StorageUnavailableError,
    reason_of,
)
from mastaba_server.threads.per_process import PerProcess
from mastaba_sqlite_tiles.connection import MAX_STEPS, Connection, Row

if TYPE_CHECKING:
    from mastaba.api.containers import IndexCache
    from mastaba.api.storages import Storage

OPEN_FILES: Final = 64
"""Files that a thread keeps open."""

_TRUSTED: Final = 0.1
"""Seconds in which a file that was found unchanged is not examined again, as `FileStorage` does."""
_CALM: Final = 2.0
"""Seconds since its last change after which a file is trusted at all: it is not being written."""
_ATTEMPTS: Final = 16
"""Attempts to read a file that is being replaced."""
_TOUCH: Final = "SELECT 1 FROM sqlite_master LIMIT 1"
"""Opens the file, and reads its head."""
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
        self._trusted_until = 0.0
        self._lock = threading.Lock()

    def moved(self, storage: Storage, indices: IndexCache) -> DatabaseFile:
        """Return the file for a reader with another storage and cache."""
        return self

    def generation(self) -> Generation:
        """Return what the file is now; up to two calls of the system if it is as before.

        A calm file that is read without locks is not examined again for a tenth of a second.

        Raises:
            ContainerFormatError: the file is damaged, or something else.
            StorageError: it cannot be read.
        """
        current = self._current
        if current is not None and current.is_immutable and current.problem is None:
            # The usual case, with fewer calls. The look takes a tenth of the time of a tile.
            now = monotonic()
            if now < self._trusted_until:
                return current
            try:
                found = os.stat(self.path)
            except OSError as error:
                raise self._unavailable(reason_of(error)) from error
            changed, size, inode, *_ = current.facts
            if found.st_ino == inode and found.st_mtime_ns == changed and found.st_size == size:
                if time() - current.modified > _CALM:
                    self._trusted_until = now + _TRUSTED
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
        if not stat.S_ISREG(found.st_mode):
            # Opening a pipe would block the thread until there is a writer.
            raise self._unavailable("it is not a regular file")
        facts = found.st_mtime_ns, found.st_size, found.st_ino
        if with_log and not self.is_private:
            with suppress(OSError):
                log = os.stat(f"{self.path}-wal")
                return *facts, log.st_mtime_ns, log.st_size
        return *facts, 0, 0

    def _renewed(self) -> Generation:
        """Look at a file that is new or has changed."""
        self._trusted_until = 0.0
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
                self._trusted_until = 0.0
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
        self._trusted_until = 0.0
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
        # The second one: its log is gone, and cannot be made.
        cannot_open = code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
        if cannot_open and os.path.isfile(self.path):
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
