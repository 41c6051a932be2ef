"""Files of a file system that may stop answering.

No timeout ends a system call that hangs. So such files are read in threads of their own, and the
caller gives up after some time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from mastaba_server.threads.bounded_calls import BoundedCalls
from mastaba_storage.base import ByteRange, ObjectRead, ObjectStat
from mastaba_storage.errors import StorageUnavailableError
from mastaba_storage.file import FileStorage

R = TypeVar("R")

_OPEN_FILES: Final = 512
"""Of each mount point."""


class DistantFiles(FileStorage):
    """Files below one mount point.

    Args:
        mount: the mount point.
        seconds: limit of a read; None for no limit.
    """

    is_remote = True

    def __init__(self, mount: str, seconds: float | None) -> None:
        super().__init__(open_files=_OPEN_FILES)
        self._mount = mount
        self._calls = BoundedCalls(seconds)

    @property
    def full_name(self) -> str:
        return f"{self.name}://{self._mount}"

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        read = super().read
        return self._bounded(key, lambda: read(key, byte_range, version))

    def stat(self, key: str) -> ObjectStat:
        stat = super().stat
        return self._bounded(key, lambda: stat(key))

    def close(self) -> None:
        # To close a file waits for the file system too.
        try:
            self._calls.run(super().close)
        except TimeoutError:
            return

    def _bounded(self, key: str, call: Callable[[], R]) -> R:
        try:
            return self._calls.run(call)
        except TimeoutError as error:
            reason = f"cannot read the file {key}: {error}"
            raise self._error(StorageUnavailableError, key, reason) from error
