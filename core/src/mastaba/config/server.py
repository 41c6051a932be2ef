"""server.json (server-config.md)."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from mastaba.config.documents import (
    parse_document,
    read_local_text,
    started_at,
    unreadable,
)
from mastaba.config.faults import Faults
from mastaba.config.schema import SchemaValidator
from mastaba.model.fault import Fault, Severity
from mastaba.model.settings import MapLimits
from mastaba.plugins.manager import Plugins


@dataclass(frozen=True, slots=True)
class LoggerConfig:
    """Settings of the log.

    Attributes:
        file_period: seconds.
        file_count: number of rolling files to keep; 0 keeps all.
        format: ``text`` or ``json``, for all lines.
        access: format of the line for each request: ``off``, ``text`` or ``json``.
    """

    output: str = "standard_error"
    level: str = "info"
    file_prefix: str = "/var/tmp/mastaba"  # noqa: S108 - where existing installations look
    file_period: int = 3600
    file_count: int = 168
    format: str = "text"
    access: str = "text"


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Contents of server.json.

    Attributes:
        file: path of server.json itself.
        port: FastCGI listening address, or None if absent.
        workers: number of processes; None for one per processor.
        cache_size: number of cached slab indices.
        cache_validity: seconds.
        decoded_tiles_size: bytes of decoded tiles cached by each process.
        worker_requests: number of requests after which a worker is replaced; 0 for never.
        request_timeout: seconds after which an unfinished request is abandoned.
        worker_timeout: seconds without progress after which a worker process is replaced.
        body_timeout: seconds that the body of a request may take to arrive.
        map_limits: limits for all maps of a process together.
        debug: whether responses and the log contain more details.
        services, layers, styles, tile_matrix_sets: paths as configured.
    """

    file: str
    port: str | None
    backlog: int
    workers: int | None
    threads: int
    logger: LoggerConfig
    cache_size: int
    cache_validity: float
    decoded_tiles_size: int
    services: str
    layers: str | None
    styles: str
    tile_matrix_sets: str
    worker_requests: int = 0
    request_timeout: float = 300.0
    worker_timeout: float = 60.0
    body_timeout: float = 30.0
    map_limits: MapLimits = field(default_factory=MapLimits)
    debug: bool = False

    @property
    def worker_count(self) -> int:
        return self.workers or len(os.sched_getaffinity(0))


def missing_port(server: ServerConfig) -> Fault:
    """Return the fault for a missing ``port`` if no other listening address is given."""
    return Fault(
        Severity.ERROR,
        server.file,
        "$.port",
        "is missing",
        'add the key "port", such as "127.0.0.1:9000"',
    )


def load_server(file: str, plugins: Plugins, faults: Faults) -> ServerConfig | None:
    """Read server.json, always a local file; return None after recording a problem."""
    try:
        text = read_local_text(file)
    except (OSError, ValueError) as error:
        reason = unreadable(error) + started_at(file)
        faults.error(file, "$", reason, "name a readable file with -f")
        return None
    document = parse_document(text, file, faults)
    if document is None:
        return None
    document = SchemaValidator("server", plugins).validate(document, file, faults)
    return None if document is None else _server_config(document, file)


def _logger_config(document: dict[str, Any]) -> LoggerConfig:
    default = LoggerConfig()
    # In ROK4, server.json may configure log files without "output".
    is_file = any(key.startswith("file_") for key in document)
    level = document.get("level", default.level)
    return LoggerConfig(
        output=document.get("output", "rolling_file" if is_file else default.output),
        level=level,
        file_prefix=document.get("file_prefix", default.file_prefix),
        file_period=int(document.get("file_period", default.file_period)),
        file_count=int(document.get("file_count", default.file_count)),
        format=document.get("format", default.format),
        # ROK4 logs each request at level info.
        access=document.get("access", default.access if level in ("info", "debug") else "off"),
    )


def _server_config(document: dict[str, Any], file: str) -> ServerConfig:
    cache, places = document.get("cache", {}), document["configurations"]
    workers = document.get("workers")
    return ServerConfig(
        file=file,
        port=document.get("port"),
        backlog=int(document.get("backlog", 0)),
        workers=None if workers is None else int(workers),
        threads=int(document.get("threads", 1)),
        logger=_logger_config(document.get("logger", {})),
        cache_size=int(cache.get("size", 100)),
        cache_validity=60.0 * int(cache.get("validity", 5)),
        decoded_tiles_size=1024**2 * int(cache.get("decoded_mebibytes", 64)),
        services=places["services"],
        layers=places.get("layers"),
        styles=places["styles"],
        tile_matrix_sets=places["tile_matrix_sets"],
        worker_requests=int(document.get("worker_requests", 0)),
        request_timeout=float(document.get("request_timeout", 300)),
        worker_timeout=float(document.get("worker_timeout", 60)),
        body_timeout=float(document.get("body_timeout", 30)),
        map_limits=_map_limits(document.get("maps", {}), int(document.get("threads", 1))),
        debug=document.get("debug", False),
    )


def _map_limits(section: dict[str, Any], threads: int) -> MapLimits:
    defaults = MapLimits()
    return MapLimits(
        memory=1024**2 * int(section.get("memory_mebibytes", defaults.memory // 1024**2)),
        concurrent=int(section.get("concurrent", max(defaults.concurrent, threads))),
        waiting=int(section.get("waiting", defaults.waiting)),
    )
