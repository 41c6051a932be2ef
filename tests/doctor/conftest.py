"""A tiny installation, loaded, and a front server that makes mistakes on demand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from mastaba.config.server import load_server
from mastaba.plugins.manager import Plugins
from mastaba.site.application import Application
from mastaba.site.loading import open_site
from mastaba_conformance.tiny_installation import tiny_installation
from mastaba_documents.faults import Faults
from mastaba_server.processes.scoreboard import Scoreboard

Environ = dict[str, Any]


class _Silent(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class Front:
    """A front server on its own port.

    Attributes:
        url: without final slash.
        change: what it does to the environment of a request before it hands it on.
        answer: status and body it gives instead of handing on, or None.
        headers: of that answer.
    """

    def __init__(self) -> None:
        self.change: Callable[[Environ], None] = lambda environ: None
        self.answer: tuple[str, bytes] | None = None
        self.headers: list[tuple[str, str]] = [("Content-Type", "text/html")]
        self.application: Application | None = None
        self._server = make_server("127.0.0.1", 0, self._respond, handler_class=_Silent)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _respond(self, environ: Environ, start_response: Any) -> Any:
        if self.answer is not None:
            start_response(self.answer[0], self.headers)
            return [self.answer[1]]
        assert self.application is not None
        self.change(environ)
        return self.application(environ, start_response)


@pytest.fixture
def front() -> Iterator[Front]:
    server = Front()
    yield server
    server.close()


def open_application(server_json: Path, plugins: Plugins | None = None) -> Application:
    """Return the application of an installation without errors."""
    faults, plugins = Faults(), plugins or Plugins()
    server = load_server(str(server_json), plugins, faults)
    scoreboard = Scoreboard(1, 1)
    scoreboard.bind_worker(0)
    site = open_site(server, plugins, scoreboard, faults)
    assert faults.all == ()
    return Application(site)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return the server.json of a tiny installation that the test may change."""
    return tiny_installation(tmp_path / "own", server_overrides={"port": "127.0.0.1:9"})
