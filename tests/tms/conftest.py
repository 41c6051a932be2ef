"""Installations that the tests of TMS ask for tiles and documents."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server
from werkzeug.test import Client

from mastaba.http.app import Application
from mastaba.testing.tiny_installation import tiny_installation
from mastaba.wsgi import create_application

PUBLIC_URL = "http://maps.example"
REPOSITORY = Path(__file__).parents[2]

OpenClient = Callable[[Path], Client]
Serving = Callable[[Callable[[str], Path]], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def open_client() -> Iterator[OpenClient]:
    """Return a function that opens the installation of a server.json."""
    applications: list[Application] = []

    def open_it(server_json: Path) -> Client:
        application = create_application(str(server_json))
        applications.append(application)
        return Client(application)

    yield open_it
    for application in applications:
        application.site.catalogue.storages.close()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    """Return a client of the tiny installation, rows counted from the top."""
    directory = tmp_path_factory.mktemp("tiny")
    return open_client(tiny_installation(directory, services=["tms"], public_url=PUBLIC_URL))


@pytest.fixture(scope="module")
def tiny_from_bottom(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    """Return a client of the tiny installation, rows counted from the bottom."""
    overrides = {"tms": {"y_origin": "bottom"}}
    return open_client(
        tiny_installation(
            tmp_path_factory.mktemp("bottom"),
            services=["tms"],
            public_url=PUBLIC_URL,
            services_overrides=overrides,
        )
    )


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real pyramids, answers and schemas; skip without it."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}")
    return folder


@pytest.fixture(scope="session")
def serving() -> Serving:
    """Return a context manager that serves an installation over HTTP.

    It takes a function that writes the installation for a public address, and gives the address
    of its TMS.
    """
    return _serving


class _Late:
    """An application known only after the address that it announces."""

    application: Any = None

    def __call__(self, environ: Any, start_response: Any) -> Any:
        return self.application(environ, start_response)


@contextmanager
def _serving(install_at: Callable[[str], Path]) -> Iterator[str]:
    """Serve an installation over HTTP and give the public address of its TMS."""
    late = _Late()
    server = make_server("127.0.0.1", 0, late, threaded=True)
    url = f"http://127.0.0.1:{server.server_port}"
    late.application = create_application(str(install_at(url)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"{url}/tms/1.0.0"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        late.application.site.catalogue.storages.close()
