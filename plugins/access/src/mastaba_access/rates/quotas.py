"""Quotas: what may be spent in a day or a month, counted in a database."""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Final

from mastaba_server.threads.per_process import PerProcess

logger = logging.getLogger("mastaba.access")

_PARTS: Final = 256
"""A process leases this part of a quota."""
_LONGEST_LEASE: Final = 10.0
"""Seconds without a request after which a lease is given back."""
_CLOSED: Final = 5.0
"""Seconds for which a quota that is used up is not asked for again."""
_MOST_LEASES: Final = 16_384
"""Of a process; twice as many while the database does not take them back."""
_PATIENCE: Final = 2.0
"""Seconds that a request waits for other processes."""
_PAUSE: Final = 10.0
"""Seconds in which a database that cannot be used is not asked again: all requests would wait."""
_SILENCE: Final = 60.0
"""Seconds between two lines about a database that cannot be used."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS spent (
    name BLOB NOT NULL, period TEXT NOT NULL, ends INTEGER NOT NULL, cost INTEGER NOT NULL,
    PRIMARY KEY (name, period)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS salt (salt BLOB PRIMARY KEY) WITHOUT ROWID;
"""


class QuotaLease:
    """What this process may spend of a quota. Its methods may be called in several threads.

    Args:
        quotas: the database.
        name: of rate and subject.
        limit: cost.
        period: ``day`` or ``month``.

    Attributes:
        key: equal for leases of the same quota.
    """

    def __init__(self, quotas: Quotas, name: str, limit: int, period: str) -> None:
        self.key = name, limit, period
        self._quotas = quotas
        self._name = name
        self._limit = limit
        self._period = period
        self._now = ""
        self._ends = 0.0
        self._left = 0
        self._used = 0.0
        self._closed = 0.0
        self._lock = threading.Lock()

    def take(self, cost: int) -> float:
        """Take a cost; return 0, or the seconds to the end of the period if it is used up.

        A cost above the quota counts as the quota.
        """
        with self._lock:
            now = self._quotas.clock()
            if now >= self._ends:
                self._now, self._ends = period_at(self._period, now)
                self._left, self._closed = 0, 0.0
            self._used = now
            cost = min(cost, self._limit)
            if cost > self._left:
                if now < self._closed:
                    return self._ends - now
                self._lease(cost)
                if cost > self._left:
                    self._closed = now + _CLOSED
                    return self._ends - now
            self._left -= cost
            return 0.0

    def give(self, cost: int) -> None:
        """Give back a cost that was taken just now."""
        with self._lock:
            self._left += min(cost, self._limit)
            self._quotas.keep(self)

    def give_back(self, *, is_last: bool = False) -> None:
        """Give back what is left, if it was not used for some seconds, or at the end."""
        with self._lock:
            now = self._quotas.clock()
            is_due = is_last or now >= self._used + _LONGEST_LEASE
            if self._left and is_due and now < self._ends:
                self._lease(0)

    def _lease(self, cost: int) -> None:
        wanted = max(cost, self._limit // _PARTS) if cost else 0
        period = self._now, self._ends
        found = self._quotas.exchange(self._name, period, self._limit, self._left, (cost, wanted))
        # A database that fails refuses nobody, but counts nothing either. What it leased is left.
        self._left = self._left + cost if found is None else found
        if self._left:
            self._quotas.keep(self)


class Quotas:
    """The quotas of a node, in an SQLite database.

    Args:
        path: of the database, which is made if it does not exist.
        clock: Unix seconds.

    Raises:
        OSError: it cannot be made or used.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._path = path
        self._leases: PerProcess[dict[object, QuotaLease]] = PerProcess(dict)
        self._room = _MOST_LEASES
        self._silent_until = self._paused_until = 0.0
        self._db: PerProcess[sqlite3.Connection] = PerProcess(self._open)
        self._lock = PerProcess(threading.Lock)
        try:
            with closing(self._open()) as db:
                db.execute("PRAGMA journal_mode = WAL")
                db.executescript(_SCHEMA)
                with db:
                    db.execute("BEGIN IMMEDIATE")
                    db.execute("DELETE FROM spent WHERE ends < ?", (int(clock()),))
                    if db.execute("SELECT salt FROM salt").fetchone() is None:
                        db.execute("INSERT INTO salt VALUES (?)", (os.urandom(16),))
                (self._salt,) = db.execute("SELECT salt FROM salt").fetchone()
        except sqlite3.Error as error:
            raise OSError(str(error)) from error

    def lease(self, name: str, limit: int, period: str) -> QuotaLease:
        """Return what this process may spend of a quota."""
        leases = self._leases.get()
        found = leases.get((name, limit, period))
        if found is None:
            if len(leases) >= self._room:
                self._make_room(leases)
            found = QuotaLease(self, name, limit, period)
            found = leases.setdefault(found.key, found)
        return found

    def keep(self, lease: QuotaLease) -> None:
        """Keep a lease of which something is left, to give it back; it may have been forgotten."""
        leases = self._leases.get()
        if leases.setdefault(lease.key, lease) is not lease:
            # There is another one of the same quota by now.
            leases[lease] = lease

    def _make_room(self, leases: dict[object, QuotaLease]) -> None:
        """Give back all leases, and forget those of which nothing is left."""
        for key, lease in tuple(leases.items()):
            # Before, because another thread may use it meanwhile. It is kept if something is left.
            leases.pop(key, None)
            lease.give_back(is_last=True)
        # While the database cannot be used, not all are tried for each new one.
        step = _MOST_LEASES // 4
        # The latest ones rarely hold anything that the database has counted; that is lost.
        while len(leases) > 2 * _MOST_LEASES - step:
            leases.popitem()
        self._room = max(_MOST_LEASES, len(leases) + step)

    def give_back(self, *, is_last: bool = False) -> None:
        """Give back the leases of this process that are not used.

        Args:
            is_last: all of them, because the process ends. Otherwise called about once a second.
        """
        if is_last:
            # Later is too late. If it fails again, the other leases do not wait.
            self._paused_until = 0.0
        for lease in tuple(self._leases.get().values()):
            lease.give_back(is_last=is_last)

    def exchange(
        self,
        name: str,
        period: tuple[str, float],
        limit: int,
        returned: int,
        asked: tuple[int, int],
    ) -> int | None:
        """Give back a lease, and take another one.

        Args:
            name: of rate and subject; its digest is stored.
            period: its name, and its end in Unix seconds.
            limit: cost in the period.
            returned: cost.
            asked: least cost that makes sense, and the cost that is wanted.

        Returns:
            Cost that is leased; 0 if there is not enough; None if the database cannot be used.
        """
        salted = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=self._salt)
        with self._lock.get():
            if time.monotonic() < self._paused_until:
                return None
            try:
                return self._exchanged(salted.digest()[:16], period, limit, returned, asked)
            except sqlite3.Error as error:
                self._paused_until = time.monotonic() + _PAUSE
                if self.clock() >= self._silent_until:
                    self._silent_until = self.clock() + _SILENCE
                    logger.error("quotas are not counted: %s", error)
                return None

    def _exchanged(
        self,
        name: bytes,
        period: tuple[str, float],
        limit: int,
        returned: int,
        asked: tuple[int, int],
    ) -> int:
        least, wanted = asked
        with self._db.get() as db:
            db.execute("BEGIN IMMEDIATE")
            query = "SELECT cost FROM spent WHERE name = ? AND period = ?"
            (spent,) = db.execute(query, (name, period[0])).fetchone() or (0,)
            spent = max(0, spent - returned)
            taken = min(limit - spent, wanted) if limit - spent >= least else 0
            db.execute(
                "INSERT OR REPLACE INTO spent VALUES (?, ?, ?, ?)",
                (name, period[0], int(period[1]), spent + taken),
            )
        return taken

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self._path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            db.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error:
            db.close()
            raise
        return db


def period_at(period: str, at: float) -> tuple[str, float]:
    """Return the name of the day or month (UTC) at a time, and its end in Unix seconds."""
    now = datetime.fromtimestamp(at, UTC)
    start = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return f"{start:%Y-%m-%d}", (start + timedelta(days=1)).timestamp()
    start = start.replace(day=1)
    return f"{start:%Y-%m}", (start + timedelta(days=32)).replace(day=1).timestamp()
