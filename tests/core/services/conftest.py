"""A site without data that has fictitious services in addition to the built-in ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from werkzeug.test import Client

import mastaba_render.plugin
from mastaba import hookimpl
from mastaba.plugins.manager import Plugins
from mastaba.services.base import RootEntry, Service, Site
from mastaba.site.application import Application
from mastaba.wsgi import create_application
from mastaba_server.web.request import Request
from mastaba_server.web.response import Response, message
from mastaba_writer.installation import write_installation

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


class Paged(_Protocol):
    name: ClassVar[str] = "paged"

    def page_uri(self) -> str:
        return self.settings.endpoint_uri


class _Plugin:
    @hookimpl
    def register_services(self) -> list[type[Service]]:
        return [Late, Early, Unlisted, Paged]


SiteFactory = Callable[..., Site]


@pytest.fixture
def make_site(tmp_path: Path) -> SiteFactory:
    """Return a function that creates sites without layers.

    It takes the names of services to enable in addition to root and health, their common title,
    whether services are turned on, and fields of `Catalogue` to replace.
    """

    def make(
        services: Sequence[str] = (),
        *,
        title: str = "A title",
        enabled: bool = True,
        **fields: Any,
    ) -> Site:
        plugins = Plugins(
            autoload=False, extra={"render": mastaba_render.plugin, "made-up": _Plugin()}
        )
        titles: dict[str, Any] = {name: {"title": title} for name in services}
        server_json = write_installation(
            tmp_path,
            layers={},
            services=["health", *services],
            public_url="http://maps.example",
            services_overrides={"enabled": enabled, **titles},
            server_overrides={"threads": 2},
        )
        # An empty file would be refused; an empty line is a valid list without layers.
        (tmp_path / "layers.txt").write_text("\n")
        site = create_application(str(server_json), plugins).site
        site.catalogue = replace(site.catalogue, **fields)
        site.started = STARTED
        site.main_pid = MAIN_PID
        return site

    return make


@pytest.fixture
def open_client(make_site: SiteFactory) -> Callable[..., Client]:
    """Return a function that creates clients; it takes the arguments of `make_site`."""

    def open_site(*arguments: Any, **fields: Any) -> Client:
        return Client(Application(make_site(*arguments, **fields)))

    return open_site
