"""``mastaba -f server.json``: serve until a stop signal."""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import itertools
import logging
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mastaba import __version__
from mastaba.config.faults import Faults, FileFaults
from mastaba.config.server import ServerConfig, load_server, missing_port
from mastaba.config.source import Source
from mastaba.errors import ConfigurationError, ListenError, MastabaError, PluginError
from mastaba.plugins.manager import Plugins
from mastaba.server.allocator import keep_freed_memory, return_freed_memory
from mastaba.server.announcement import announce
from mastaba.server.app import Application
from mastaba.server.balance import Balance
from mastaba.server.connection import Connection, Limits
from mastaba.server.control import Change as ChangeMessage
from mastaba.server.control import WorkerLink
from mastaba.server.handover import Handover
from mastaba.server.listener import (
    Listener,
    activated_listener,
    inherited_listener,
    open_listener,
)
from mastaba.server.logs import configure_logging, escaped, log_faults
from mastaba.server.loop import Server
from mastaba.server.notify import Notifier
from mastaba.server.opening import log_findings, open_site
from mastaba.server.publication import Publication
from mastaba.server.signals import STOP_SIGNALS, StopOrdered, handled_by
from mastaba.server.supervisor import Generation, Supervisor
from mastaba.services.base import Site
from mastaba.services.change import Change, layer_changes
from mastaba.services.scoreboard import Obstacle, Scoreboard
from mastaba.storage.file import FileStorage
from mastaba.storage.path import ResourcePath

if TYPE_CHECKING:
    from mastaba.catalogue import Catalogue
    from mastaba.web.response import Response

_TICK_PERIOD = 0.5
# A process that draws maps returns freed memory at every n-th tick. Each map after it needs some
# new pages: less than a hundredth of the time of a second with maps.
_TICKS_OF_A_RETURN = 2
# A configuration that changes during each of so many loads is not complete.
_READ_ATTEMPTS = 3

logger = logging.getLogger("mastaba")
# Before the log is configured, the command itself prints messages.
logger.addHandler(logging.NullHandler())


def run(arguments: argparse.Namespace) -> int:
    """Serve the configuration; return the exit status.

    0 after a stop signal, 1 if the start fails: all reasons are on standard error.
    """
    with contextlib.suppress(StopOrdered), _early_signals() as hangups:
        return _run(arguments, arguments.plugins, lambda: bool(hangups))
    return 0


@contextlib.contextmanager
def _early_signals() -> Iterator[list[int]]:
    """Collect each SIGHUP, and raise `StopOrdered` on a stop signal.

    Service managers send these at any time; by default, both are abnormal exits. Once there is
    a supervisor, it handles them.
    """
    hangups: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield hangups
        return
    handlers: dict[signal.Signals, Callable[[int, object], None]]
    handlers = dict.fromkeys(STOP_SIGNALS, _end)
    handlers[signal.SIGHUP] = lambda number, _: hangups.append(number)
    with handled_by(handlers):
        yield hangups


def _end(_number: int, _frame: object) -> None:
    raise StopOrdered


def _run(arguments: argparse.Namespace, plugins: Plugins, is_reload_due: Callable[[], bool]) -> int:
    faults = Faults()
    try:
        server = load_server(arguments.file, plugins, faults)
        configure_logging(server)
    except ConfigurationError as error:
        return _fail(error, on_stderr=True)
    on_stderr = server.logger.output != "standard_error"
    site = None
    try:
        inherited = None if arguments.http else inherited_listener()
        # A front server that hands over its socket also manages the processes; each handles
        # its requests itself.
        processes = 0 if inherited else server.worker_count
        # During a reload, the workers of two generations run side by side.
        maps = server.map_limits.concurrent + server.map_limits.waiting
        scoreboard = Scoreboard(max(1, 2 * processes), server.threads, maps)
        source = _watching(arguments.file)
        site = open_site(server, plugins, scoreboard, faults, source=source)
        log_findings(site, faults)
        if server.follow is not None and faults.errors:
            scoreboard.report(Obstacle.OUTDATED)
        for warning in plugins.warnings:
            logger.warning("%s", warning)
        listener = _listener(arguments.http, inherited, server)
    except ConfigurationError as error:
        # The problems of an open site are already in the log.
        _log_all(Faults() if site else faults, error)
        return _fail(error, on_stderr=on_stderr)
    except (ListenError, PluginError) as error:
        return _fail(error, on_stderr=on_stderr)

    numbers = itertools.count(2)

    def reload() -> Generation:
        # A failed reload uses up a number: it is an identifier, not a count.
        served = cast(SiteGeneration, supervisor.generation)
        return _reloaded(arguments, plugins, served, server, next(numbers))

    with listener:
        try:
            protocol, balance = _protocol(arguments.http), Balance(2 * processes)
            endpoint = Endpoint(listener.socket, protocol, Handover(), balance)
            generation = SiteGeneration(site, server, plugins, endpoint, source)
        except PluginError as error:
            return _fail(error, on_stderr=on_stderr)
        supervisor = Supervisor(
            generation,
            workers=processes,
            reload=reload,
            notifier=Notifier.from_environment(),
            watch=scoreboard,
            worker_timeout=server.worker_timeout,
            is_reload_due=is_reload_due,
        )
        logger.info(
            "mastaba %s serves %d layers on %s (processes: %d, threads of each: %d)",
            __version__,
            len(site.catalogue.layers),
            _shown(arguments.http, listener),
            max(1, processes),
            server.threads,
        )
        status = supervisor.run()
        logger.info("stopped")
        return status


def _protocol(http: str | None) -> type[Connection]:
    # Only the libraries of the protocol in use are loaded.
    if http:
        from mastaba.server.http import HTTPConnection

        return HTTPConnection
    from mastaba.server.fastcgi import FastCGIConnection

    return FastCGIConnection


def _shown(http: str | None, listener: Listener) -> str:
    if http and ":" in http:
        return f"http://{http}/"
    return f"{'HTTP' if http else 'FastCGI'} on {listener.address}"


class Endpoint(NamedTuple):
    """Where and how requests arrive. Created before the workers of all generations."""

    sock: socket.socket
    protocol: type[Connection]
    handover: Handover
    balance: Balance


class SiteGeneration(Generation):
    """A site that is served at an endpoint.

    The application is created before the fork, so a failing middleware fails the start or
    reload instead of every worker.

    Args:
        source: what was read for it.

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
        self._publication = Publication(self._application, server, plugins, source)
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
    def source(self) -> Source:
        """What the last load has read, also if that load failed."""
        return self._publication.source

    @source.setter
    def source(self, source: Source) -> None:
        self._publication.source = source

    @property
    def site(self) -> Site:
        """The site served now, with all changes made since it was loaded."""
        return self._application.site

    def serve(self, link: WorkerLink | None) -> None:
        # A collection writes to all objects that it examines: each worker would soon have its own
        # copy of the configuration and the libraries, and requests would wait.
        gc.freeze()
        self.site.scoreboard.bind_worker(0 if link is None else link.index)
        self.site.start_services()
        try:
            self._serve(link)
        finally:
            self.site.close_services()

    def _serve(self, link: WorkerLink | None) -> None:
        threading.Thread(target=self._tick, name="tick", daemon=True).start()
        application: Application | Counted = self._application
        if link is not None:
            self._publication.connect(link)
            self.endpoint.balance.join(link.index)
            if self._server.worker_requests:
                application = Counted(self._application, self._server.worker_requests, link.spent)
        Server(
            application,
            self.endpoint.sock,
            self.endpoint.protocol,
            threads=self._server.threads,
            link=link,
            handover=self.endpoint.handover,
            balance=self.endpoint.balance,
            limits=Limits(body_time=self._server.body_timeout),
        ).run()

    def _tick(self) -> None:
        for number in itertools.count(1):
            self.site.scoreboard.tick()
            if self.site.draws_maps and number % _TICKS_OF_A_RETURN == 0:
                return_freed_memory()
            time.sleep(_TICK_PERIOD)

    def carry_out(self, change: ChangeMessage) -> None:
        self._publication.carry_out(Change.from_json(change))

    def follow(self, change: ChangeMessage) -> None:
        self._publication.follow(Change.from_json(change))

    def announcement(self) -> Callable[[], None] | None:
        site, before = self.site, self._announced
        self._announced = site.catalogue
        changes = layer_changes(before, site.catalogue)
        calls = self._plugins.announcements(site, changes) if changes else None
        return functools.partial(announce, calls) if calls else None

    def await_change(self) -> None:
        assert self._server.follow is not None
        is_readable = True

        def report(error: MastabaError | None) -> None:
            nonlocal is_readable
            if is_readable and error is not None:
                logger.error("cannot look for a new configuration: %s", error)
            is_readable = error is None
            self.site.scoreboard.report(Obstacle.UNREADABLE, not is_readable)

        self.source.await_change(self.site.catalogue.storages, self._server.follow, report)


class Counted:
    """An application that calls ``on_limit`` once, after about ``limit`` requests."""

    def __init__(self, application: Application, limit: int, on_limit: Callable[[], None]) -> None:
        self._application = application
        self._numbers = itertools.count(1)
        # Workers that started together must not be replaced together.
        self._last = limit + random.randrange(limit // 10 + 1)  # noqa: S311 - not a secret
        self._on_limit = on_limit

    def stored_tile(self, path: str, query: str, headers: Mapping[str, Any]) -> Response | None:
        response = self._application.stored_tile(path, query, headers)
        if response is not None:
            self._count()
        return response

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self._count()
        return self._application(environ, start_response)

    def _count(self) -> None:
        if next(self._numbers) == self._last:
            self._on_limit()


def _listener(http: str | None, inherited: socket.socket | None, server: ServerConfig) -> Listener:
    activated = activated_listener()
    if activated is not None:
        return activated
    if http:
        return open_listener(http, server.backlog)
    if inherited is not None:
        return Listener(inherited, "the socket of the front server")
    if server.port is None:
        raise ConfigurationError([missing_port(server)])
    return open_listener(server.port, server.backlog)


def _reloaded(
    arguments: argparse.Namespace,
    plugins: Plugins,
    served: SiteGeneration,
    running: ServerConfig,
    generation: int,
) -> Generation:
    """Load the whole configuration again; layers with an error stay as they are.

    A server that follows its configuration refuses one with errors, and one that was written while
    it was read.

    Args:
        running: server.json as it was at the start.

    Raises:
        MastabaError: an error concerns all services; the log has the details.
    """
    old = served.site
    # What the start has loaded may become garbage.
    gc.unfreeze()
    for _ in range(_READ_ATTEMPTS):
        faults, served.source = Faults(), _watching(arguments.file)
        failure = None
        try:
            server = _compared(load_server(arguments.file, plugins, faults), running, faults)
            site = open_site(
                server,
                plugins,
                old.scoreboard,
                faults,
                generation=generation,
                previous=old.catalogue,
                source=served.source,
            )
            if server.follow is not None and faults.errors:
                site.catalogue.storages.close()
                raise ConfigurationError(faults.errors)
        except ConfigurationError as error:
            failure = error
        if not (served.follows and served.source.has_changed(old.catalogue.storages)):
            break
    else:
        raise MastabaError("it is being written")
    if failure is not None:
        _log_all(faults, failure)
        count = len(failure.faults)
        raise MastabaError(f"{count} {'errors' if count > 1 else 'error'}, see above") from failure
    configure_logging(server)
    log_findings(site, faults)
    return SiteGeneration(site, server, plugins, served.endpoint, served.source, old.catalogue)


def _watching(file: str) -> Source:
    """Return a source that watches server.json; before it is read, so no change is missed."""
    source, path = Source(), ResourcePath("file", "", file)
    try:
        source.read(path, FileStorage().read(file))
    except MastabaError as error:
        source.failed(path, error)
    return source


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


def _log_all(faults: Faults, error: ConfigurationError) -> None:
    noted = faults.all
    log_faults((*noted, *(fault for fault in error.faults if fault not in noted)))


def _fail(error: Exception, *, on_stderr: bool) -> int:
    """Report why the server does not start; return the exit status."""
    faults = error.faults if isinstance(error, ConfigurationError) else ()
    if on_stderr:
        for reason in faults or (error,):
            sys.stderr.write(escaped(f"mastaba: {reason}") + "\n")
    # Each fault has its own line in the log.
    summary = f"{len(faults)} errors, see above" if faults else str(error)
    logger.critical("the server does not start: %s", summary)
    return 1
