"""``mastaba -f server.json``: serve until a stop signal."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import logging
import os
import signal
from collections.abc import Callable
from typing import cast

from mastaba import __version__
from mastaba.commands.output import failed
from mastaba.config.server import ServerConfig, load_server, missing_port
from mastaba.errors import ConfigurationError, PluginError
from mastaba.plugins.manager import Plugins
from mastaba.site.epoch import Endpoint, SiteEpoch
from mastaba.site.loading import log_all, log_broken, log_findings, open_site, watching
from mastaba.site.logs import configure_logging
from mastaba.site.reloading import reloaded
from mastaba_documents.faults import Faults
from mastaba_server.errors import ListenError
from mastaba_server.processes.balance import Balance
from mastaba_server.processes.epoch import Epoch
from mastaba_server.processes.handover import Handover
from mastaba_server.processes.notify import Notifier
from mastaba_server.processes.scoreboard import Obstacle, Scoreboard
from mastaba_server.processes.signals import STOP_SIGNALS, StopOrdered, handled_by
from mastaba_server.processes.supervisor import Supervisor
from mastaba_server.transport.connection import Connection
from mastaba_server.transport.listener import (
    Listener,
    activated_listener,
    inherited_listener,
    open_listener,
)

logger = logging.getLogger("mastaba")
# Before the log is configured, the command itself prints messages.
logger.addHandler(logging.NullHandler())


def run(arguments: argparse.Namespace) -> int:
    """Serve the configuration; return the exit status.

    0 after a stop signal, 1 if the start fails: all reasons are on standard error.
    """
    hangups: list[int] = []

    def note(number: int, _frame: object) -> None:
        hangups.append(number)

    # Service managers send these at any time; by default, both are abnormal exits. Once there is a
    # supervisor, it handles them.
    early = {signal.SIGHUP: note, **dict.fromkeys(STOP_SIGNALS, _end)}
    with contextlib.suppress(StopOrdered), handled_by(early):
        return _run(arguments, arguments.plugins, lambda: bool(hangups))
    return 0


def _end(_number: int, _frame: object) -> None:
    raise StopOrdered


def _run(arguments: argparse.Namespace, plugins: Plugins, is_reload_due: Callable[[], bool]) -> int:
    faults, site, on_stderr = Faults(), None, True
    with contextlib.ExitStack() as opened:
        try:
            server = load_server(arguments.file, plugins, faults)
            configure_logging(server)
            on_stderr = server.logger.output != "standard_error"
            log_broken(plugins)
            inherited = None if arguments.http else inherited_listener()
            # A front server that hands over its socket also manages the processes; each handles
            # its requests itself.
            processes = 0 if inherited else server.worker_count
            # During a reload, the workers of two epochs run side by side.
            maps = server.map_limits.concurrent + server.map_limits.waiting
            scoreboard = Scoreboard(max(1, 2 * processes), server.threads, maps)
            source = watching(arguments.file)
            site = open_site(server, plugins, scoreboard, faults, source=source)
            log_findings(site, faults)
            if server.follow is not None and faults.errors:
                scoreboard.report(Obstacle.OUTDATED)
            for warning in plugins.warnings:
                logger.warning("%s", warning)
            listener = opened.enter_context(_listener(arguments.http, inherited, server))
            protocol, balance = _protocol(arguments.http), Balance(2 * processes)
            endpoint = Endpoint(listener, protocol, Handover(), balance)
            epoch = SiteEpoch(site, server, plugins, endpoint, source)
        except ConfigurationError as error:
            # The problems of an open site are already in the log.
            log_all(Faults() if site else faults, error)
            return _fail(error, plugins, on_stderr=on_stderr)
        except (ListenError, PluginError) as error:
            return _fail(error, plugins, on_stderr=on_stderr)

        numbers = itertools.count(1)

        def reload(served: Epoch) -> Epoch:
            # A failed reload uses up a number: it is an identifier, not a count.
            present = cast(SiteEpoch, served)
            return reloaded(arguments.file, plugins, present, server, next(numbers))

        supervisor = Supervisor(
            epoch,
            workers=processes,
            reload=reload,
            notifier=Notifier(os.environ),
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
        supervisor.run()
        logger.info("stopped")
        return 0


def _protocol(http: str | None) -> type[Connection]:
    # Only the libraries of the protocol in use are loaded.
    if http:
        from mastaba_server.transport.http import HTTPConnection

        return HTTPConnection
    from mastaba_server.transport.fastcgi.connection import FastCGIConnection

    return FastCGIConnection


def _shown(http: str | None, listener: Listener) -> str:
    if http and ":" in http:
        return f"http://{http}/"
    return f"{'HTTP' if http else 'FastCGI'} on {listener.address}"


def _listener(http: str | None, inherited: Listener | None, server: ServerConfig) -> Listener:
    listener = activated_listener() or inherited
    if listener is not None:
        return listener
    port = http or server.port
    if port is None:
        raise ConfigurationError([missing_port(server)])
    return open_listener(port, server.backlog)


def _fail(error: Exception, plugins: Plugins, *, on_stderr: bool) -> int:
    """Report why the server does not start; return the exit status."""
    faults = error.faults if isinstance(error, ConfigurationError) else ()
    if on_stderr:
        # A missing plugin may be the reason.
        failed(*plugins.broken.values(), *(faults or (error,)))
    # Each fault has its own line in the log.
    summary = f"{len(faults)} errors, see above" if faults else str(error)
    logger.critical("the server does not start: %s", summary)
    return 1
