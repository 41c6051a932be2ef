"""One installation for all tests that change nothing in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.test import Client

from mastaba.api.tools import Application


@pytest.fixture(scope="session")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Application, Client]]:
    from tests.container_pmtiles.archived import archived_installation, opened

    with pytest.MonkeyPatch.context() as patch:
        # It waits for the files of all other programs of this machine.
        patch.setattr(os, "sync", lambda: None)
        server: Path = archived_installation(tmp_path_factory.mktemp("archived"))
    application, client = opened(server)
    yield application, client
    application.site.catalogue.storages.close()
