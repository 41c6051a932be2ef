"""The built-in driver FILE: paths of the local file system (storage.md section 4)."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, ClassVar, Final, Self

from mastaba.errors import (
    AccessDeniedError,
    ObjectChangedError,
    ObjectNotFoundError,
    StorageUnavailableError,
)
from mastaba.storage.base import ByteRange, ObjectRead, ObjectStat, Storage

if TYPE_CHECKING:
    from mastaba.environment import Environment

_OPEN_FILES: Final = 512


class _OpenFile:
    """A descriptor that closes itself when the last reader has let go of it."""

    __slots__ = ("descriptor", "modified", "size", "version")

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        facts = os.fstat(self.descriptor)
        self.size = facts.st_size
        self.modified = facts.st_mtime
        # Copies of one pyramid on several machines agree on this, so their ETags agree too.
        self.version = f"{facts.st_mtime_ns:x}-{facts.st_size:x}"

    def __del__(self) -> None:
        descriptor = getattr(self, "descriptor", -1)
        if descriptor >= 0:
            os.close(descriptor)


class FileStorage(Storage):
    """Files by absolute or relative path. Links are left to the file system.

    The files read last stay open, so that a file that is replaced while it is read is still
    read to the end in the generation that was begun.
    """

    name = "file"
    container_field: ClassVar[str | None] = None
    is_remote = False

    def __init__(self, container: str = "", open_files: int = _OPEN_FILES) -> None:
        super().__init__(container)
        self._open_files = open_files
        self._files: OrderedDict[str, _OpenFile] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        return cls(container)

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        if version is None:
            file = self._reopen(key)
        else:
            # Not refreshing the order on a hit keeps the common case free of the lock; the
            # index cache above decides which slabs stay warm.
            known = self._files.get(key)
            if known is None:
                known = self._reopen(key)
            if known.version != version:
                raise ObjectChangedError(
                    f"the file {key} has been replaced", storage=self.full_name, key=key
                )
            file = known
        offset, length = (
            (0, file.size) if byte_range is None else (byte_range.offset, byte_range.length)
        )
        try:
            data = os.pread(file.descriptor, length, offset)
            # pread returns at most about 2 GiB, and less only at the end of the file.
            while len(data) < length and offset + len(data) < file.size:
                more = os.pread(file.descriptor, length - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise self._translated(error, key) from error
        return ObjectRead(data, file.version, file.modified)

    def stat(self, key: str) -> ObjectStat:
        file = self._reopen(key)
        return ObjectStat(file.size, file.version, file.modified)

    def close(self) -> None:
        with self._lock:
            self._files.clear()

    def _reopen(self, key: str) -> _OpenFile:
        """Open the file as it is now, in place of the one that is held open."""
        try:
            file = _OpenFile(key)
        except (OSError, ValueError) as error:
            raise self._translated(error, key) from error
        with self._lock:
            self._files.pop(key, None)
            self._files[key] = file
            while len(self._files) > self._open_files:
                self._files.popitem(last=False)
        return file

    def _translated(
        self, error: Exception, key: str
    ) -> ObjectNotFoundError | AccessDeniedError | StorageUnavailableError:
        if isinstance(error, FileNotFoundError | NotADirectoryError | ValueError):
            return ObjectNotFoundError(f"no file {key}", storage=self.full_name, key=key)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        kind = AccessDeniedError if isinstance(error, PermissionError) else StorageUnavailableError
        return kind(f"cannot read the file {key}: {reason}", storage=self.full_name, key=key)
