"""Copies of databases from object stores, in a directory that all processes of a node share.

SQLite needs a file. Each object has one copy, which is complete and of one version at any time. A
new version is written beside it and renamed over it, so each process notices it as it notices any
file that is replaced.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from mastaba.api.containers import TileIndex
from mastaba.api.storages import ByteRange, Environment, ObjectStat, Storage
from mastaba.errors import (
    ContainerFormatError,
    MastabaError,
    ObjectChangedError,
    StorageUnavailableError,
    reason_of,
)
from mastaba_sqlite_tiles.connection import Connection
from mastaba_sqlite_tiles.database import DatabaseFile, Generation

if TYPE_CHECKING:
    from mastaba.api.containers import IndexCache

DIRECTORY: Final = "STAGING_DIRECTORY"
BYTES: Final = "STAGING_BYTES"

_MOST_BYTES: Final = 10 * 1024**3
_RANGE: Final = 8 * 1024 * 1024
"""Bytes of a read."""
_ATTEMPTS: Final = 4
"""Attempts to copy an object that is replaced meanwhile."""
_NAME: Final = re.compile(r"[0-9a-f]{32}(\.part)?")

logger = logging.getLogger("mastaba.sqlite_tiles")


class Staging:
    """A directory of copies.

    Args:
        directory: created if it does not exist.
        most_bytes: maximum of all files in it.
    """

    def __init__(self, directory: str, most_bytes: int) -> None:
        self._directory = directory
        self._most_bytes = most_bytes

    @classmethod
    def from_environment(cls, environment: Environment) -> Staging | None:
        """Return the directory that the operator has set, or None."""
        directory = environment.text(DIRECTORY)
        if not directory:
            return None
        return cls(os.path.abspath(directory), environment.integer(BYTES, _MOST_BYTES))

    def path_of(self, name: str) -> str:
        """Return the path of the copy of an object."""
        return os.path.join(self._directory, hashlib.sha256(name.encode()).hexdigest()[:32])

    def use(self, name: str) -> int:
        """Return a descriptor; while one is open, in any process, the copy is not removed.

        Raises:
            StorageUnavailableError: the directory cannot be written.
        """
        with self._errors(name):
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            return _locked(f"{self.path_of(name)}.lock", fcntl.LOCK_SH)

    def update(self, storage: Storage, key: str, name: str, *, waits: bool) -> None:
        """Let the copy of an object be that of its present version.

        Args:
            name: of the object, for messages.
            waits: whether to wait for another process that copies it; otherwise nothing is done.

        Raises:
            ContainerFormatError: it does not fit into the directory, or has no version.
            StorageError: it cannot be read or written.
        """
        path = self.path_of(name)
        for _ in range(_ATTEMPTS):
            present = storage.stat(key)
            if present.version is None:
                raise ContainerFormatError(
                    f"{name} has no version, so its copy could consist of two of them",
                    "copy it to the file system, or convert it to PMTiles",
                )
            if _is_copy(path, present):
                return
            with self._errors(name), self._part(path, waits=waits) as part:
                if part is None:
                    return
                if _is_copy(path, present):
                    return
                try:
                    self._reserve(part, path, present.size, name)
                    _write(part, storage, key, present)
                except ObjectChangedError:
                    continue
                os.utime(part, ns=(_time_of(present),) * 2)
                os.rename(f"{path}.part", path)
                return
        raise StorageUnavailableError(f"{name} is replaced all the time", key=key)

    @contextmanager
    def _part(self, path: str, *, waits: bool) -> Iterator[int | None]:
        """Open the file that becomes the copy; None if another process writes it."""
        name = f"{path}.part"
        while True:
            part = _locked(name, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            if part < 0:
                yield None
                return
            try:
                # Who had the lock before may have renamed or removed the file.
                if not _is_at(part, name):
                    continue
                try:
                    yield part
                finally:
                    with suppress(FileNotFoundError):
                        if _is_at(part, name):
                            os.unlink(name)
                return
            finally:
                os.close(part)

    def _reserve(self, part: int, path: str, size: int, name: str) -> None:
        """Give a part its size, if there is room; copies that no process uses make room."""
        room = _locked(os.path.join(self._directory, "room.lock"), fcntl.LOCK_EX)
        try:
            os.ftruncate(part, 0)
            if self._used() + size > self._most_bytes:
                self._remove_unused(path)
            left = self._most_bytes - self._used()
            if size > left:
                raise ContainerFormatError(
                    f"{name} has {size} bytes, and MASTABA_{BYTES} leaves {max(0, left)}",
                    f"set a larger MASTABA_{BYTES}, or convert it to PMTiles",
                )
            os.ftruncate(part, size)
        finally:
            os.close(room)

    def _used(self) -> int:
        return sum(entry.stat().st_size for entry in self._entries())

    def _entries(self) -> list[os.DirEntry[str]]:
        with os.scandir(self._directory) as entries:
            return [entry for entry in entries if _NAME.fullmatch(entry.name) and entry.is_file()]

    def _remove_unused(self, path: str) -> None:
        for entry in self._entries():
            is_part = entry.name.endswith(".part")
            if entry.path.removesuffix(".part") == path:
                continue
            name = entry.path if is_part else f"{entry.path}.lock"
            lock = _locked(name, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock >= 0:
                os.unlink(entry.path)
                os.close(lock)

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageUnavailableError(
                f"{name} cannot be copied into MASTABA_{DIRECTORY}: {reason_of(error)}"
            ) from error


class StagedFile(DatabaseFile):
    """A database in an object store, read from its copy.

    The first request after the validity of indices (`cache.validity`) lets a thread look at the
    object. Requests get tiles of the copy, also while the store does not answer.

    Args:
        staging: where the copy is; it exists.
        storage: of the object.
        key: of the object.
        indices: remembers when the object was looked at.
        name, examine: as of `DatabaseFile`.
    """

    is_private = True

    def __init__(
        self,
        staging: Staging,
        storage: Storage,
        key: str,
        indices: IndexCache,
        name: str,
        examine: Callable[[Connection], Hashable],
    ) -> None:
        super().__init__(staging.path_of(name), name, examine)
        self._staging = staging
        self._storage = storage
        self.key = key
        self._indices = indices
        self._use = staging.use(name)
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._looked_at()

    def __del__(self) -> None:
        use = getattr(self, "_use", -1)
        if use >= 0:
            os.close(use)

    def moved(self, storage: Storage, indices: IndexCache) -> StagedFile:
        return StagedFile(
            *(self._staging, storage, self.key, indices, self.name, self._examine),
        )

    def generation(self) -> Generation:
        if self._indices.peek(self._mark) is None:
            with self._starting:
                if self._thread is None or not self._thread.is_alive():
                    self._looked_at()
                    self._thread = threading.Thread(
                        target=self._look, name="mastaba-staging", daemon=True
                    )
                    self._thread.start()
        return super().generation()

    @property
    def _mark(self) -> Hashable:
        return "staged", self.path

    def _looked_at(self) -> None:
        self._indices.put(self._mark, _Looked(self._storage, self.key))

    def _look(self) -> None:
        try:
            self._staging.update(self._storage, self.key, self.name, waits=False)
        except MastabaError as error:
            logger.warning("%s is served from its last copy: %s", self.name, error)


class _Looked(TileIndex):
    """Says that an object was looked at; it is valid as long as indices."""

    @property
    def nbytes(self) -> int:
        return 512

    def tile(self, number: int) -> None:
        return None


def _write(part: int, storage: Storage, key: str, present: ObjectStat) -> None:
    for offset in range(0, present.size, _RANGE):
        length = min(_RANGE, present.size - offset)
        data = storage.read(key, ByteRange(offset, length), present.version).data
        if len(data) != length or os.pwrite(part, data, offset) != length:
            raise StorageUnavailableError(f"a part of {key} is incomplete", key=key)


def _time_of(present: ObjectStat) -> int:
    """Return the time of change of the copy of a version, nanoseconds.

    It is the same on all nodes, and another one for other versions of the same second.
    """
    digest = hashlib.sha256((present.version or "").encode()).digest()
    return int(present.modified or 0) * 10**9 + int.from_bytes(digest[:8]) % 10**9


def _is_copy(path: str, present: ObjectStat) -> bool:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    return (found.st_mtime_ns, found.st_size) == (_time_of(present), present.size)


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _locked(path: str, kind: int) -> int:
    """Return the descriptor of a locked file, which closing unlocks; -1 if another one has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, kind)
    except BlockingIOError:
        os.close(descriptor)
        return -1
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
