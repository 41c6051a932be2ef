"""A server loads the renderer at start only if a service says that it draws maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from mastaba.services.base import Service
from mastaba.site.application import Application
from mastaba_server.web.request import Request
from mastaba_server.web.response import Response, message


class Plain(Service):
    """Says nothing about maps."""

    name: ClassVar[str] = "plain"
    title: ClassVar[str] = "Plain"

    def respond(self, request: Request) -> Response:
        return message(200, "plain", "text/plain")

    def error_response(self, error: Exception, request: Request) -> Response:
        return message(500, "error", "text/plain")


class Drawing(Plain):
    name: ClassVar[str] = "drawing"
    draws_maps: ClassVar[bool] = True


def test_only_services_that_say_so_draw_maps(open_application: Callable[..., Application]) -> None:
    assert not open_application(None, Plain).site.draws_maps
    assert open_application(None, Plain, Drawing).site.draws_maps
