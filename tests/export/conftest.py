"""One installation for all tests of exports, which change nothing in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.export.ground import opened, write_world

from mastaba.api.services import Site


@pytest.fixture(autouse=True)
def without_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what waits for the files of all other programs of this machine."""
    monkeypatch.setattr(os, "sync", lambda: None)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def site(world: Path) -> Iterator[Site]:
    found = opened(world)
    yield found
    found.catalogue.storages.close()
