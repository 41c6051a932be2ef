"""Fixtures for all tests; those of one distribution lie in its own folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from werkzeug.test import Client

from mastaba.http.app import Application
from mastaba.testing.serving import serving_installation
from mastaba.testing.tiny_installation import tiny_installation
from mastaba.wsgi import create_application

REPOSITORY = Path(__file__).parents[1]

OpenClient = Callable[[Path], Client]
Serving = Callable[[Callable[[str], Path]], AbstractContextManager[str]]


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the root of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real pyramids, answers and schemas; skip without it."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the real pyramids are not beside the repository ({folder})")
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the server.json of an installation with one layer per kind of pyramid."""
    return tiny_installation(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def client(tiny: Path, open_client: OpenClient) -> Client:
    """Return a client of the tiny installation, with every service that is installed."""
    return open_client(tiny)


@pytest.fixture(scope="session")
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


@pytest.fixture
def alps(shared_data: Path, monkeypatch: pytest.MonkeyPatch, open_client: OpenClient) -> Client:
    """Return a client of the real pyramids; their paths are relative to their folder."""
    monkeypatch.chdir(shared_data / "alps")
    return open_client(Path("conf/server.json"))


@pytest.fixture(scope="session")
def serving() -> Serving:
    """Return a context manager that serves an installation over HTTP.

    It takes a function that writes the installation for a public address, and gives the address.
    """
    return serving_installation


@pytest.fixture
def gdal_environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of GDAL's commands: no proxy between, and no cache left behind."""
    return {
        "PATH": "/usr/bin:/bin",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "GDAL_DEFAULT_WMS_CACHE_PATH": str(tmp_path / "gdalwmscache"),
    }
