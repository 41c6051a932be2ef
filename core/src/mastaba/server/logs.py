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
from datetime import datetime
from typing import IO, Any, Final

from mastaba.config.server import LoggerConfig, ServerConfig
from mastaba.errors import ConfigurationError, reason_of
from mastaba.model.fault import Fault, Severity

_SILENCE: Final = 60.0
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


class JSONFormatter(logging.Formatter):
    """One JSON object per line; the fields of an access line are its members."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", None)
        entry = _columns(record) | ({"message": record.getMessage()} if fields is None else fields)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        # ASCII also escapes surrogates, and characters that some readers take for line ends.
        return json.dumps(entry)


def escaped(text: str) -> str:
    """Return a text on one line, with control characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _columns(record: logging.LogRecord) -> dict[str, Any]:
    moment = datetime.fromtimestamp(record.created).astimezone()
    return {
        "time": moment.isoformat(timespec="microseconds"),
        "process": record.process,
        "thread": record.thread,
        "severity": "fatal" if record.levelno == logging.CRITICAL else record.levelname.lower(),
    }


class _Handler(logging.StreamHandler[IO[str]]):
    """Handler that reports, at most once a minute, that the log cannot be written."""

    _silent_until = 0.0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of the library
        if record.created < self._silent_until:
            return
        self._silent_until = record.created + _SILENCE
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"mastaba: cannot write the log: {sys.exc_info()[1]}\n")


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
            self._follow(record.created)
        except OSError:
            # The old file is better than none.
            self.handleError(record)
        super().emit(record)

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
    handler.setFormatter(JSONFormatter() if server.logger.format == "json" else LineFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old, _Handler):
            root.removeHandler(old)
            old.close()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("mastaba").setLevel(server.logger.level.upper())
    # Access lines have their own setting, independent of the level.
    logging.getLogger("mastaba.access").setLevel(logging.INFO)
    threading.excepthook = _log_thread_exception


def log_faults(faults: tuple[Fault, ...]) -> None:
    """Write faults to the log, each with its own severity."""
    logger = logging.getLogger("mastaba.config")
    for fault in faults:
        level = logging.ERROR if fault.severity is Severity.ERROR else logging.WARNING
        remedy = f" ({fault.remedy})" if fault.remedy else ""
        logger.log(level, "%s: %s: %s%s", fault.file, fault.path, fault.reason, remedy)


def _handler(config: LoggerConfig) -> logging.Handler:
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
