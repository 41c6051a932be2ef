"""Mastaba as an application of any WSGI server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from wsgiref.validate import validator

import pytest
from werkzeug.test import Client

import mastaba.wsgi
from mastaba.errors import ConfigurationError
from mastaba.wsgi import create_application


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    monkeypatch.delenv("MASTABA_SERVER", raising=False)
    monkeypatch.delenv("ROK4_SERVER", raising=False)
    yield sys.modules["mastaba.wsgi"]
    vars(mastaba.wsgi).pop("application", None)


def test_attribute_application_is_made_of_the_file_that_the_environment_names(
    module: object, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTABA_SERVER", str(tiny))
    application = mastaba.wsgi.application

    assert Client(application).get("/healthcheck").status_code == 200
    assert mastaba.wsgi.application is application


def test_attribute_application_without_the_variable_says_what_to_set(module: object) -> None:
    with pytest.raises(RuntimeError, match="MASTABA_SERVER"):
        mastaba.wsgi.application  # noqa: B018


def test_other_attributes_are_unknown(module: object) -> None:
    with pytest.raises(AttributeError, match="nothing"):
        mastaba.wsgi.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_invalid_configuration_raises_an_error_with_every_problem(tmp_path: Path) -> None:
    server_json = tmp_path / "server.json"
    server_json.write_text('{"threads": 0, "configurations": {}}')

    with pytest.raises(ConfigurationError) as caught:
        create_application(str(server_json))
    assert len(caught.value.faults) == 4


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
@pytest.mark.parametrize("path", ["/", "/healthcheck", "/unknown"])
def test_application_keeps_to_the_wsgi_standard(method: str, path: str, tiny: Path) -> None:
    # The validator raises on every departure from PEP 3333.
    client = Client(validator(create_application(str(tiny))))
    response = client.open(path, method=method, buffered=True)
    assert response.status_code in (200, 204, 404, 405)
