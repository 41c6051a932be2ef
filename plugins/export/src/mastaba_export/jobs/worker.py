"""A process that runs jobs."""

from __future__ import annotations

import errno
import logging
import os
import resource
import secrets
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from mastaba.errors import MastabaError, StorageError, public_message
from mastaba.tooling.memory import keep_freed_memory
from mastaba_export.errors import (
    DataChangedError,
    DestinationError,
    ExportError,
    ExportTooLargeError,
    WriteError,
)
from mastaba_export.jobs.job import Job, ResultFile
from mastaba_export.jobs.queue import Queue
from mastaba_export.jobs.refusals import DiskFullError, QueueError
from mastaba_export.jobs.results import HeldError, Results, clean

if TYPE_CHECKING:
    from mastaba_export.jobs.remote import RemoteResults

logger = logging.getLogger("mastaba.export")

Report = Callable[[int, float], None]
"""Takes the bytes that are safely written, and the share of the work that is done."""

Perform = Callable[[Job, str, Report], Iterable[ResultFile]]
"""Writes the result of a job into a directory, or continues to do so."""

NICE: Final = 10

_IDLE: Final = 1.0
"""Seconds between two looks at an empty queue, and between two notes of progress."""
_PAUSE: Final = 10.0
"""Seconds to wait after a storage has failed."""
_CLEANING: Final = 60.0
_CHECKED_EACH: Final = 64 * 1024**2
"""Bytes after which the room on the disk is checked again."""


class StoppedError(MastabaError):
    """The worker is stopped; another one will continue its job."""


class LostError(MastabaError):
    """The job is no longer the worker's."""


class Worker:
    """Runs the jobs of a queue, one at a time.

    Args:
        queue: gives the jobs.
        perform: does the work. It calls its third argument at least every few seconds, and lets
            the errors of that propagate.
        remote: results in an object store; None if they are files.
    """

    def __init__(self, queue: Queue, perform: Perform, remote: RemoteResults | None = None) -> None:
        self._queue = queue
        remove = None if remote is None else remote.remove
        self._results = Results(queue.settings.directory, remove)
        self._perform = perform
        self._stop = threading.Event()
        self._name = _new_name()
        self._cleaned = float("-inf")

    def stop(self) -> None:
        """Let `run` return soon: a job that runs is given back."""
        self._stop.set()

    def run(self) -> None:
        """Run jobs until `stop` is called."""
        self._beat()
        beats = threading.Thread(target=self._beat_always, name="heartbeat", daemon=True)
        beats.start()
        while not self._stop.is_set():
            try:
                is_idle = not self.run_one()
            except QueueError as error:
                logger.error("%s", error)
                is_idle = True
                # Whatever job it had under this name counts as abandoned soon.
                self._name = _new_name()
                self._beat()
            if is_idle:
                self._stop.wait(_IDLE)
        beats.join()
        self._queue.leave(self._name)
        self._queue.close()

    def _beat_always(self) -> None:
        while not self._stop.wait(self._queue.settings.heartbeat):
            self._beat()

    def _beat(self) -> None:
        try:
            self._queue.beat(self._name)
        except QueueError as error:
            logger.error("%s", error)

    def run_one(self) -> bool:
        """Run a job if one waits; return whether there was one.

        Raises:
            QueueError: the queue cannot be used.
        """
        now = time.monotonic()
        if now - self._cleaned >= _CLEANING:
            self._cleaned = now
            clean(self._queue, self._results)
        for job in self._queue.abandoned():
            # A worker that was only suspended still holds its directory.
            if not self._results.is_held(job.id) and self._queue.try_again(job, "its worker died"):
                logger.warning("the worker of the job %s died", job.id)
        claimed = self._queue.claim(self._name)
        if claimed is None:
            return False
        logger.info("job %s: %s of %s", claimed.id, claimed.order.process, claimed.order.layer)
        self._run(claimed)
        return True

    def _run(self, job: Job) -> None:
        """Run a job, and note how it ended.

        Raises:
            QueueError: that cannot be noted.
        """
        queue, is_kept = self._queue, True
        try:
            with self._results.held(job.id) as folder:
                try:
                    is_kept = self._tried(job, folder)
                except QueueError as error:
                    # How the job ended cannot be noted. Another worker continues it, or begins it
                    # again: a full disk gets room for the queue first.
                    if _is_of_full_disk(error):
                        self._results.remove(job.id)
                    raise
        except HeldError as error:
            logger.error("%s", error)
            queue.give_back(job)
            self._stop.wait(_IDLE)
        except OSError as error:
            self._fail(job, error)
            is_kept = False
        if not is_kept and not self._results.is_held(job.id):
            self._remove(job)

    def _tried(self, job: Job, folder: str) -> bool:
        """Do the work of a job, and note how it ended; return whether its files are kept.

        Raises:
            QueueError: that cannot be noted.
        """
        try:
            files = self._perform(job, folder, _Reports(self._queue, job, self))
            return self._queue.succeed(job, files)
        except (StoppedError, StorageError) as error:
            return self._interrupted(job, error)
        except LostError:
            return False
        except QueueError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the job has failed
            self._fail(job, error)
            return False

    def _remove(self, job: Job) -> None:
        """Remove the files of a job, unless another worker has it now."""
        found = self._queue.job(job.id)
        if found is None or found.state.is_final:
            self._results.remove(job.id)

    def _interrupted(self, job: Job, error: StoppedError | StorageError) -> bool:
        """Let another worker continue; return whether the files are kept for it."""
        if isinstance(error, StoppedError):
            return self._queue.give_back(job)
        logger.error("job %s: %s", job.id, error)
        self._stop.wait(_PAUSE)
        return self._queue.try_again(job, public_message(error), 503)

    def _fail(self, job: Job, error: Exception) -> None:
        message, status = _explained(error)
        if status >= 500:
            logger.error("job %s failed", job.id, exc_info=error)
        else:
            logger.info("job %s failed: %s", job.id, error)
        self._queue.fail(job, message, status)

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()


class _Reports:
    """Notes the progress of a job.

    Raises:
        StoppedError: the worker is stopped.
        LostError: the job was dismissed, or given to another worker.
        DiskFullError: the disk is nearly full.
    """

    def __init__(self, queue: Queue, job: Job, worker: Worker) -> None:
        self._queue = queue
        self._job = job
        self._worker = worker
        self._results = Results(queue.settings.directory)
        self._noted = float("-inf")
        self._checked = 0

    def __call__(self, written: int, share: float) -> None:
        if self._worker.is_stopping:
            raise StoppedError("the worker is stopped")
        now = time.monotonic()
        is_due = now - self._noted >= _IDLE
        if is_due or written - self._checked >= _CHECKED_EACH:
            self._checked = written
            self._results.check_space()
        if is_due:
            self._noted = now
            if not self._queue.progress(self._job, int(share * 100), written):
                raise LostError(f"the job {self._job.id} was dismissed, or is another worker's")


def _new_name() -> str:
    return f"{os.getpid()}-{secrets.token_hex(4)}"


def _explained(error: Exception) -> tuple[str, int]:
    """Return the message of a failed job, and the HTTP status of its result."""
    if _is_of_full_disk(error):
        return "the disk of the results is full", 507
    if isinstance(error, DestinationError):
        # Its message contains paths of the server.
        is_disk = isinstance(error, WriteError)
        reason = ": the disk may be full" if is_disk else ""
        return f"the result cannot be written{reason}", 507 if is_disk else 500
    if isinstance(error, DataChangedError):
        return "the data changed while it was exported; order it again", 409
    if isinstance(error, ExportTooLargeError):
        return str(error), 413
    if isinstance(error, ExportError):
        return str(error), 400
    if isinstance(error, MemoryError):
        return "the job needs more memory than it may have", 507
    return public_message(error), 500


def _is_of_full_disk(error: BaseException | None) -> bool:
    """Return whether an error, or one that caused it, says that a disk is full."""
    if error is None or isinstance(error, DiskFullError):
        return error is not None
    if (
        isinstance(error, sqlite3.Error)
        and getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
    ):
        return True
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return _is_of_full_disk(error.__cause__ or error.__context__)


def be_modest(memory: int) -> None:
    """Give way to other processes, and limit the memory of this one.

    Args:
        memory: bytes that it may use in addition to those that it uses now.
    """
    # Threads that read slabs would each get memory of their own, which stays with the process.
    keep_freed_memory()
    os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    used = 0
    with open("/proc/self/status", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("VmData:"):
                used = int(line.split()[1]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + memory, used + memory))


def run_until_stopped(worker: Worker) -> None:
    """Run jobs in the main thread until SIGTERM or SIGINT arrives."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    worker.run()
