"""Reading the whole configuration again, while the previous one is served."""

from __future__ import annotations

import gc

from mastaba.config.server import ServerConfig, load_server
from mastaba.errors import ConfigurationError, MastabaError
from mastaba.plugins.manager import Plugins
from mastaba.site.epoch import SiteEpoch
from mastaba.site.loading import log_all, log_findings, open_site, watching
from mastaba.site.logs import configure_logging
from mastaba_documents.faults import Faults, FileFaults

# A configuration that changes during each of so many loads is not complete.
_READ_ATTEMPTS = 3


def reloaded(
    file: str,
    plugins: Plugins,
    served: SiteEpoch,
    running: ServerConfig,
    reload_count: int,
) -> SiteEpoch:
    """Load the whole configuration again; layers with an error stay as they are.

    A server that follows its configuration refuses one with errors, and one that was written while
    it was read.

    Args:
        file: path of server.json.
        served: what is served now.
        running: server.json as it was at the start.
        reload_count: that of the new site.

    Raises:
        MastabaError: an error concerns all services; the log has the details.
    """
    old = served.site
    # What the start, or the reload before this one, has loaded may be garbage. This process
    # allocates too little for a collection: files and memory of all configurations would stay.
    gc.unfreeze()
    gc.collect()
    for _ in range(_READ_ATTEMPTS):
        faults, source = Faults(), watching(file)
        served.updates.source = source
        failure = None
        try:
            server = _compared(load_server(file, plugins, faults), running, faults)
            site = open_site(
                server,
                plugins,
                old.scoreboard,
                faults,
                reload_count=reload_count,
                previous=old.catalogue,
                source=source,
            )
            if server.follow is not None and faults.errors:
                site.catalogue.storages.close()
                raise ConfigurationError(faults.errors)
        except ConfigurationError as error:
            failure = error
        if not (served.follows and source.has_changed(old.catalogue.storages)):
            break
    else:
        raise MastabaError("it is being written")
    if failure is not None:
        log_all(faults, failure)
        count = len(failure.faults)
        raise MastabaError(f"{count} {'errors' if count > 1 else 'error'}, see above") from failure
    configure_logging(server)
    log_findings(site, faults)
    return SiteEpoch(site, server, plugins, served.endpoint, source, old.catalogue)


def _compared(server: ServerConfig, running: ServerConfig, faults: Faults) -> ServerConfig:
    """Return server.json after a warning about changes that a reload ignores."""
    noted = FileFaults(faults, server.file)
    if (server.port, server.backlog) != (running.port, running.backlog):
        reason = "port and backlog are not changed by a reload"
        noted.warning("$.port", reason, "restart the server to apply them")
    if server.worker_count != running.worker_count:
        reason = "the number of worker processes is not changed by a reload"
        noted.warning("$.workers", reason, "restart the server to apply it")
    return server
