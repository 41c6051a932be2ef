"""``mastaba check`` lists what services say, and reports those that fail to."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.tiny import tiny_installation

from mastaba import hookimpl
from mastaba.plugins.manager import Plugins
from mastaba.services.base import Service
from mastaba_doctor.commands import check
from mastaba_server.web.request import Request
from mastaba_server.web.response import Response


class Greeting(Service):
    name, title = "greeting", "Greeting"

    def respond(self, _request: Request) -> Response:
        return Response(204, [], b"")

    def error_response(self, error: Exception, _request: Request) -> Response:
        raise error

    def summary(self) -> Sequence[str]:
        raise KeyError("k")


class Plugin:
    @hookimpl
    def register_services(self) -> list[type[Service]]:
        return [Greeting]


def test_a_service_that_fails_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tiny_installation(tmp_path, services=["tms", "greeting"])
    plugins = Plugins(extra={"greeting": Plugin()})
    options = Namespace(file=str(file), plugins=plugins, samples=None, deep=False, format="text")
    assert check.run(options) == 1
    printed = capsys.readouterr().out
    assert "the service 'greeting' fails in summary: KeyError: 'k'" in printed
    assert "Traceback" not in printed


def test_virtual_services_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    virtual = {
        "grey": {"layers": ["GREY_*"], "services": {"tms": {}}},
        "none": {"layers": ["NO_*"], "services": {"tms": {}}},
    }
    file = tiny_installation(tmp_path, services_overrides={"virtual": virtual})
    options = Namespace(file=str(file), plugins=Plugins(), samples=None, deep=False, format="text")
    assert check.run(options) == 0
    printed = capsys.readouterr().out
    assert "virtual service grey: 1 layers" in printed
    assert "tms: http://localhost/tms/v/grey" in printed
    assert "$.virtual.none.layers" in printed
    assert "matches no layer" in printed
