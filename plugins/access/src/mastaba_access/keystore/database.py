"""Keys in a SQLite file, for any number of keys, processes and commands."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

from mastaba_access.keystore.base import KeyEvent, KeyStore
from mastaba_access.keystore.errors import KeyStoreError
from mastaba_access.keystore.files import give_to_owner_of_folder, state_of
from mastaba_access.keystore.record import KeyRecord, KeySecret, instant, network_of
from mastaba_server.threads.database import DatabaseConnection

_BUSY: Final = 5.0
"""Seconds to wait for another process that writes."""
_USES_AFTER: Final = 2.0
"""Seconds after which noted uses are written."""
_MOST_USES: Final = 100_000
"""Noted uses that wait, if the file cannot be written."""
_VERSION: Final = 1
_TABLES: Final = """
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    label TEXT NOT NULL,
    owner TEXT NOT NULL,
    groups TEXT NOT NULL,
    starts REAL NOT NULL,
    ends REAL,
    revoked REAL,
    addresses TEXT NOT NULL,
    referers TEXT NOT NULL,
    rate REAL,
    own TEXT,
    created REAL NOT NULL
) STRICT;
CREATE TABLE secrets (
    id TEXT NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    digest BLOB NOT NULL,
    starts REAL NOT NULL,
    ends REAL,
    PRIMARY KEY (id, digest)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    id TEXT NOT NULL,
    what TEXT NOT NULL,
    details TEXT NOT NULL
) STRICT;
CREATE TABLE uses (id TEXT PRIMARY KEY, day TEXT NOT NULL) STRICT, WITHOUT ROWID;
"""
_COLUMNS: Final = (
    "keys.id, label, owner, groups, keys.starts, keys.ends, revoked, addresses, referers, rate,"
    " own, created, digest, secrets.starts, secrets.ends"
)
_SELECT: Final = f"SELECT {_COLUMNS} FROM keys JOIN secrets USING (id)"  # noqa: S608 - constants


class DatabaseKeys(KeyStore):
    """Keys in a SQLite file; each process has one connection, opened on first use.

    Args:
        path: of the file.
        create: whether it is created if it does not exist.
    """

    def __init__(self, path: str, *, create: bool = False) -> None:
        self._path = path
        self._create = create
        self._lock = threading.Lock()
        self._connection = DatabaseConnection(self._open, self._unusable)
        self._own = threading.local()
        self._uses: dict[str, str] = {}
        self._noted: dict[str, str] = {}
        self._events: Sequence[KeyEvent] = ()
        self._seen = self._signature()
        self._last = self._last_event()

    def find(self, key_id: str) -> KeyRecord | None:
        with self._using() as connection:
            rows = connection.execute(f"{_SELECT} WHERE keys.id = ?", (key_id,)).fetchall()
        return _record(rows) if rows else None

    def records(self) -> Iterator[KeyRecord]:
        with self._using() as connection:
            found = connection.execute(f"{_SELECT} ORDER BY keys.id").fetchall()
        rows: list[Any] = []
        for row in found:
            if rows and rows[0][0] != row[0]:
                yield _record(rows)
                rows = []
            rows.append(row)
        if rows:
            yield _record(rows)

    @contextmanager
    def changing(self) -> Iterator[None]:
        # A connection of its own: other threads find keys meanwhile.
        changes = DatabaseConnection(self._open, self._unusable)
        try:
            with changes.transaction() as connection:
                self._own.connection = connection
                yield
        finally:
            self._own.connection = None
            changes.close()

    @contextmanager
    def _using(self, *, is_change: bool = False) -> Iterator[sqlite3.Connection]:
        """Return the connection of `changing` in its thread, or the one of the process."""
        own = getattr(self._own, "connection", None)
        if own is not None:
            yield own
            return
        common = self._connection
        with common.transaction() if is_change else common.use() as connection:
            yield connection

    def save(self, records: Sequence[KeyRecord], what: str) -> None:
        now = time.time()
        with self._using(is_change=True) as connection:
            for record in records:
                connection.execute("DELETE FROM secrets WHERE id = ?", (record.id,))
                connection.execute(
                    "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    _row(record),
                )
                connection.executemany(
                    "INSERT INTO secrets VALUES (?, ?, ?, ?)",
                    [(record.id, one.digest, one.starts, _end(one.ends)) for one in record.secrets],
                )
                connection.execute(
                    "INSERT INTO events (at, id, what, details) VALUES (?, ?, ?, ?)",
                    (now, record.id, what, json.dumps(record.document(), ensure_ascii=False)),
                )

    def has_changed(self) -> bool:
        signature = self._signature()
        if signature == self._seen:
            return False
        before, after = self._last, self._last_event()
        self._seen = signature
        if after == before:
            # Uses were noted, or the file was cleaned up.
            return False
        self._last = after
        if after[0] != before[0]:
            # The file was replaced or removed: the old one is still open.
            self._connection.close()
        self._events = self._events_after(before)
        return True

    def new_events(self) -> Sequence[KeyEvent]:
        found, self._events = self._events, ()
        return found

    def note_use(self, key_id: str, now: float) -> None:
        day = (instant(now) or "")[:10]
        if self._noted.get(key_id) == day or len(self._uses) >= _MOST_USES:
            return
        with self._lock:
            if len(self._noted) >= _MOST_USES:
                self._noted.clear()
            self._noted[key_id] = day
            is_first = not self._uses
            self._uses[key_id] = day
        if is_first:
            timer = threading.Timer(_USES_AFTER, self._write_uses)
            timer.daemon = True
            timer.start()

    def last_uses(self) -> Mapping[str, str]:
        with self._connection.use() as connection:
            return dict(connection.execute("SELECT id, day FROM uses").fetchall())

    def close(self) -> None:
        self._write_uses()
        self._connection.close()

    def _write_uses(self) -> None:
        with self._lock:
            uses, self._uses = self._uses, {}
        if not uses:
            return
        try:
            with self._connection.transaction() as connection:
                connection.executemany(
                    "INSERT INTO uses VALUES (?, ?)"
                    " ON CONFLICT (id) DO UPDATE SET day = max(day, excluded.day)",
                    list(uses.items()),
                )
        except KeyStoreError:
            # A full disk or a folder that cannot be written must not stop anybody.
            with self._lock:
                self._noted.clear()

    def _signature(self) -> tuple[Any, ...]:
        """Return what differs after each change of the file or of its log."""
        return tuple(state_of(self._path + suffix) for suffix in ("", "-wal"))

    def _last_event(self) -> tuple[int, int]:
        """Return inode and last number: another file in the same place is another store."""
        try:
            with closing(self._open()) as connection:
                (number,) = connection.execute(
                    "SELECT coalesce(max(number), 0) FROM events"
                ).fetchone()
            return os.stat(self._path).st_ino, number
        except (sqlite3.Error, OSError):
            return 0, -1

    def _events_after(self, before: tuple[int, int]) -> Sequence[KeyEvent]:
        inode, number = before
        try:
            if os.stat(self._path).st_ino != inode:
                return ()
            with closing(self._open()) as connection:
                rows = connection.execute(
                    "SELECT at, id, what, details FROM events WHERE number > ? ORDER BY number"
                    " LIMIT 10000",
                    (number,),
                ).fetchall()
        except (sqlite3.Error, OSError):
            return ()
        return [KeyEvent(at, key, what, json.loads(details)) for at, key, what, details in rows]

    def _unusable(self, error: Exception) -> KeyStoreError:
        return KeyStoreError(f"the keys {self._path} cannot be used: {error}")

    def _open(self) -> sqlite3.Connection:
        mode = "rwc" if self._create else "rw"
        if self._create:
            # The umask of an operator may let others read a file of digests.
            handle = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
            give_to_owner_of_folder(handle, self._path)
            os.close(handle)
        uri = f"file:{_quoted(self._path)}?mode={mode}"
        connection = sqlite3.connect(
            uri, uri=True, timeout=_BUSY, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == 0:
                self._make_tables(connection)
            elif version != _VERSION:
                raise sqlite3.DatabaseError(f"it has version {version}, not {_VERSION}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        if not self._create:
            raise sqlite3.DatabaseError("it contains no keys; `mastaba key create` makes it")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        # Another process may have been first.
        if connection.execute("PRAGMA user_version").fetchone() == (0,):
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.execute("COMMIT")


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _end(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def _row(record: KeyRecord) -> tuple[Any, ...]:
    lists = (json.dumps(x) for x in (record.groups, record.addresses, record.referers))
    groups, addresses, referers = lists
    own = None if record.own is None else json.dumps(record.own)
    names = record.id, record.label, record.owner, groups
    times = record.starts, _end(record.ends), record.revoked
    return (*names, *times, addresses, referers, record.rate, own, record.created)


def _record(rows: Sequence[tuple[Any, ...]]) -> KeyRecord:
    try:
        return _read(rows)
    except (ValueError, TypeError, KeyStoreError) as error:
        raise KeyStoreError(f"the key {str(rows[0][0])[:40]!r} is damaged: {error}") from error


def _read(rows: Sequence[tuple[Any, ...]]) -> KeyRecord:
    first = rows[0]
    key_id, label, owner, groups, starts, ends, revoked, addresses, referers, rate, own = first[:11]
    return KeyRecord(
        id=key_id,
        label=label,
        owner=owner,
        groups=_words(groups),
        starts=starts,
        ends=math.inf if ends is None else ends,
        revoked=revoked,
        addresses=tuple(map(network_of, _words(addresses))),
        referers=_words(referers),
        rate=rate,
        own=None if own is None else _own(own),
        created=first[11],
        secrets=tuple(
            KeySecret(digest, since, math.inf if until is None else until)
            for *_, digest, since, until in rows
        ),
    )


def _words(text: str) -> tuple[str, ...]:
    found = json.loads(text)
    if not _are_words(found):
        raise ValueError(f"{text[:40]!r} is not a list of texts")
    return tuple(found)


def _own(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if (
        not isinstance(found, dict)
        or not all(_are_words(found.get(name, [])) for name in ("layers", "services"))
        or not isinstance(found.get("area"), str | None)
    ):
        raise ValueError(f"{text[:40]!r} are no grants")
    return found


def _are_words(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(one, str) for one in found)
