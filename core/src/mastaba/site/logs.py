"""The log: five tab-separated columns, one line per message (server-config.md section 8)."""

from __future__ import annotations

import contextlib
import glob
import io
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime
from threading import get_ident
from typing import IO, Any, Final

from mastaba.config.server import LoggerConfig, ServerConfig
from mastaba.errors import ConfigurationError, escaped, reason_of
from mastaba.model.fault import Fault, Severity
from mastaba.site.log_batches import Batches, wait_for, write_lines

logger = logging.getLogger("mastaba")

Fields = dict[str, Any]
"""Members of a line of JSON."""

_SILENCE: Final = 60.0
# Seconds that the exit of a process waits for a destination that is blocked.
_FLUSH_TIME: Final = 2.0
_STAMP: Final = "%Y-%m-%d-%H-%M-%S"
_STAMPS: Final = "-".join(("[0-9]" * 4, *["[0-9]" * 2] * 5))
"""Matches the names that `_STAMP` gives."""


class LineFormatter(logging.Formatter):
    """Lines of time, process, thread, severity and text; control characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return "\t".join((*map(str, _columns(record).values()), escaped(text)))

    @staticmethod
    def info(text: str, fields: Fields | None) -> str:
        """Return the line of a message, or of fields, as `format` would."""
        if fields is not None:
            text = json.dumps(fields, ensure_ascii=False)
        return f"{stamp(time.time())}\t{_process}\t{get_ident()}\tinfo\t{escaped(text)}"


class JSONFormatter(logging.Formatter):
    """One JSON object per line; the fields of an access line are its members."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", None)
        entry = _columns(record) | ({"message": record.getMessage()} if fields is None else fields)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        # ASCII also escapes surrogates, and characters that some readers take for line ends.
        return json.dumps(entry)

    @staticmethod
    def info(text: str, fields: Fields | None) -> str:
        """Return the line of a message, or of fields, as `format` would."""
        columns = {
            "time": stamp(time.time()),
            "process": _process,
            "thread": get_ident(),
            "severity": "info",
        }
        return json.dumps(columns | ({"message": text} if fields is None else fields))


def _columns(record: logging.LogRecord) -> dict[str, Any]:
    return {
        "time": stamp(record.created),
        "process": record.process,
        "thread": record.thread,
        "severity": "fatal" if record.levelno == logging.CRITICAL else record.levelname.lower(),
    }


def stamp(moment: float) -> str:
    """Return a time in Unix seconds as local time with microseconds and UTC offset."""
    global _second
    second, begin, offset = _second
    if int(moment) != second:
        second = int(moment)
        text = datetime.fromtimestamp(second).astimezone().isoformat()
        begin, offset = text[:19], text[19:]
        _second = second, begin, offset
    return f"{begin}.{int((moment - second) * 1e6):06d}{offset}"


# A system call for each line would take longer than the rest of it.
_process = os.getpid()


def _in_child() -> None:
    global _process
    _process = os.getpid()


os.register_at_fork(after_in_child=_in_child)

# The second of the last line: its number in Unix time, its text, and the UTC offset.
_second = (-1, "", "")


class _Handler(logging.StreamHandler[IO[str]]):
    """Handler that reports, at most once a minute, that the log cannot be written.

    A process that serves begins `batches`. Others write each record at once, unless the
    destination would keep them waiting.
    """

    _silent_until = 0.0
    _lost = 0
    batches: Batches | None = None
    info_line: Callable[[str, Fields | None], str]
    """Returns the line of a message of severity info, by the calling thread."""

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


class FileHandler(_Handler):
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


_destination: _Handler | None = None


def configure_logging(server: ServerConfig) -> None:
    """Send the log to the destination in server.json, instead of the previous one."""
    try:
        handler = _handler(server.logger)
    except (OSError, ValueError) as error:
        fault = Fault(
            Severity.ERROR,
            server.file,
            "$.logger.file_prefix",
            f"cannot write {server.logger.file_prefix}: {reason_of(error)}",
            "name a file that the server may write, or log to standard_error",
        )
        raise ConfigurationError([fault]) from error
    formatter = JSONFormatter() if server.logger.format == "json" else LineFormatter()
    handler.setFormatter(formatter)
    handler.info_line = formatter.info
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old, _Handler):
            root.removeHandler(old)
            old.close()
    root.addHandler(handler)
    global _destination
    _destination = handler
    root.setLevel(logging.WARNING)
    for name in ("mastaba", "mastaba_server"):
        logging.getLogger(name).setLevel(server.logger.level.upper())
    # Access lines have their own setting, independent of the level.
    logging.getLogger("mastaba.access").setLevel(logging.INFO)
    threading.excepthook = _log_thread_exception


def begin_batches() -> None:
    """Leave the log to a thread of its own, in a process that serves. Its requests never wait."""
    handler = destination()
    if handler is not None:
        handler.begin_batches()


def destination() -> _Handler | None:
    """Return where `configure_logging` sends the log; None if another program manages it."""
    return _destination


def log_faults(faults: tuple[Fault, ...]) -> None:
    """Write faults to the log, each with its own severity."""
    logger = logging.getLogger("mastaba.config")
    for fault in faults:
        level = logging.ERROR if fault.severity is Severity.ERROR else logging.WARNING
        remedy = f" ({fault.remedy})" if fault.remedy else ""
        logger.log(level, "%s: %s: %s%s", fault.file, fault.path, fault.reason, remedy)


def _handler(config: LoggerConfig) -> _Handler:
    match config.output:
        case "standard_error":
            return _Handler(sys.stderr)
        case "standard_output":
            return _Handler(sys.stdout)
        case "static_file":
            return FileHandler(config.file_prefix)
    return FileHandler(config.file_prefix, config.file_period, config.file_count)


def _log_thread_exception(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_type is SystemExit or arguments.exc_value is None:
        return
    logging.getLogger("mastaba").error("a thread failed", exc_info=arguments.exc_value)
