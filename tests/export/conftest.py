"""One installation for all tests of exports, which change nothing in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.export.ground import opened, write_world

from mastaba.api.services import Site


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def site(world: Path) -> Iterator[Site]:
    found = opened(world)
    yield found
    found.catalogue.storages.close()
