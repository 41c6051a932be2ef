"""Installations that the tests of TMS ask for tiles and documents."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.tiny import tiny_installation
from werkzeug.test import Client

PUBLIC_URL = "http://maps.example"

OpenClient = Callable[[Path], Client]
Serving = Callable[[Callable[[str], Path]], AbstractContextManager[str]]


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
