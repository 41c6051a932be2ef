"""Opening a configuration: from server.json to a site that can serve."""

from __future__ import annotations

import os
import time

from mastaba.config.faults import Faults
from mastaba.config.load import load_catalogue
from mastaba.config.server import ServerConfig, load_server
from mastaba.environment import Environment
from mastaba.errors import ConfigurationError
from mastaba.plugins import Plugins
from mastaba.scoreboard import Scoreboard
from mastaba.service import Site


def read_server_config(file: str, plugins: Plugins, faults: Faults) -> ServerConfig:
    """Return what server.json says.

    Raises:
        ConfigurationError: it cannot be used; with every fault of the file.
    """
    server = load_server(file, plugins, faults)
    if server is None:
        raise ConfigurationError(faults.errors)
    return server


def open_site(
    server: ServerConfig,
    plugins: Plugins,
    scoreboard: Scoreboard,
    faults: Faults,
    environment: Environment | None = None,
    generation: int = 1,
) -> Site:
    """Load everything that server.json names, and make the enabled services.

    Layers with an error are left out; what is wrong with them is in ``faults``.

    Args:
        generation: 1 at the start, one more with each reload.

    Raises:
        ConfigurationError: services.json or the layer list cannot be used; with every fault.
    """
    catalogue = load_catalogue(server, plugins, environment or Environment(), faults)
    if catalogue is None:
        raise ConfigurationError(faults.errors)
    site = Site(
        catalogue,
        plugins,
        scoreboard,
        started=time.time(),
        main_pid=os.getpid(),
        generation=generation,
        debug=server.debug,
        access=server.logger.access,
        request_timeout=server.request_timeout,
    )
    site.open_services()
    return site
