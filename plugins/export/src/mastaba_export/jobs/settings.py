"""Settings of the service, and the switch of layers."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba_export.jobs.job import Order

SWITCH: Final = "export"
"""Key of layer descriptors, and name of the service."""

GIB: Final = 1024**3

Networks = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a job may have, and what all of them may have.

    Attributes:
        max_bytes: expected bytes of the result.
        max_tiles: tiles of the result.
        max_pixels: pixels of the result.
        directory_bytes: bytes of all results, with those that are expected of waiting jobs.
        waiting: waiting jobs of all owners.
        estimates: estimates and orders of one owner in a minute, for each process.
        streams: results of more than 1 MiB that a process sends at a time.
    """

    max_bytes: int = 50 * GIB
    max_tiles: int = 50_000_000
    max_pixels: int = 40_000_000_000
    directory_bytes: int = 500 * GIB
    waiting: int = 1000
    estimates: int = 30
    streams: int = 2


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The section of the service in services.json.

    Attributes:
        directory: of the queue and the results; empty if it is not set.
        workers: processes that the server starts for jobs.
        memory: bytes that such a process may use in addition to those at its start.
        rate: bytes that a job reads per second; None for no limit.
        heartbeat: seconds between two signs of life of a worker. Without any for four times as
            long, another worker takes its job.
        keep: seconds for which a result is kept.
        running: running jobs of one owner.
        waiting: waiting jobs of one owner.
        owner_header: key of the WSGI environment that names the owner of a job; empty for none.
        gateways: addresses from which that header is believed.
        results: container of an object store and start of the keys of results; empty for files.
        results_url: address at which the store publishes those keys; empty if it does not.
        limits: of jobs.
    """

    directory: str = ""
    workers: int = 0
    memory: int = 512 * 1024**2
    rate: float | None = None
    heartbeat: float = 30.0
    keep: float = 72 * 3600.0
    running: int = 1
    waiting: int = 5
    owner_header: str = ""
    gateways: Networks = ()
    results: str = ""
    results_url: str = ""
    limits: Limits = field(default_factory=Limits)

    @property
    def silence(self) -> float:
        """Seconds without a sign of life after which a worker counts as dead."""
        return 4 * self.heartbeat

    def is_object(self, order: Order) -> bool:
        """Return whether the result of an order is an object: what is published is for all."""
        return bool(self.results) and (order.is_public or not self.results_url)


_DEFAULTS: Final = JobSettings()
_LIMITS: Final = Limits()
_LOOPBACK: Final = ("127.0.0.0/8", "::1/128")


def _count(default: int, description: str, least: int = 1) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "default": default, "description": description}


SETTINGS_SCHEMA: Final[Mapping[str, Any]] = {
    "directory": {
        "type": "string",
        "pattern": "^/.",
        "description": "Directory of the queue and the results, which all processes of the server "
        "and all workers can write. It is on a local disk. Without it, the service does not start.",
    },
    "workers": {
        **_count(_DEFAULTS.workers, "Processes that the server starts for jobs.", 0),
        "maximum": 64,
    },
    "memory": _count(
        _DEFAULTS.memory,
        "Bytes that such a process may use in addition to those at its start.",
        64 * 1024**2,
    ),
    "rate": {
        "type": "number",
        "minimum": 0.001,
        "description": "Megabytes that a job reads per second; without it, there is no limit.",
    },
    "heartbeat": {
        "type": "number",
        "minimum": 0.1,
        "maximum": 600,
        "default": _DEFAULTS.heartbeat,
        "description": "Seconds between two signs of life of a worker. Without any for four times "
        "as long, another worker continues its job.",
    },
    "keep": {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 87600,
        "default": _DEFAULTS.keep / 3600,
        "description": "Hours for which a result is kept.",
    },
    "per_owner": {
        "type": "object",
        "additionalProperties": False,
        "description": "Jobs of one owner.",
        "properties": {
            "running": _count(_DEFAULTS.running, "Running jobs."),
            "waiting": _count(_DEFAULTS.waiting, "Waiting jobs."),
        },
    },
    "owner_header": {
        "type": "string",
        "pattern": "^[A-Za-z][A-Za-z0-9-]*$",
        "description": "Request header in which a gateway names the owner of a job. Without it, "
        "and without the header, the owner is the address of the client.",
    },
    "gateways": {
        "type": "array",
        "items": {"type": "string", "minLength": 1},
        "default": list(_LOOPBACK),
        "description": "Addresses and networks from which owner_header is believed. It is ignored "
        "in all other requests.",
    },
    "results": {
        "type": "string",
        "pattern": "^[a-z0-9]+://[^/]+(/.*)?$",
        "description": "Container of an object store, and start of the keys, for results: "
        "s3://bucket/prefix. Without it, results are files in the directory.",
    },
    "results_url": {
        "type": "string",
        "pattern": "^https?://[^/?#]+(/[^?#]*)?$",
        "description": "Address at which everybody can read the container and keys of results: "
        "links to results lead there. Results that not everybody may have are then files in the "
        "directory.",
    },
    "limits": {
        "type": "object",
        "additionalProperties": False,
        "description": "Limits, checked before a job is accepted.",
        "properties": {
            "max_bytes": _count(_LIMITS.max_bytes, "Expected bytes of a result."),
            "max_tiles": _count(_LIMITS.max_tiles, "Tiles of a result."),
            "max_pixels": _count(_LIMITS.max_pixels, "Pixels of a result."),
            "directory_bytes": _count(
                _LIMITS.directory_bytes,
                "Bytes of all results, with the expected ones of waiting and running jobs.",
            ),
            "waiting": _count(_LIMITS.waiting, "Waiting jobs of all owners."),
            "estimates": _count(
                _LIMITS.estimates, "Estimates and orders of one owner in a minute, per process."
            ),
            "streams": _count(
                _LIMITS.streams, "Results of more than 1 MiB that a process sends at a time."
            ),
        },
    },
}

LAYER_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "description": "Publication by the service export. Layers are not published by default.",
    "properties": {
        "enabled": {
            "type": "boolean",
            "default": False,
            "description": "Whether jobs may export the layer.",
        }
    },
}


def job_settings(own: Mapping[str, Any]) -> JobSettings:
    """Return the settings from the section of the service.

    Raises:
        ValueError: an entry of ``gateways`` is not a network; its text names it.
    """
    header = own.get("owner_header", "")
    per_owner = own.get("per_owner", {})
    return JobSettings(
        directory=own.get("directory", "").rstrip("/"),
        workers=own.get("workers", _DEFAULTS.workers),
        memory=own.get("memory", _DEFAULTS.memory),
        rate=own["rate"] * 1e6 if "rate" in own else None,
        heartbeat=own.get("heartbeat", _DEFAULTS.heartbeat),
        keep=own["keep"] * 3600.0 if "keep" in own else _DEFAULTS.keep,
        running=per_owner.get("running", _DEFAULTS.running),
        waiting=per_owner.get("waiting", _DEFAULTS.waiting),
        owner_header=f"HTTP_{header.upper().replace('-', '_')}" if header else "",
        gateways=tuple(ipaddress.ip_network(text) for text in own.get("gateways", _LOOPBACK)),
        results=own.get("results", ""),
        results_url=own.get("results_url", "").rstrip("/"),
        limits=Limits(**own.get("limits", {})),
    )


def is_offered(layer: Layer) -> bool:
    """Return whether jobs may export a layer."""
    switch = layer.own.get(SWITCH)
    return isinstance(switch, dict) and switch.get("enabled") is True
