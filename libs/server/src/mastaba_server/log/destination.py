"""Where the log of a process goes, and what its lines look like."""

from __future__ import annotations

import logging
import sys
import threading
from dataclasses import dataclass

from mastaba_server.log.batches import Batches
from mastaba_server.log.handlers import FileHandler, LogHandler
from mastaba_server.log.lines import JSONFormatter, LineFormatter

_destination: LogHandler | None = None
batches: Batches | None = None
"""What writes the log of a process that serves; None in others."""


@dataclass(frozen=True, slots=True)
class LoggerConfig:
    """Settings of the log.

    Attributes:
        output: ``standard_error``, ``rolling_file`` or ``static_file``.
        level: of the least severe lines that are written; those of the audit log always are.
        file_prefix: path of log files, without date and suffix.
        file_period: seconds.
        file_count: number of rolling files to keep; 0 keeps all.
        format: ``text`` or ``json``, for all lines.
        access: format of the line for each request: ``off``, ``text`` or ``json``.
        addresses: what these lines say of the addresses of clients: ``full``, ``network`` or
            ``none``.
    """

    output: str = "standard_error"
    level: str = "info"
    file_prefix: str = "/var/tmp/mastaba"  # noqa: S108 - where existing installations look
    file_period: int = 3600
    file_count: int = 168
    format: str = "text"
    access: str = "text"
    addresses: str = "full"


def configure(config: LoggerConfig) -> None:
    """Send the log of this process to a destination, instead of the previous one.

    Raises:
        OSError, ValueError: the destination cannot be written.
    """
    handler = _handler(config)
    formatter = JSONFormatter() if config.format == "json" else LineFormatter()
    handler.setFormatter(formatter)
    handler.info_line = formatter.info
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old, LogHandler):
            root.removeHandler(old)
            old.close()
    root.addHandler(handler)
    global _destination, batches
    _destination, batches = handler, None
    root.setLevel(logging.WARNING)
    for name in ("mastaba", "mastaba_server"):
        logging.getLogger(name).setLevel(config.level.upper())
    # Access lines have their own setting, and the audit log is complete at every level.
    for name in ("mastaba.access", "mastaba.audit"):
        logging.getLogger(name).setLevel(logging.INFO)
    threading.excepthook = _log_thread_exception


def begin_batches() -> None:
    """Leave the log to a thread of its own, in a process that serves. Its requests never wait."""
    global batches
    handler = destination()
    if handler is not None:
        handler.begin_batches()
        batches = handler.batches


def destination() -> LogHandler | None:
    """Return where `configure` sends the log; None if another program manages it."""
    return _destination


def _handler(config: LoggerConfig) -> LogHandler:
    match config.output:
        case "standard_error":
            return LogHandler(sys.stderr)
        case "standard_output":
            return LogHandler(sys.stdout)
        case "static_file":
            return FileHandler(config.file_prefix)
    return FileHandler(config.file_prefix, config.file_period, config.file_count)


def _log_thread_exception(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_type is SystemExit or arguments.exc_value is None:
        return
    logging.getLogger("mastaba").error("a thread failed", exc_info=arguments.exc_value)
