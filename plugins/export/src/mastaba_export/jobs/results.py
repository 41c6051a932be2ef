"""The files of jobs: where they lie, how they are served, and when they are removed."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from mastaba.api.web import LARGEST_PIECE, AddressableBody
from mastaba.errors import MastabaError
from mastaba_export.jobs.job import is_identifier
from mastaba_export.jobs.queue import Queue
from mastaba_export.jobs.refusals import DiskFullError, FullError

logger = logging.getLogger("mastaba.export")

FREE: Final = 0.05
"""Share of the disk that stays free."""

_LOCK: Final = "lock"
_GONE: Final = ".gone"


class HeldError(MastabaError):
    """Another process works in the directory of a job."""


class Results:
    """The directories of jobs below the directory of the queue.

    Args:
        directory: of the queue.
        remove_objects: removes the objects of a job, by its identifier and directory; None if
            results are files.
        is_left_to_workers: whether workers remove the directories, because results are objects.

    Attributes:
        is_left_to_workers: as given.
    """

    def __init__(
        self,
        directory: str,
        remove_objects: Callable[[str, str], None] | None = None,
        *,
        is_left_to_workers: bool = False,
    ) -> None:
        self._directory = f"{directory}/jobs"
        self._remove_objects = remove_objects
        self.is_left_to_workers = is_left_to_workers

    def path(self, identifier: str, name: str = "") -> str:
        """Return the path of a job's directory, or of a file in it."""
        folder = f"{self._directory}/{identifier}"
        return f"{folder}/{name}" if name else folder

    @contextmanager
    def held(self, identifier: str) -> Iterator[str]:
        """Make the directory of a job and hold it; yields its path.

        No two processes hold it at the same time. A process that dies no longer holds it.

        Raises:
            HeldError: another process holds it.
            OSError: it cannot be made.
        """
        os.makedirs(self.path(identifier), mode=0o700, exist_ok=True)
        descriptor = os.open(self.path(identifier, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise HeldError(f"another process works on the job {identifier}") from error
            yield self.path(identifier)
        finally:
            os.close(descriptor)

    def is_held(self, identifier: str) -> bool:
        """Return whether a live process works in the directory of a job."""
        try:
            descriptor = os.open(self.path(identifier, _LOCK), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def remove(self, identifier: str) -> None:
        """Remove the files of a job. Who reads one of them can read it to its end.

        Files here do not wait for an object store that does not answer. Journals do: they say what
        is to be removed from it.
        """
        path = self.path(identifier)
        if self.is_left_to_workers:
            return
        if self._remove_objects is not None:
            _remove_files(path)
            try:
                self._remove_objects(identifier, path)
            except (MastabaError, OSError) as error:
                # The directory stays, and so they are removed later.
                logger.error("objects of the job %s cannot be removed: %s", identifier, error)
                return
        # At once, whatever the time that the removal takes.
        with suppress(OSError):
            os.rename(path, f"{path}{_GONE}")
        shutil.rmtree(f"{path}{_GONE}", ignore_errors=True)
        shutil.rmtree(path, ignore_errors=True)

    def left(self) -> list[str]:
        """Return the identifiers of jobs that have a directory."""
        try:
            names = os.listdir(self._directory)
        except OSError:
            return []
        found = {name.removesuffix(_GONE) for name in names}
        return sorted(name for name in found if is_identifier(name))

    def check_space(self, expected: int = 0) -> None:
        """Check that the disk has room for more bytes.

        Raises:
            DiskFullError: it would be nearly full.
        """
        folder = os.path.dirname(self._directory)
        try:
            found = os.statvfs(folder)
        except FileNotFoundError:
            # It is made with the first job.
            return
        free, size = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
        if free - expected < size * FREE:
            raise DiskFullError(
                f"the disk of the results is nearly full: {free} of {size} bytes are free"
            )


def _remove_files(path: str) -> None:
    """Remove the files of a job, but not the journals that say what it has uploaded."""
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif ".journal" not in entry.name and entry.name != _LOCK:
                os.unlink(entry.path)


def clean(queue: Queue, results: Results) -> None:
    """Remove results that expired, and files of jobs that were dismissed, failed or forgotten."""
    for identifier in queue.expire(queue.settings.limits.directory_bytes):
        results.remove(identifier)
    # Listed first: a job that is accepted meanwhile is in the queue before its directory exists.
    left = results.left()
    wanted = queue.unfinished() if left else set()
    for identifier in left:
        if identifier not in wanted and not results.is_held(identifier):
            results.remove(identifier)


def check_room(results: Results, expected: int) -> None:
    """Check that the disk has room for a result.

    Raises:
        FullError: it would be nearly full.
    """
    try:
        results.check_space(expected)
    except DiskFullError as error:
        text = "the disk of the results is nearly full"
        raise FullError(text, {"bytes": expected}, 3600) from error


class FileBody(AddressableBody):
    """A file, which can be read to its end even if it is removed or replaced meanwhile.

    Args:
        path: of the file.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        weakref.finalize(self, os.close, self._descriptor)
        found = os.fstat(self._descriptor)
        version = f"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"
        super().__init__(found.st_size, version)

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        while start < end:
            piece = os.pread(self._descriptor, min(LARGEST_PIECE, end - start), start)
            if not piece:
                raise MastabaError("a result is shorter than it was")
            start += len(piece)
            yield piece
