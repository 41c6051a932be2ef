"""Installations for the tests of the viewer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation
from tests.viewer import ground
from tests.viewer.browser import Page
from werkzeug.serving import make_server
from werkzeug.test import Client

from mastaba.wsgi import create_application

OpenClient = Callable[[Path], Client]
Serving = Callable[[Callable[[str], Path]], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    """Return a client of the tiny installation with the viewer and TMS."""
    directory = tmp_path_factory.mktemp("tiny")
    return open_client(
        tiny_installation(
            directory, services=["tms", "viewer"], public_url="http://maps.example/front"
        )
    )


class _DeferredApplication:
    """An application that is set after the server has got its address."""

    application: Any = None

    def __call__(self, environ: Any, start_response: Any) -> Any:
        return self.application(environ, start_response)


@contextmanager
def _serving(install_at: Callable[[str], Path]) -> Iterator[str]:
    deferred = _DeferredApplication()
    server = make_server("127.0.0.1", 0, deferred, threaded=True)
    url = f"http://127.0.0.1:{server.server_port}"
    deferred.application = create_application(str(install_at(url)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield url
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        deferred.application.site.catalogue.storages.close()


@pytest.fixture(scope="session")
def serving() -> Serving:
    """Return a context manager that serves an installation over HTTP.

    It takes a function that writes the installation for a public URL, and returns this URL.
    """
    return _serving


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, serving: Serving) -> Iterator[str]:
    """Return the URL of a server with all services."""
    directory = tmp_path_factory.mktemp("site")
    with serving(lambda url: ground.install(directory, url)) as url:
        yield url


@pytest.fixture
def page(browser: Any, site: str) -> Iterator[Page]:
    """Return a page; any problem in it fails the test."""
    opened = Page(browser, site)
    yield opened
    opened.close()
