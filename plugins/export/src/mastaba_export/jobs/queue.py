"""The queue of jobs: a database that all processes of the server and all workers share."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mastaba_export.jobs.database import Database
from mastaba_export.jobs.job import Job, Order, ResultFile, State, new_identifier
from mastaba_export.jobs.refusals import FullError, TooManyError
from mastaba_export.jobs.settings import JobSettings

ATTEMPTS: Final = 3
"""Workers that may die with a job, or find the storage broken; then it has failed."""

_RETRY_AFTER: Final = 60
# Of the owners with a waiting job and room for another running one, the one whose last job began
# first; the oldest job of this owner.
_NEXT: Final = """
SELECT id FROM jobs LEFT JOIN owners USING (owner)
WHERE state = 'accepted'
AND (
    SELECT count(*) FROM jobs AS other WHERE other.owner = jobs.owner AND other.state = 'running'
) < ?
ORDER BY coalesce(served, 0), created, id LIMIT 1
"""
_SERVED: Final = """
INSERT INTO owners SELECT owner, (SELECT coalesce(max(served), 0) + 1 FROM owners)
FROM jobs WHERE id = ? ON CONFLICT (owner) DO UPDATE SET served = excluded.served
"""


class Queue:
    """The jobs of one directory. Each method is one transaction, safe in all processes and threads.

    Args:
        settings: directory and limits. The directory is created on first use.
        clock: Unix seconds.

    Every method raises `QueueError` if the database cannot be used.
    """

    def __init__(self, settings: JobSettings, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self._clock = clock
        self._database = Database(f"{settings.directory}/queue.sqlite")

    def submit(self, order: Order, room: int) -> Job:
        """Add a job, which is then accepted.

        Args:
            order: of the client.
            room: bytes that results, with the expected ones of all jobs, may have.

        Raises:
            TooManyError: the owner, or all of them, have too many waiting jobs.
            FullError: there is no room for the result.
        """
        settings, now = self.settings, self._clock()
        identifier = new_identifier()
        with self._database.writing() as database:
            waiting, mine = _row(
                database,
                "SELECT count(*), coalesce(sum(owner = ?), 0) FROM jobs WHERE state = 'accepted'",
                order.owner,
            )
            for count, limit, whose in (
                (mine, settings.waiting, "you have"),
                (waiting, settings.limits.waiting, "the server has"),
            ):
                if count >= limit:
                    text = f"{whose} {count} waiting jobs, and the limit is {limit}"
                    details = {"waiting": count, "limit": limit}
                    raise TooManyError(text, details, _RETRY_AFTER)
            (taken,) = _row(
                database,
                "SELECT coalesce(sum(bytes), 0) FROM jobs"
                " WHERE state IN ('accepted', 'running', 'successful')",
            )
            if taken + order.expected_bytes > room:
                text = (
                    f"there is no room for {order.expected_bytes} bytes: {taken} of {room} bytes"
                    " are taken by results and by other jobs"
                )
                details = {"bytes": order.expected_bytes, "taken": taken, "limit": room}
                raise FullError(text, details, self._until_room(database, now))
            database.execute(
                "INSERT INTO jobs (id, owner, process, layer, inputs, plan, estimate, bytes, state,"
                " created, updated, sources, public)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'accepted', ?, ?, ?, ?)",
                (
                    *(identifier, order.owner, order.process, order.layer),
                    *(json.dumps(order.inputs), order.plan, json.dumps(order.estimate)),
                    *(order.expected_bytes, now, now, order.names_sources, order.is_public),
                ),
            )
        return Job(identifier, order, State.ACCEPTED, created=now, updated=now)

    def job(self, identifier: str) -> Job | None:
        """Return a job; None if there is none."""
        found = self._select("WHERE id = ?", identifier)
        return found[0] if found else None

    def jobs_of(self, owner: str, limit: int, offset: int = 0) -> list[Job]:
        """Return the jobs of an owner, the newest first."""
        order = "WHERE owner = ? ORDER BY created DESC, id LIMIT ? OFFSET ?"
        return self._select(order, owner, limit, offset)

    def counts(self) -> dict[State, tuple[int, int]]:
        """Return the number of jobs and the bytes of their results, by state."""
        with self._database.reading() as database:
            rows = database.execute("SELECT state, count(*), sum(bytes) FROM jobs GROUP BY state")
            found = {State(state): (count, size) for state, count, size in rows}
        return {state: found.get(state, (0, 0)) for state in State}

    # Workers

    def beat(self, worker: str) -> None:
        """Note that a worker is alive, in this process."""
        with self._database.writing() as database:
            database.execute(
                "INSERT INTO workers VALUES (?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET beat = excluded.beat",
                (worker, os.getpid(), self._clock()),
            )

    def leave(self, worker: str) -> None:
        """Forget a worker, whose job is no longer running."""
        with self._database.writing() as database:
            database.execute("DELETE FROM workers WHERE id = ?", (worker,))

    def claim(self, worker: str) -> Job | None:
        """Give a waiting job to a worker, which has then sent a sign of life.

        The owners take turns.

        Returns:
            None if no job can begin.
        """
        with self._database.reading() as database:
            # Idle workers ask every second, and must not hinder those that write.
            if database.execute(_NEXT, (self.settings.running,)).fetchone() is None:
                return None
        with self._database.writing() as database:
            found = database.execute(_NEXT, (self.settings.running,)).fetchone()
            if found is None:
                return None
            now = self._clock()
            changed = database.execute(
                "UPDATE jobs SET state = 'running', worker = ?, message = '', updated = ?,"
                " started = CASE started WHEN 0 THEN ? ELSE started END"
                " WHERE id = ? AND state = 'accepted'",
                (worker, now, now, found[0]),
            )
            assert changed.rowcount == 1
            database.execute(_SERVED, found)
            return _jobs(database, "WHERE id = ?", found[0])[0]

    def progress(self, job: Job, percent: int, checkpoint: int) -> bool:
        """Note what a worker has done of its job.

        Returns:
            False if the job is no longer the worker's: it was dismissed, or given to another.
        """
        return self._update(job, "progress = ?, checkpoint = ?", min(percent, 99), checkpoint)

    def succeed(self, job: Job, files: Iterable[ResultFile]) -> bool:
        """Note that a job is done; False if it is no longer the worker's."""
        listed = tuple(files)
        text = json.dumps([[item.name, item.media_type, item.size] for item in listed])
        return self._update(
            job,
            "state = 'successful', worker = '', progress = 100, files = ?, bytes = ?, finished = ?",
            *(text, sum(item.size for item in listed), self._clock()),
        )

    def fail(self, job: Job, message: str, status: int) -> bool:
        """Note that a job cannot be done; False if it is no longer the worker's.

        Args:
            job: of the worker.
            message: why, for the client.
            status: HTTP status of the answer to a request for the result.
        """
        return self._update(
            job,
            "state = 'failed', worker = '', message = ?, status = ?, finished = ?",
            *(message, status, self._clock()),
        )

    def give_back(self, job: Job) -> bool:
        """Let another worker continue a job; False if it is no longer the worker's."""
        return self._update(job, "state = 'accepted', worker = '', message = ?", "interrupted")

    def abandoned(self) -> list[Job]:
        """Return the running jobs whose workers have sent no sign of life for too long."""
        limit = self._clock() - self.settings.silence
        return self._select(
            "WHERE state = 'running' AND worker NOT IN (SELECT id FROM workers WHERE beat >= ?)",
            limit,
        )

    def try_again(self, job: Job, reason: str, status: int = 500) -> bool:
        """Let another worker continue a job that could not go on.

        Args:
            job: of the worker.
            reason: why, for the client.
            status: HTTP status of its result if this was the last attempt. It has then failed.

        Returns:
            whether it waits now. Otherwise it has failed, or is no longer the worker's.
        """
        if job.attempts + 1 >= ATTEMPTS:
            self.fail(job, f"{reason}, after {ATTEMPTS} attempts", status)
            return False
        what = "state = 'accepted', worker = '', attempts = attempts + 1, message = ?"
        return self._update(job, what, reason)

    # Ends

    def dismiss(self, job: Job) -> bool:
        """Dismiss a job in the state that it had; False if it has another one by now."""
        with self._database.writing() as database:
            now = self._clock()
            changed = database.execute(
                "UPDATE jobs SET state = 'dismissed', worker = '', files = '[]', message = '',"
                " updated = ?, finished = ? WHERE id = ? AND state = ?",
                (now, now, job.id, job.state),
            )
            return changed.rowcount == 1

    def expire(self, room: int) -> list[str]:
        """Forget the jobs that ended too long ago, and the oldest results beyond the limit.

        Args:
            room: bytes that results may have.

        Returns:
            the identifiers of jobs whose results are to be removed.
        """
        with self._database.writing() as database:
            now = self._clock()
            limit = now - self.settings.keep
            final = "state IN ('successful', 'failed', 'dismissed')"
            where = f"WHERE {final} AND finished < ?"
            gone = [row[0] for row in database.execute(f"SELECT id FROM jobs {where}", (limit,))]  # noqa: S608
            database.execute(f"DELETE FROM jobs {where}", (limit,))  # noqa: S608
            kept = database.execute(
                "SELECT id, bytes FROM jobs WHERE state = 'successful' ORDER BY finished, id"
            ).fetchall()
            excess = sum(size for _, size in kept) - room
            for identifier, size in kept:
                if excess <= 0:
                    break
                excess -= size
                gone.append(identifier)
                database.execute("DELETE FROM jobs WHERE id = ?", (identifier,))
            database.execute("DELETE FROM owners WHERE owner NOT IN (SELECT owner FROM jobs)")
            silent = now - 10 * self.settings.silence
            database.execute("DELETE FROM workers WHERE beat < ?", (silent,))
        return gone

    def unfinished(self) -> set[str]:
        """Return the identifiers of jobs that have, or may write, files."""
        with self._database.reading() as database:
            rows = database.execute(
                "SELECT id FROM jobs WHERE state IN ('accepted', 'running', 'successful')"
            )
            return {row[0] for row in rows}

    def close(self) -> None:
        """Close the database of this process; the next call opens it again."""
        self._database.close()

    # The database

    def _until_room(self, database: sqlite3.Connection, now: float) -> int:
        (first,) = _row(database, "SELECT min(finished) FROM jobs WHERE state = 'successful'")
        return _RETRY_AFTER if first is None else max(1, round(first + self.settings.keep - now))

    def _select(self, rest: str, *values: Any) -> list[Job]:
        with self._database.reading() as database:
            return _jobs(database, rest, *values)

    def _update(self, job: Job, what: str, *values: Any) -> bool:
        """Change a job if the worker that it had when it was read still has it."""
        with self._database.writing() as database:
            changed = database.execute(
                f"UPDATE jobs SET {what}, updated = ?"  # noqa: S608 - no text of a client
                " WHERE id = ? AND worker = ? AND state = 'running'",
                (*values, self._clock(), job.id, job.worker),
            )
            return changed.rowcount == 1


_COLUMNS: Final = (
    "id, owner, process, layer, inputs, plan, estimate, bytes, state, progress, message,"
    " checkpoint, status, attempts, worker, files, sources, public, created, started, updated,"
    " finished"
)


def _jobs(database: sqlite3.Connection, rest: str, *values: Any) -> list[Job]:
    rows = database.execute(f"SELECT {_COLUMNS} FROM jobs {rest}", values)  # noqa: S608
    return [_job(row) for row in rows]


def _job(row: tuple[Any, ...]) -> Job:
    identifier, owner, process, layer, inputs, plan, estimate, size, state, *rest = row
    progress, message, checkpoint, status, attempts, worker, files, *rest = rest
    sources, public, *times = rest
    created, started, updated, finished = times
    wanted: Mapping[str, Any] = json.loads(inputs)
    return Job(
        identifier,
        Order(
            *(owner, process, layer, wanted, plan, json.loads(estimate), size),
            names_sources=bool(sources),
            is_public=bool(public),
        ),
        State(state),
        progress,
        message,
        checkpoint,
        status,
        attempts,
        worker,
        tuple(ResultFile(*item) for item in json.loads(files)),
        created,
        started,
        updated,
        finished,
    )


def _row(database: sqlite3.Connection, statement: str, *values: Any) -> Any:
    return database.execute(statement, values).fetchone()
