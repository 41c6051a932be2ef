"""The log: five tab-separated columns, one line per message (server-config.md section 8)."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, Final

from mastaba.errors import ConfigurationError, reason_of
from mastaba.model.fault import Fault, Severity

if TYPE_CHECKING:
    from mastaba.config.server import LoggerConfig, ServerConfig

_LEVELS: Final = {
    "fatal": logging.CRITICAL,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
}
_SILENCE: Final = 60.0
_STAMP: Final = "%Y-%m-%d-%H-%M-%S"
_WORDS: Final = {logging.CRITICAL: "fatal", logging.WARNING: "warning"}


class LineFormatter(logging.Formatter):
    """Lines of time, process, thread, severity and text; control characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return "\t".join(
            (
                *(_time(record), str(record.process), str(record.thread), _severity(record)),
                escaped(text),
            )
        )


class JSONFormatter(logging.Formatter):
    """One JSON object per line; the fields of an access line are its members."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": _time(record),
            "process": record.process,
            "thread": record.thread,
            "severity": _severity(record),
        }
        fields = getattr(record, "fields", None)
        if fields is None:
            entry["message"] = record.getMessage()
        else:
            entry |= fields
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        # ASCII also escapes surrogates, and characters that some readers take for line ends.
        return json.dumps(entry)


def escaped(text: str) -> str:
    """Return a text on one line, with control characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="microseconds")


def _severity(record: logging.LogRecord) -> str:
    return _WORDS.get(record.levelno, record.levelname.lower())


class _Handler(logging.Handler):
    """Handler that reports, at most once a minute, that the log cannot be written."""

    _silent_until = 0.0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of the library
        if record.created < self._silent_until:
            return
        self._silent_until = record.created + _SILENCE
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"mastaba: cannot write the log: {sys.exc_info()[1]}\n")


class _StreamHandler(_Handler, logging.StreamHandler[IO[str]]):
    """Handler for standard output or standard error."""


class _FileHandler(_Handler):
    """Handler that appends lines to a file, and opens a new one if it is renamed or removed.

    Nothing is buffered: lines that a full disk rejects are lost, and do not block later ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self._descriptor = -1
        self._place = ""
        self._follow(time.time())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            try:
                self._follow(record.created)
            except OSError:
                # The old file is better than none.
                self.handleError(record)
            data = (self.format(record) + "\n").encode("utf-8", "backslashreplace")
            while data:
                data = data[os.write(self._descriptor, data) :]
        except Exception:  # noqa: BLE001 - a full disk must not fail a request
            self.handleError(record)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        super().close()

    def _path(self, now: float) -> str:
        """Return the path of the file for lines from a time, in Unix seconds."""
        raise NotImplementedError

    def _follow(self, now: float) -> None:
        path = self._path(now)
        if self._descriptor >= 0 and path == self._place and self._is_there():
            return
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        # Without O_NONBLOCK, opening a FIFO blocks until there is a reader.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(path, flags, 0o666)
        old, self._descriptor, self._place = self._descriptor, descriptor, path
        if old >= 0:
            os.close(old)

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._place), os.fstat(self._descriptor))
        except OSError:
            return False


class _StaticFileHandler(_FileHandler):
    """Handler for a single file."""

    def __init__(self, path: str) -> None:
        self._only = os.path.abspath(path)
        super().__init__()

    def _path(self, now: float) -> str:
        return self._only


class RollingFileHandler(_FileHandler):
    """Handler that starts a file ``<prefix>-YYYY-MM-DD-HH-MM-SS.log`` for each period.

    Periods are counted from the start of the first process, so all workers write to the same
    file.

    Args:
        prefix: of the file names.
        period: seconds.
        count: number of files to keep, older ones are removed; 0 keeps all.

    Raises:
        OSError: the first file cannot be written.
    """

    def __init__(self, prefix: str, period: int, count: int = 0) -> None:
        self._prefix = os.path.abspath(prefix)
        self._period = period
        self._count = count
        self._start = int(time.time())
        super().__init__()

    def _path(self, now: float) -> str:
        begin = self._start + max(0, int(now - self._start)) // self._period * self._period
        return f"{self._prefix}-{time.strftime(_STAMP, time.localtime(begin))}.log"

    def _follow(self, now: float) -> None:
        before = self._place
        super()._follow(now)
        if self._count and self._place != before:
            for path in self._files()[: -self._count]:
                # Another worker may have removed it.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    def _files(self) -> list[str]:
        """Return the paths of all files with this prefix, oldest first."""
        folder, name = os.path.split(self._prefix)
        found = []
        for entry in os.listdir(folder):
            if entry.startswith(f"{name}-") and entry.endswith(".log"):
                with contextlib.suppress(ValueError):
                    time.strptime(entry[len(name) + 1 : -len(".log")], _STAMP)
                    found.append(os.path.join(folder, entry))
        return sorted(found)


def configure_logging(server: ServerConfig) -> None:
    """Send the log to the destination in server.json, instead of the previous one.

    Raises:
        ConfigurationError: the log file cannot be written.
    """
    try:
        handler = _handler(server.logger)
    except (OSError, ValueError) as error:
        reason = reason_of(error)
        raise ConfigurationError(
            [
                Fault(
                    Severity.ERROR,
                    server.file,
                    "$.logger.file_prefix",
                    f"cannot write {server.logger.file_prefix}: {reason}",
                    "name a file that the server may write, or log to standard_error",
                )
            ]
        ) from error
    handler.setFormatter(JSONFormatter() if server.logger.format == "json" else LineFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old, _Handler):
            root.removeHandler(old)
            old.close()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("mastaba").setLevel(_LEVELS[server.logger.level])
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
            return _StreamHandler(sys.stderr)
        case "standard_output":
            return _StreamHandler(sys.stdout)
        case "static_file":
            return _StaticFileHandler(config.file_prefix)
    return RollingFileHandler(config.file_prefix, config.file_period, config.file_count)


def _log_thread_exception(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_type is SystemExit or arguments.exc_value is None:
        return
    logging.getLogger("mastaba").error("a thread failed", exc_info=arguments.exc_value)
