"""server.json (server-config.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mastaba.config.documents import parse_document, read_local_text, started_at, unreadable
from mastaba.config.faults import Faults
from mastaba.config.schema import SchemaValidator
from mastaba.errors import ConfigurationError
from mastaba.model.fault import Fault, Severity
from mastaba.model.settings import MapLimits
from mastaba.plugins.manager import Plugins
from mastaba_server.log.destination import LoggerConfig


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Contents of server.json.

    Attributes:
        file: path of server.json itself.
        port: FastCGI listening address, or None if absent.
        backlog: connections that may wait to be accepted.
        workers: number of processes; None for one per processor.
        threads: concurrent requests per process, not counting maps.
        logger: settings of the log.
        cache_size: number of cached slab indices.
        cache_validity: seconds.
        container_bytes: bytes of cached indices of containers.
        variants: number of open variants of layers.
        decoded_tiles_size: bytes of decoded tiles that all processes share.
        worker_requests: number of requests after which a worker is replaced; 0 for never.
        request_timeout: seconds after which an unfinished request is abandoned.
        worker_timeout: seconds without progress after which a worker process is replaced.
        drain: seconds for which requests are answered after a stop signal, while not ready.
        follow: seconds between two checks for a new configuration; None for no checks.
        body_timeout: seconds that the body of a request may take to arrive.
        map_limits: limits for all maps of a process together.
        debug: whether responses and the log contain more details.
        plugins: settings of plugins, by the name of the plugin.
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
    container_bytes: int
    decoded_tiles_size: int
    services: str
    layers: str | None
    styles: str
    tile_matrix_sets: str
    variants: int = 512
    worker_requests: int = 0
    request_timeout: float = 300.0
    worker_timeout: float = 60.0
    body_timeout: float = 30.0
    drain: float = 0.0
    follow: float | None = None
    map_limits: MapLimits = field(default_factory=MapLimits)
    debug: bool = False
    plugins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def worker_count(self) -> int:
        """Number of worker processes: `workers`, or one per processor."""
        return self.workers or len(os.sched_getaffinity(0))


def missing_port(server: ServerConfig) -> Fault:
    """Return the error for a missing ``port`` if no other listening address is given."""
    remedy = 'add the key "port", such as "127.0.0.1:9000"'
    return Fault(Severity.ERROR, server.file, "$.port", "is missing", remedy)


def load_server(file: str, plugins: Plugins, faults: Faults) -> ServerConfig:
    """Read server.json, always a local file.

    Args:
        faults: gets all problems.

    Raises:
        ConfigurationError: it cannot be used; contains all errors.
    """
    validator, document = SchemaValidator("server", plugins), None
    try:
        document = parse_document(read_local_text(file), file, faults)
    except (OSError, ValueError) as error:
        reason = unreadable(error) + started_at(file)
        faults.error(file, "$", reason, "name a readable file with -f")
    is_complete = _has_its_plugins(document, plugins, file, faults)
    if document is None or validator.validate(document, file, faults) is None or not is_complete:
        raise ConfigurationError(faults.errors)
    _complete_logger(document.get("logger", {}))
    validator.complete(document)
    return _server_config(document, file)


def _has_its_plugins(document: Any, plugins: Plugins, file: str, faults: Faults) -> bool:
    """Record an error for each broken plugin that has settings: it is needed."""
    settings = document.get("plugins") if isinstance(document, dict) else None
    if not isinstance(settings, dict):
        return True
    found = list(settings)
    broken = [name for name in found if name in plugins.broken]
    for name in broken:
        reason = "the plugin is needed, because it has settings, but it is broken"
        faults.error(file, f"$.plugins.{name}", reason, "repair it, or remove its settings")
    for name in found:
        # Without a schema, an empty section only says that the plugin is needed.
        has_schema = name in plugins.settings_schemas
        if name in broken or (settings[name] == {} and name in plugins.names and not has_schema):
            del settings[name]
    return not broken


def _complete_logger(section: dict[str, Any]) -> None:
    """Add the defaults that depend on other settings, as in ROK4."""
    if any(key.startswith("file_") for key in section):
        section.setdefault("output", "rolling_file")
    if section.get("level", "info") not in ("info", "debug"):
        section.setdefault("access", "off")


def _server_config(document: dict[str, Any], file: str) -> ServerConfig:
    cache, maps = document["cache"], document["maps"]
    # The names of settings outside sections are those of the attributes.
    plain = {key: value for key, value in document.items() if not isinstance(value, dict)}
    return ServerConfig(
        file=file,
        logger=LoggerConfig(**document["logger"]),
        cache_size=cache["size"],
        cache_validity=60.0 * cache["validity"],
        container_bytes=cache["container_bytes"],
        variants=cache["variants"],
        decoded_tiles_size=1024**2 * cache["decoded_mebibytes"],
        follow=document["follow"]["period"] if "follow" in document else None,
        map_limits=MapLimits(
            memory=1024**2 * maps["memory_mebibytes"],
            concurrent=maps.get("concurrent", max(MapLimits().concurrent, document["threads"])),
            waiting=maps["waiting"],
        ),
        plugins=document.get("plugins", {}),
        **{"port": None, "workers": None, "layers": None, **document["configurations"], **plain},
    )
