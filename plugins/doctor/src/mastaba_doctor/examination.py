"""Complete examination of a configuration that can be loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mastaba.api.documents import Faults
from mastaba.api.services import Site
from mastaba.api.storages import Environment
from mastaba.tooling.documents import ServerConfig
from mastaba_doctor.addresses import port_faults
from mastaba_doctor.endpoints import look_at_endpoints
from mastaba_doctor.ports import PortState, look_at_port
from mastaba_doctor.slabs import look_at_slabs

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication


@dataclass(frozen=True, slots=True)
class Examined:
    """What was examined: counts, and the state of the port (None without a port)."""

    storages: int
    levels: int
    slabs: int
    endpoints: int
    port: PortState | None


def examine(
    server: ServerConfig,
    site: Site,
    application: WSGIApplication,
    samples: int,
    environment: Environment,
    faults: Faults,
) -> Examined:
    """Examine storages, slabs, port and public addresses; add problems to ``faults``.

    Args:
        application: of the site.
        samples: number of slabs per level.
    """
    slabs = look_at_slabs(site.catalogue, samples)
    faults.extend(slabs.faults)
    state = None
    # An invalid one is already reported.
    if server.port is not None and not port_faults(server):
        port = look_at_port(server.port, server.file, application)
        faults.extend(port.faults)
        state = port.state
    endpoints, found = look_at_endpoints(
        site,
        application,
        server.services,
        environment,
        is_running=state is PortState.OURS,
    )
    faults.extend(found)
    return Examined(slabs.storages, slabs.levels, slabs.slabs, endpoints, state)
