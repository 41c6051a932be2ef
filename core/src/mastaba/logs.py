"""The log: five tab-separated columns, one line for each message (server-config.md section 8)."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
from datetime import datetime
from logging.handlers import WatchedFileHandler
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
_WORDS: Final = {logging.CRITICAL: "fatal", logging.WARNING: "warning"}


class LineFormatter(logging.Formatter):
    """Writes time, process, thread, severity and text; control characters are escaped."""

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
    """Writes one JSON object on each line; the fields of an access line are members of it."""

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
        # Only ASCII: what some readers take for the end of a line, and halves of characters, too.
        return json.dumps(entry)


def escaped(text: str) -> str:
    """Return a text on one line, with its control characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created).isoformat(timespec="microseconds")


def _severity(record: logging.LogRecord) -> str:
    return _WORDS.get(record.levelno, record.levelname.lower())


class _Handler(logging.Handler):
    """Tells in one line, and not too often, that the log cannot be written."""

    _silent_until = 0.0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of the library
        if record.created < self._silent_until:
            return
        self._silent_until = record.created + _SILENCE
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"mastaba: cannot write the log: {sys.exc_info()[1]}\n")


class _StreamHandler(_Handler, logging.StreamHandler[IO[str]]):
    """Writes to standard output."""


class _StaticFileHandler(_Handler, WatchedFileHandler):
    """Writes to one file; one that was renamed or removed is opened anew."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:
            # The handler of the library lets a file that cannot be opened again end a request.
            self.handleError(record)


class RollingFileHandler(_Handler):
    """Begins a new file ``<prefix>-YYYY-MM-DD-HH-MM-SS.log`` after each period.

    The periods are counted from the start of the first process, so that all workers write to
    the file of the same name.

    Args:
        prefix: of the file names.
        period: seconds.

    Raises:
        OSError: the first file cannot be written.
    """

    def __init__(self, prefix: str, period: int) -> None:
        super().__init__()
        self._prefix = prefix
        self._period = period
        self._start = int(time.time())
        self._until = 0.0
        self._stream: IO[str] | None = None
        self._roll(float(self._start))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if record.created >= self._until:
                self._roll(record.created)
            assert self._stream is not None
            self._stream.write(self.format(record) + "\n")
            self._stream.flush()
        except Exception:  # noqa: BLE001 - a full disk must not end a request
            self.handleError(record)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        super().close()

    def _roll(self, now: float) -> None:
        begin = self._start + max(0, int(now - self._start)) // self._period * self._period
        name = time.strftime("%Y-%m-%d-%H-%M-%S", time.localtime(begin))
        try:
            stream = open(f"{self._prefix}-{name}.log", "a", encoding="utf-8")  # noqa: SIM115
        except OSError:
            if self._stream is None:
                raise
            # Better the old file than none.
            self._until = now + _SILENCE
            self.handleError(logging.makeLogRecord({"created": now}))
            return
        if self._stream is not None:
            self._stream.close()
        self._stream = stream
        self._until = float(begin + self._period)


def configure_logging(server: ServerConfig) -> None:
    """Send the log where server.json says, in place of where it went before.

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
                    "name a place where the server may write, or log to standard_output",
                )
            ]
        ) from error
    handler.setFormatter(JSONFormatter() if server.logger.format == "json" else LineFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old, RollingFileHandler | logging.StreamHandler):
            root.removeHandler(old)
            old.close()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("mastaba").setLevel(_LEVELS[server.logger.level])
    # Whether they are written is a choice of its own, not one of severity.
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
    if config.output == "standard_output":
        return _StreamHandler(sys.stdout)
    if config.output == "static_file":
        return _StaticFileHandler(os.path.abspath(config.file_prefix), encoding="utf-8")
    return RollingFileHandler(config.file_prefix, config.file_period)


def _log_thread_exception(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_type is SystemExit or arguments.exc_value is None:
        return
    logging.getLogger("mastaba").error("a thread failed", exc_info=arguments.exc_value)
