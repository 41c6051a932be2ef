"""The status in the body of a report is that of the response, whatever refuses the request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials
from tests.support.everything import SERVICES, everything
from werkzeug.test import Client

from mastaba.api.tools import Application
from mastaba.errors import (
    AccessError,
    MastabaError,
    OverloadedError,
    RequestTooLargeError,
    StorageUnavailableError,
    UnknownCredentialError,
    UnknownPathError,
    UnsupportedOperationError,
)

ERRORS: dict[str, Callable[[], Exception]] = {
    "credential": lambda: UnknownCredentialError("unknown"),
    "missing": lambda: AccessError("a credential is required"),
    "forbidden": lambda: AccessError("not allowed", 403),
    "rate": lambda: AccessError("too many", 429, retry_after=3),
    "ambiguous": lambda: AccessError("two readings", 400),
    "path": lambda: UnknownPathError("nothing"),
    "method": lambda: UnsupportedOperationError("not here"),
    "large": lambda: RequestTooLargeError("too large"),
    "busy": lambda: OverloadedError("busy", retry_after=3),
    "storage": lambda: StorageUnavailableError("away"),
    "internal": lambda: MastabaError("broken"),
}
STATUSES = {"credential": 401, "missing": 401, "forbidden": 403, "rate": 429, "busy": 503}


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(scope="module")
def application(credentials: Credentials, tmp_path_factory: pytest.TempPathFactory) -> Application:
    return everything(tmp_path_factory.mktemp("everything"), credentials)


def statuses_in(text: str) -> set[int]:
    """Return what a report says about its status."""
    try:
        document = json.loads(text)
    except ValueError:
        return {int(one) for one in re.findall(r"\b[45]\d\d\b", text)}
    nested = document.get("error", {})
    parts = [document, nested] if isinstance(nested, dict) else [document]
    found = [part.get(name) for part in parts for name in ("status", "code")]
    return {int(one) for one in found if str(one).isdecimal()}


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("kind", ERRORS)
def test_body_and_status_agree(
    application: Application,
    credentials: Credentials,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    kind: str,
) -> None:
    client = Client(application, use_cookies=False)
    service = application.site.services[name]
    key = {"X-API-Key": credentials.key()}

    def fail(*args: Any) -> Any:
        raise ERRORS[kind]()

    monkeypatch.setattr(type(service), "respond", fail)
    for headers in ({}, key):
        answer = client.get(service.settings.root_path, headers=headers)
        expected = STATUSES.get(kind)
        if expected == 401 and headers:
            expected = 403  # the client is known
        assert expected in (None, answer.status_code)
        assert statuses_in(answer.text) <= {answer.status_code}, answer.text


@pytest.mark.parametrize("name", SERVICES)
def test_body_and_status_agree_for_a_wrong_key(application: Application, name: str) -> None:
    service = application.site.services[name]
    client = Client(application, use_cookies=False)
    answer = client.get(service.settings.root_path, headers={"X-API-Key": "mk_wrong"})
    assert statuses_in(answer.text) <= {answer.status_code}, answer.text


def test_a_refused_list_of_services_is_no_bad_request(application: Application) -> None:
    answer = Client(application, use_cookies=False).get("/", headers={"X-API-Key": "mk_wrong"})
    assert (answer.status_code, answer.json["error"]) == (401, "Unauthorized")


def test_details_of_the_server_say_what_is_missing(
    application: Application, credentials: Credentials
) -> None:
    client = Client(application, use_cookies=False)
    for headers, status in (({}, 401), ({"X-API-Key": credentials.key()}, 403)):
        answer = client.get("/healthcheck/info", headers=headers)
        assert answer.status_code == answer.json["code"] == status
        assert client.get("/healthcheck/x", headers=headers).json["code"] == 404
