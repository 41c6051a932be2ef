"""Applications that listen while a test runs, for clients that know nothing but HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from mastaba.http.app import Application
from mastaba.wsgi import create_application

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

# Seconds between two looks at whether to stop: each test that serves waits for one.
_POLL: Final = 0.01


@contextmanager
def running(server: BaseServer) -> Iterator[None]:
    """Let a server that is bound answer in a thread; it is closed in the end."""
    thread = threading.Thread(target=server.serve_forever, args=(_POLL,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serving(application_at: Callable[[str], WSGIApplication]) -> Iterator[str]:
    """Serve a WSGI application on a free port of 127.0.0.1; the address is given.

    Args:
        application_at: makes the application for an address, which has no final slash:
            documents announce it.
    """
    found: list[WSGIApplication] = []

    def late(environ: WSGIEnvironment, start_response: StartResponse) -> Any:
        return found[0](environ, start_response)

    server = make_server("127.0.0.1", 0, late, _Server, _Handler)
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        found.append(application_at(url))
    except BaseException:
        server.server_close()
        raise
    with running(server):
        yield url


@contextmanager
def serving_installation(write: Callable[[str], Path]) -> Iterator[str]:
    """Serve an installation with every service in it; the address is given.

    Args:
        write: writes the installation for an address, and returns its server.json.
    """
    opened: list[Application] = []

    def application_at(url: str) -> Application:
        opened.append(create_application(str(write(url))))
        return opened[0]

    try:
        with serving(application_at) as url:
            yield url
    finally:
        for application in opened:
            application.site.catalogue.storages.close()


class _Server(ThreadingMixIn, WSGIServer):
    pass


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass
