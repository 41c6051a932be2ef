"""A site in its worker processes, and the changes made to it there."""

from __future__ import annotations

import functools
import gc
import itertools
import logging
import os
import random
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from mastaba.catalogue import Catalogue
from mastaba.config.server import ServerConfig
from mastaba.config.source import Source
from mastaba.errors import MastabaError
from mastaba.plugins.manager import Plugins
from mastaba.services.base import Site
from mastaba.services.change import Change, layer_changes
from mastaba.site.application import Application
from mastaba.site.updates import SiteUpdates
from mastaba_server.log.destination import begin_batches
from mastaba_server.processes import announcement
from mastaba_server.processes.allocator import keep_freed_memory, return_freed_memory
from mastaba_server.processes.balance import Balance
from mastaba_server.processes.control import Change as ChangeMessage
from mastaba_server.processes.control import WorkerLink
from mastaba_server.processes.epoch import Epoch
from mastaba_server.processes.handover import Handover
from mastaba_server.processes.scoreboard import Obstacle
from mastaba_server.transport.connection import Connection, Limits
from mastaba_server.transport.listener import Listener
from mastaba_server.transport.loop import Server

_TICK_PERIOD = 0.5
# A process that draws maps returns freed memory at every n-th tick.
_TICKS_OF_A_RETURN = 2

logger = logging.getLogger("mastaba")


class Endpoint(NamedTuple):
    """Where and how requests arrive. Created before the workers of all epochs."""

    listener: Listener
    protocol: type[Connection]
    handover: Handover
    balance: Balance


class SiteEpoch(Epoch):
    """A site that is served at an endpoint.

    The application is created before the fork, so a failing middleware fails the start or
    reload instead of every worker.

    Args:
        source: what was read for it.

    Attributes:
        updates: of the site; their source is what the last load has read, also if that failed.

    Raises:
        PluginError: a middleware cannot be created.
    """

    def __init__(
        self,
        site: Site,
        server: ServerConfig,
        plugins: Plugins,
        endpoint: Endpoint,
        source: Source,
        previous: Catalogue | None = None,
    ) -> None:
        if site.draws_maps:
            # Loaded before the fork: the workers share its memory.
            keep_freed_memory()
            _ = site.renderer
        self._application = Application(site)
        self.updates = SiteUpdates(self._application, server, plugins, source)
        self.drain = server.drain
        self.follows = server.follow is not None
        self._server = server
        self._plugins = plugins
        self._announced = previous or site.catalogue
        self.endpoint = endpoint
        if not gc.isenabled():
            # The end of the start. A first collection would examine all that it has loaded.
            gc.freeze()
            gc.enable()

    @property
    def site(self) -> Site:
        """The site served now, with all changes made since it was loaded."""
        return self._application.site

    def serve(self, link: WorkerLink | None) -> None:
        # A collection writes to all objects that it examines: each worker would soon have its own
        # copy of the configuration and the libraries, and requests would wait.
        gc.freeze()
        begin_batches()
        self.site.scoreboard.bind_worker(0 if link is None else link.index)
        self.site.start_services()
        gate = self.site.gate
        threading.Thread(target=self._tick, args=(link,), name="tick", daemon=True).start()
        if link is not None:
            self.updates.connect(link)
            self.endpoint.balance.join(link.index)
        server = Server(
            self._application,
            self.endpoint.listener.socket,
            self.endpoint.protocol,
            threads=self._server.threads,
            link=link,
            handover=self.endpoint.handover,
            balance=self.endpoint.balance,
            limits=Limits(body_time=self._server.body_timeout),
            is_refusing=lambda: self.endpoint.listener.is_refusing,
        )
        try:
            server.run()
        finally:
            self.site.close_services()
            if gate is not None:
                gate.close()

    def _tick(self, link: WorkerLink | None) -> None:
        most = self._server.worker_requests
        # Workers that started together must not be replaced together.
        most += random.randrange(most // 10 + 1)  # noqa: S311 - not a secret
        for number in itertools.count(1):
            self.site.scoreboard.tick()
            if link is not None and 0 < most <= self._answered():
                link.spent()
            if self.site.draws_maps and number % _TICKS_OF_A_RETURN == 0:
                return_freed_memory()
            time.sleep(_TICK_PERIOD)

    def _answered(self) -> int:
        """Return the number of requests that this process has answered."""
        rows = self.site.scoreboard.rows()
        return sum(row.count for row in rows if row.pid == os.getpid())

    def carry_out(self, change: ChangeMessage) -> None:
        # The workers must have the variants that this process has read.
        change.update(self.updates.carry_out(Change.from_json(change)).to_json())

    def follow(self, change: ChangeMessage) -> None:
        self.updates.follow(Change.from_json(change))

    def refuse(self) -> None:
        self.endpoint.listener.refuse()

    def announcement(self) -> Callable[[], None] | None:
        site, before = self.site, self._announced
        self._announced = site.catalogue
        changes = layer_changes(before, site.catalogue)
        calls = self._plugins.announcements(site, changes) if changes else None
        return functools.partial(announcement.announce, calls) if calls else None

    def companions(self) -> list[Callable[[], None]]:
        site = self.site
        found = [run for service in site.services.values() for run in service.companions()]
        return found if site.gate is None else [*found, *site.gate.companions()]

    def await_change(self) -> None:
        assert self._server.follow is not None
        source, storages = self.updates.source, self.site.catalogue.storages
        is_readable = True

        def report(error: MastabaError | None) -> None:
            nonlocal is_readable
            if is_readable and error is not None:
                logger.error("cannot look for a new configuration: %s", error)
            is_readable = error is None
            self.site.scoreboard.report(Obstacle.UNREADABLE, not is_readable)

        source.await_change(storages, self._server.follow, report)
