"""A site without data, with made-up services beside the built-in ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest
from werkzeug.test import Client

from mastaba.catalogue import Catalogue, Settings
from mastaba.environment import Environment
from mastaba.hookspecs import hookimpl
from mastaba.http.app import Application
from mastaba.http.request import Request
from mastaba.http.response import Response, message
from mastaba.plugins import Plugins
from mastaba.scoreboard import Scoreboard
from mastaba.service import RootEntry, Service, ServiceSettings, Site
from mastaba.slab.index_cache import IndexCache
from mastaba.storage.pool import StoragePool

STARTED = 1_700_000_000.75
MAIN_PID = 4711


class _Protocol(Service):
    title: ClassVar[str] = "A protocol"

    def respond(self, request: Request) -> Response:
        return message(200, "here", "text/plain")

    def error_response(self, error: Exception, request: Request) -> Response:
        return message(400, "error", "text/plain")


class Late(_Protocol):
    name: ClassVar[str] = "aaa"

    def root_entry(self) -> RootEntry:
        href = self.settings.endpoint_uri
        return RootEntry(40, "Late", "1.0", href, f"{href}/collections?f=json", "application/json")


class Early(_Protocol):
    name: ClassVar[str] = "zzz"

    def root_entry(self) -> RootEntry:
        return RootEntry(10, "Early", "1.3.0", f"{self.settings.endpoint_uri}?A=1&B=2")


class Unlisted(_Protocol):
    name: ClassVar[str] = "unlisted"


class _Plugin:
    @hookimpl
    def register_services(self) -> list[type[Service]]:
        return [Late, Early, Unlisted]


SiteFactory = Callable[..., Site]


@pytest.fixture
def make_site() -> SiteFactory:
    """Return a maker of sites; it takes names of services and fields of `Catalogue`."""

    def make(services: Sequence[str] = (), title: str = "A title", **fields: Any) -> Site:
        plugins = Plugins(autoload=False, extra={"made-up": _Plugin()})
        settings = {
            name: ServiceSettings(
                f"http://maps.example/{name}",
                {"root": "", "health": "/healthcheck"}.get(name, f"/{name}"),
                title,
                "",
            )
            for name in ("root", "health", *services)
        }
        catalogue = Catalogue(
            **{
                "settings": Settings(),
                "services": settings,
                "layers": {},
                "readers": {},
                "tile_matrix_sets": {},
                "styles": {},
                "storages": StoragePool(plugins.storages, Environment({})),
                "indices": IndexCache(1, 1.0),
                **fields,
            }
        )
        scoreboard = Scoreboard(workers=1, threads=2)
        scoreboard.bind_worker(0)
        site = Site(catalogue, plugins, scoreboard, STARTED, MAIN_PID)
        site.open_services()
        return site

    return make


@pytest.fixture
def open_client(make_site: SiteFactory) -> Callable[..., Client]:
    """Return a maker of clients; it takes the arguments of `make_site`."""

    def open_it(*arguments: Any, **fields: Any) -> Client:
        return Client(Application(make_site(*arguments, **fields)))

    return open_it
