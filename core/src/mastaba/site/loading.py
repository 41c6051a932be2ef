"""Opening a configuration: from server.json to a site that can serve."""

from __future__ import annotations

import logging
import os
import time

from mastaba.catalogue import Catalogue
from mastaba.config.load import load_catalogue
from mastaba.config.server import ServerConfig
from mastaba.config.source import Source
from mastaba.errors import ConfigurationError, MastabaError
from mastaba.plugins.manager import Plugins
from mastaba.services.base import Site
from mastaba.site.logs import log_faults
from mastaba_documents.faults import Faults
from mastaba_server.processes.scoreboard import Scoreboard
from mastaba_storage.environment import Environment
from mastaba_storage.file import FileStorage
from mastaba_storage.path import ResourcePath

logger = logging.getLogger("mastaba")


def open_site(
    server: ServerConfig,
    plugins: Plugins,
    scoreboard: Scoreboard,
    faults: Faults,
    environment: Environment | None = None,
    reload_count: int = 0,
    previous: Catalogue | None = None,
    source: Source | None = None,
) -> Site:
    """Load everything that server.json names, and create the enabled services.

    Layers with an error stay as they were, or are left out; their problems are in ``faults``.

    Args:
        reload_count: 0 at the start, one more with each reload.
        previous: catalogue published now, None at the start.
        source: gets the documents that were read.

    Raises:
        ConfigurationError: services.json or the layer list cannot be used; contains all errors.
    """
    catalogue = load_catalogue(
        server, plugins, environment or Environment(), faults, previous, source
    )
    site = Site(
        catalogue,
        plugins,
        scoreboard,
        started=time.time(),
        main_pid=os.getpid(),
        reload_count=reload_count,
        debug=server.debug,
        access=server.logger.access,
        addresses=server.logger.addresses,
        request_timeout=server.request_timeout,
        plugin_settings=server.plugins,
        encoder_settings=plugins.encoders.settings(server.plugins),
    )
    site.open_services()
    site.gate = plugins.gate(site)
    return site


def log_findings(site: Site, faults: Faults) -> None:
    """Log the problems of the configuration of a site, and the layers affected."""
    log_faults(faults.all)
    missing, outdated = site.catalogue.missing_layers, site.catalogue.outdated_layers
    if missing:
        logger.error("layers left out because of errors: %s", ", ".join(sorted(missing)))
    if outdated:
        logger.error("layers with errors, which stay as they were: %s", ", ".join(sorted(outdated)))


def log_broken(plugins: Plugins) -> None:
    """Log which plugins are left out, and why."""
    for problem in plugins.broken.values():
        logger.error("left out: %s", problem)


def log_all(faults: Faults, error: ConfigurationError) -> None:
    """Log the problems noted so far, and those of an error that are not among them."""
    noted = faults.all
    log_faults((*noted, *(fault for fault in error.faults if fault not in noted)))


def watching(file: str) -> Source:
    """Return a source that watches server.json; before it is read, so no change is missed."""
    source, path = Source(), ResourcePath("file", "", file)
    try:
        source.read(path, FileStorage().read(file))
    except MastabaError as error:
        source.failed(path, error)
    return source
