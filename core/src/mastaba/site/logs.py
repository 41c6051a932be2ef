"""The log, as server.json configures it (server-config.md section 8)."""

from __future__ import annotations

import logging
import sys
import threading

from mastaba.config.server import LoggerConfig, ServerConfig
from mastaba.errors import ConfigurationError, reason_of
from mastaba.model.fault import Fault, Severity
from mastaba_server.log.handlers import FileHandler, LogHandler
from mastaba_server.log.lines import JSONFormatter, LineFormatter

_destination: LogHandler | None = None


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
        if isinstance(old, LogHandler):
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


def destination() -> LogHandler | None:
    """Return where `configure_logging` sends the log; None if another program manages it."""
    return _destination


def log_faults(faults: tuple[Fault, ...]) -> None:
    """Write faults to the log, each with its own severity."""
    logger = logging.getLogger("mastaba.config")
    for fault in faults:
        level = logging.ERROR if fault.severity is Severity.ERROR else logging.WARNING
        remedy = f" ({fault.remedy})" if fault.remedy else ""
        logger.log(level, "%s: %s: %s%s", fault.file, fault.path, fault.reason, remedy)


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
