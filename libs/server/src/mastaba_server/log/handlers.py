"""Where the log goes: a stream, or files, which several processes write."""

from __future__ import annotations

import contextlib
import glob
import io
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import IO, Final

from mastaba_server.log.batches import Batches, wait_for, write_lines
from mastaba_server.log.lines import Fields

logger = logging.getLogger(__name__)

_SILENCE: Final = 60.0
# Seconds that the exit of a process waits for a destination that is blocked.
_FLUSH_TIME: Final = 2.0
_STAMP: Final = "%Y-%m-%d-%H-%M-%S"
_STAMPS: Final = "-".join(("[0-9]" * 4, *["[0-9]" * 2] * 5))
"""Matches the names that `_STAMP` gives."""


class LogHandler(logging.StreamHandler[IO[str]]):
    """Handler that reports, at most once a minute, that the log cannot be written.

    A process that serves begins `batches`. Others write each record at once, unless the
    destination would keep them waiting.
    """

    _silent_until = 0.0
    _lost = 0
    batches: Batches | None = None
    info_line: Callable[[str, Fields | None, float, int], str]
    """Returns the line of a message of severity info, for its time and thread."""

    def emit(self, record: logging.LogRecord) -> None:
        if self.batches is not None:
            try:
                self.batches.add(self.format(record))
            except Exception:  # noqa: BLE001 - as the library
                self.handleError(record)
            self.batches.hurry()
            return
        descriptor = self._descriptor()
        if descriptor is not None and not wait_for(descriptor, 0):
            self._lost += 1
            return
        super().emit(record)
        if lost := self._lost:
            self._lost = 0
            self._report_lost(lost)

    def begin_batches(self) -> None:
        """Leave writing to another thread in this process."""
        if self.batches is None and self._descriptor() is not None:
            self.batches = Batches(self.write, self._report_lost, self._report_failure)

    def flush(self) -> None:
        if self.batches is not None:
            self.batches.flush(_FLUSH_TIME)
        else:
            super().flush()

    def write(self, lines: list[str]) -> None:
        """Write lines, and wait until the destination takes them. Raises OSError."""
        write_lines(self.stream.fileno(), lines)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of the library
        self._report_failure(sys.exc_info()[1], record.created)

    def _report_failure(self, error: BaseException | None, now: float = 0.0) -> None:
        now = now or time.time()
        if now < self._silent_until:
            return
        self._silent_until = now + _SILENCE
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"mastaba: cannot write the log: {error}\n")

    def _report_lost(self, lines: int) -> None:
        logger.warning("%d lines of the log are lost: its destination did not take them", lines)

    def _descriptor(self) -> int | None:
        try:
            return self.stream.fileno()
        except (OSError, ValueError, AttributeError):
            return None


class FileHandler(LogHandler):
    """Handler that appends lines to a file, and opens a new one if it is renamed or removed.

    With a period, it starts a file ``<prefix>-YYYY-MM-DD-HH-MM-SS.log`` for each. Periods are
    counted from the start of the first process, so all workers write to the same file. Handlers
    of the standard library do not allow several processes, and stop at a full disk.

    Args:
        prefix: of the file names; without a period, the whole name.
        period: seconds; 0 for a single file.
        count: number of files to keep, older ones are removed; 0 keeps all.

    Raises:
        OSError: the first file cannot be written.
    """

    def __init__(self, prefix: str, period: int = 0, count: int = 0) -> None:
        self._prefix = os.path.abspath(prefix)
        self._period = period
        self._count = count
        self._start = int(time.time())
        self._path = self._path_at(self._start)
        super().__init__(self._open(self._path))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self.batches is None:
                self._follow(record.created)
        except OSError:
            # The old file is better than none.
            self.handleError(record)
        super().emit(record)

    def write(self, lines: list[str]) -> None:
        try:
            self._follow(time.time())
        except OSError as error:
            self._report_failure(error)
        super().write(lines)

    def close(self) -> None:
        super().close()
        self.stream.close()

    def _follow(self, now: float) -> None:
        """Open the file for lines from a time, in Unix seconds, if it is not open."""
        path = self._path_at(now)
        with contextlib.suppress(FileNotFoundError):
            if path == self._path and os.path.samestat(
                os.stat(path), os.fstat(self.stream.fileno())
            ):
                return
        old, self.stream, self._path = self.stream, self._open(path), path
        old.close()

    def _path_at(self, now: float) -> str:
        if not self._period:
            return self._prefix
        begin = self._start + max(0, int(now - self._start)) // self._period * self._period
        return f"{self._prefix}-{time.strftime(_STAMP, time.localtime(begin))}.log"

    def _open(self, path: str) -> IO[str]:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Without O_NONBLOCK, opening a FIFO blocks until there is a reader.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        file = io.FileIO(os.open(path, flags, 0o666), "a")
        if self._count:
            files = sorted(glob.glob(f"{glob.escape(self._prefix)}-{_STAMPS}.log"))
            for old in files[: -self._count]:
                # Another worker may have removed it.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(old)
        # Nothing is buffered: lines that a full disk rejects are lost, and do not block later ones.
        return io.TextIOWrapper(file, "utf-8", "backslashreplace", write_through=True)
