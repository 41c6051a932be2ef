"""The built-in driver FILE for the local file system (storage.md section 4)."""

from __future__ import annotations

import errno
import os
import stat
import threading
from contextlib import suppress
from itertools import islice
from time import monotonic, time
from typing import ClassVar, Final, Self

from mastaba_server.descriptors import DESCRIPTORS
from mastaba_server.errors import reason_of
from mastaba_storage.base import MAX_WHOLE, ByteRange, ObjectRead, ObjectStat, Storage
from mastaba_storage.environment import Environment
from mastaba_storage.errors import (
    AccessDeniedError,
    ObjectChangedError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)

_ATTEMPTS: Final = 3
"""Attempts to read a file that is being written."""
_TRUSTED: Final = 0.1
"""Seconds in which a file that was found unchanged is not examined again."""
_PARTS: Final = 256
"""Of the files that may be open, one of so many parts is closed at a time."""
_CALM: Final = 2.0
"""Seconds since its last change after which a file is trusted at all: it is not being written."""


def _version(facts: os.stat_result) -> str:
    # This is equal for copies of a pyramid on several machines, so their ETags are equal too.
    return f"{facts.st_mtime_ns:x}-{facts.st_size:x}"


class OpenFile:
    """A file descriptor that is closed when its last reader has released it.

    Args:
        path: of a regular file.

    Attributes:
        descriptor: open for reading.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """

    __slots__ = ("_modified_ns", "descriptor", "modified", "size", "trusted_until", "version")

    def __init__(self, path: str) -> None:
        # Non-blocking: opening a pipe would block the thread until there is a writer.
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        facts = os.fstat(self.descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        self._modified_ns = facts.st_mtime_ns
        self.size = facts.st_size
        self.modified = facts.st_mtime
        self.version = _version(facts)
        self.trusted_until = 0.0

    def is_unchanged(self) -> bool:
        """Return whether the file is unchanged since it was opened."""
        # The time before the facts: a change after them must not be trusted for longer.
        now = monotonic()
        facts = os.fstat(self.descriptor)
        unchanged = facts.st_mtime_ns == self._modified_ns and facts.st_size == self.size
        if unchanged and time() - self.modified > _CALM:
            self.trusted_until = now + _TRUSTED
        return unchanged

    def __del__(self) -> None:
        descriptor = getattr(self, "descriptor", -1)
        if descriptor >= 0:
            with suppress(OSError):  # from the server of the file; it is closed here nevertheless
                os.close(descriptor)


class FileStorage(Storage):
    """Files by absolute or relative path. The file system resolves links.

    Files stay open after a range has been read, each thread's last one in any case. If a file is
    replaced, further ranges therefore still come from the same version. A file that is modified in
    place is detected: immediately if it became shorter or was last modified less than 2 s ago,
    otherwise within 0.1 s.

    Args:
        open_files: how many files stay open; None for `Descriptors.most_files` of the process.
    """

    name = "file"
    container_field: ClassVar[str | None] = None
    is_remote = False

    def __init__(self, container: str = "", open_files: int | None = None) -> None:
        super().__init__(container)
        self._open_files = open_files
        # In the order in which they were opened. An OrderedDict takes 85 bytes more for each.
        self._files: dict[str, OpenFile] = {}
        self._latest = threading.local()
        self._lock = threading.Lock()
        if open_files is None:
            DESCRIPTORS.add_files(self)

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        return cls(container)

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        if version is not None:
            return self._read_version(key, byte_range, version)
        for _ in range(_ATTEMPTS):
            # Whole files, such as descriptors, are read only once and need not stay open.
            file = self._opened(key) if byte_range is None else self._reopen(key)
            if byte_range is None and file.size > MAX_WHOLE:
                reason = f"the file {key} is too large to be read as a whole"
                raise self._error(StorageError, key, reason)
            read = self._read(file, key, byte_range)
            if read is not None:
                return read
        reason = f"the file {key} is modified while it is read"
        raise self._error(StorageUnavailableError, key, reason)

    def _read_version(self, key: str, byte_range: ByteRange | None, version: str) -> ObjectRead:
        # A hit does not update the order, so the common case needs no lock. The index cache
        # decides which slabs stay in use.
        file = self._files.get(key)
        if file is None or file.version != version:
            file = self._own(key, version) or self._reopen(key)
        read = self._read(file, key, byte_range) if file.version == version else None
        if read is None:
            raise self._error(ObjectChangedError, key, f"the file {key} was replaced")
        return read

    def _read(self, file: OpenFile, key: str, byte_range: ByteRange | None) -> ObjectRead | None:
        """Return bytes of an open file, or None if the file has been modified."""
        offset, length = byte_range or (0, file.size)
        try:
            data = os.pread(file.descriptor, length, offset)
            # pread returns at most about 2 GiB, and otherwise less only at the end of the file.
            while len(data) < length and offset + len(data) < file.size:
                more = os.pread(file.descriptor, length - len(data), offset + len(data))
                if not more:
                    break
                data += more
            # Trust saves a quarter of the system calls of a stored tile.
            is_trusted = len(data) == length and monotonic() < file.trusted_until
            unchanged = is_trusted or file.is_unchanged()
        except OSError as error:
            raise self._translated(error, key) from error
        return ObjectRead(data, file.version, file.modified) if unchanged else None

    def stat(self, key: str) -> ObjectStat:
        try:
            facts = os.stat(key)
        except (OSError, ValueError) as error:
            raise self._translated(error, key) from error
        if not stat.S_ISREG(facts.st_mode):
            raise self._error(ObjectNotFoundError, key, f"{key} is not a regular file")
        return ObjectStat(facts.st_size, _version(facts), facts.st_mtime)

    def close(self) -> None:
        with self._lock:
            self._files.clear()
        self._latest = threading.local()

    def close_surplus(self) -> None:
        """Close the files that were opened first, if more are open than may stay open."""
        with self._lock:
            self._evict(self._most)

    def _own(self, key: str, version: str) -> OpenFile | None:
        """Return the file that this thread opened last, if it is this version.

        A thread that has read an index can then read its tiles, even if others open newer versions.
        """
        latest_key, file = getattr(self._latest, "opened", ("", None))
        return file if latest_key == key and file and file.version == version else None

    def _reopen(self, key: str) -> OpenFile:
        """Open the current file, and keep it open instead of the previous one."""
        file = self._opened(key)
        self._latest.opened = (key, file)
        with self._lock:
            self._files.pop(key, None)
            self._files[key] = file
            most = self._most
            if len(self._files) > most:
                # Some at a time: the first one of a dictionary is behind those removed before.
                self._evict(most - most // _PARTS)
        return file

    @property
    def _most(self) -> int:
        # Asked each time: a server raises its limit of descriptors after its first reads.
        return self._open_files or DESCRIPTORS.most_files

    def _evict(self, most: int) -> None:
        for key in list(islice(self._files, max(0, len(self._files) - most))):
            del self._files[key]

    def _opened(self, key: str) -> OpenFile:
        try:
            return OpenFile(key)
        except (OSError, ValueError) as error:
            raise self._translated(error, key) from error

    def _translated(self, error: Exception, key: str) -> StorageError:
        if isinstance(error, FileNotFoundError | NotADirectoryError | ValueError):
            return self._error(ObjectNotFoundError, key, f"the file {key} does not exist")
        kind = AccessDeniedError if isinstance(error, PermissionError) else StorageUnavailableError
        return self._error(kind, key, f"cannot read the file {key}: {reason_of(error)}")

    def _error(self, kind: type[StorageError], key: str, reason: str) -> StorageError:
        return kind(reason, storage=self.full_name, key=key)
