"""Applications of the core alone, with a test service that returns stored tiles."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest
from werkzeug.test import Client

from mastaba import hookimpl
from mastaba.errors import (
    RequestError,
    TileNotFoundError,
    TileOutOfRangeError,
    UnknownNameError,
    public_message,
)
from mastaba.plugins.manager import Plugins
from mastaba.services.base import Service
from mastaba.site.application import Application
from mastaba.tiles.stored import TilePublisher
from mastaba.wsgi import create_application
from mastaba_conformance.tiny_installation import tiny_installation
from mastaba_server.web.request import Request
from mastaba_server.web.response import Response, message
from mastaba_writer.installation import write_installation

# Some of these tests also run without a renderer (tests/live/test_isolation.py).
RENDERER = {"render": import_module("mastaba_render.plugin")} if find_spec("mastaba_render") else {}


class TileService(Service):
    """Answers ``/tiles/LAYER/STYLE/LEVEL/ROW/COL``."""

    name: ClassVar[str] = "tiles"
    title: ClassVar[str] = "Stored tiles"

    def respond(self, request: Request) -> Response:
        try:
            _, name, style, level, row, col = request.path.split("/")
            layer = self.site.catalogue.layers[name]
            reader = self.site.catalogue.readers[name][level]
        except (ValueError, KeyError) as error:
            raise UnknownNameError("no such tile") from error
        return TilePublisher(layer, reader, layer.style(style)).respond(request, int(row), int(col))

    def error_response(self, error: Exception, request: Request) -> Response:
        if isinstance(error, TileNotFoundError | TileOutOfRangeError):
            return message(404, public_message(error), "text/plain")
        status = 400 if isinstance(error, RequestError) else 500
        return message(status, public_message(error), "text/plain")


class CorePlugin:
    """Provides the services that a test gives."""

    def __init__(self, *services: type[Service]) -> None:
        self._services = services

    @hookimpl
    def register_services(self) -> Sequence[type[Service]]:
        return self._services


OpenApplication = Callable[..., Application]


@pytest.fixture(scope="session")
def tiny_layers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the layer documents of a tiny installation whose slabs do not change."""
    directory = tmp_path_factory.mktemp("tiny-layers")
    tiny_installation(directory)
    return {
        path.stem: json.loads(path.read_text("utf-8"))
        for path in sorted((directory / "layers").glob("*.json"))
    }


@pytest.fixture
def open_application(tmp_path: Path, tiny_layers: dict[str, Any]) -> Iterator[OpenApplication]:
    """Return a function that opens an installation, with services of the test's own.

    It takes the server.json (with None, one is written that has the layers of the tiny
    installation), the classes of further services, and sections of services.json that are
    merged into the written ones.
    """
    opened: list[Application] = []

    def open_it(
        server_json: Path | None = None,
        *services: type[Service],
        services_overrides: Mapping[str, Any] | None = None,
    ) -> Application:
        classes = (TileService, *services)
        if server_json is None:
            sections = {service.name: {"enabled": True} for service in classes}
            server_json = write_installation(
                tmp_path / f"installation-{len(opened)}",
                layers=tiny_layers,
                services=["health"],
                services_overrides={**sections, **(services_overrides or {})},
            )
        plugins = Plugins(
            autoload=False,
            extra={**RENDERER, "of-the-test": CorePlugin(*classes)},
        )
        application = create_application(str(server_json), plugins)
        opened.append(application)
        return application

    yield open_it
    for application in opened:
        application.site.catalogue.storages.close()


@pytest.fixture
def tiles(tmp_path: Path, open_application: OpenApplication) -> Client:
    """Return a client of a separate tiny installation, whose slabs a test may damage."""
    server_json = tiny_installation(
        tmp_path / "own",
        services=["health"],
        services_overrides={"tiles": {"enabled": True}},
    )
    return Client(open_application(server_json))
