"""Fixtures for all tests; those of one distribution lie in its own folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.test import Client

from mastaba.testing.tiny_installation import tiny_installation
from mastaba.wsgi import create_application

REPOSITORY = Path(__file__).parents[1]


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
def client(tiny: Path) -> Iterator[Client]:
    """Return a client of the tiny installation, with every service that is installed."""
    application = create_application(str(tiny))
    yield Client(application)
    application.site.catalogue.storages.close()
