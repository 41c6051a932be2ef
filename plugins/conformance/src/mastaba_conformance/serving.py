"""HTTP servers for tests with real HTTP clients."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from mastaba.api.tools import Application, create_application

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

__all__ = [
    "running",
    "serving",
    "serving_installation",
]

# Interval, in seconds, at which a server checks whether to stop. Each test waits for one.
_POLL: Final = 0.01


@contextmanager
def running(server: BaseServer) -> Iterator[None]:
    """Run a bound server in a thread, and close it at the end."""
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
    """Serve a WSGI application on a free port of 127.0.0.1; yields the URL.

    Args:
        application_at: creates the application for a public URL without trailing slash.
    """
    created: list[WSGIApplication] = []

    def deferred(environ: WSGIEnvironment, start_response: StartResponse) -> Any:
        return created[0](environ, start_response)

    server = make_server("127.0.0.1", 0, deferred, _Server, _Handler)
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        created.append(application_at(url))
    except BaseException:
        server.server_close()
        raise
    with running(server):
        yield url


@contextmanager
def serving_installation(write: Callable[[str], Path]) -> Iterator[str]:
    """Serve an installation with all its services; yields the URL.

    Args:
        write: writes the installation for a public URL and returns the path of its server.json.
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
