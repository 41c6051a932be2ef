"""The log, as server.json configures it (server-config.md section 8)."""

from __future__ import annotations

import logging

from mastaba.config.server import ServerConfig
from mastaba.errors import ConfigurationError, reason_of
from mastaba_documents.faults import Fault, Severity
from mastaba_server.log import destination


def configure_logging(server: ServerConfig) -> None:
    """Send the log to the destination in server.json, instead of the previous one."""
    try:
        destination.configure(server.logger)
    except (OSError, ValueError) as error:
        fault = Fault(
            Severity.ERROR,
            server.file,
            "$.logger.file_prefix",
            f"cannot write {server.logger.file_prefix}: {reason_of(error)}",
            "name a file that the server may write, or log to standard_error",
        )
        raise ConfigurationError([fault]) from error


def log_faults(faults: tuple[Fault, ...]) -> None:
    """Write faults to the log, each with its own severity."""
    logger = logging.getLogger("mastaba.config")
    for fault in faults:
        level = logging.ERROR if fault.severity is Severity.ERROR else logging.WARNING
        remedy = f" ({fault.remedy})" if fault.remedy else ""
        logger.log(level, "%s: %s: %s%s", fault.file, fault.path, fault.reason, remedy)
