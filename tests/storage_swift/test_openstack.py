"""Credentials in the variables OS_* of OpenStack."""

from __future__ import annotations

import pytest

from mastaba.errors import AccessDeniedError, StorageError, StorageUnavailableError
from mastaba_conformance.object_server import (
    APPLICATION_ID,
    DOMAIN_ID,
    PROJECT_ID,
    SWIFT_PASSWORD,
    SWIFT_USER,
    Faults,
    ObjectServer,
)
from mastaba_storage.base import ByteRange
from mastaba_storage.environment import Environment
from mastaba_storage_swift.storage import SwiftStorage

DATA = b"0123456789"

PASSWORD = {
    "OS_AUTH_TYPE": "v3password",
    "OS_USERNAME": SWIFT_USER.partition(":")[2],
    "OS_PASSWORD": SWIFT_PASSWORD,
    "OS_USER_DOMAIN_ID": DOMAIN_ID,
    "OS_PROJECT_ID": PROJECT_ID,
}
APPLICATION = {
    "OS_AUTH_TYPE": "v3applicationcredential",
    "OS_APPLICATION_CREDENTIAL_ID": APPLICATION_ID,
    "OS_APPLICATION_CREDENTIAL_SECRET": SWIFT_PASSWORD,
}
NATIVE = {
    "OS_AUTH_TYPE": "v1password",
    "OS_USERNAME": SWIFT_USER,
    "OS_PASSWORD": SWIFT_PASSWORD,
}


@pytest.fixture(autouse=True)
def _object(server: ObjectServer) -> None:
    server.put("maps", "k", DATA)


@pytest.fixture(params=[PASSWORD, APPLICATION, NATIVE], ids=lambda given: given["OS_AUTH_TYPE"])
def variables(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> dict[str, str]:
    """Set the variables OS_*; return those of Mastaba."""
    is_native = request.param is NATIVE
    monkeypatch.setenv("OS_AUTH_URL", server.url + ("/auth/v1.0" if is_native else "/v3"))
    for name, value in request.param.items():
        monkeypatch.setenv(name, value)
    return {"MASTABA_SWIFT_PUBLICURL": f"{server.url}/v1/AUTH_account"} if is_native else {}


def test_tiles_are_read_and_an_expired_token_is_replaced(
    server: ObjectServer, variables: dict[str, str]
) -> None:
    storage = SwiftStorage.open("maps", Environment(variables))
    assert storage.read("k").data == DATA
    server.forget_tokens()
    assert storage.read("k", ByteRange(2, 3)).data == b"234"
    assert server.count("GET", "/auth/") + server.count("POST", "/v3/") == 2


def test_truncated_objects_are_reported(server: ObjectServer, variables: dict[str, str]) -> None:
    storage = SwiftStorage.open("maps", Environment(variables))
    server.faults = Faults(truncations=1)
    for byte_range in (None, ByteRange(0, 10)):
        with pytest.raises(StorageUnavailableError):
            storage.read("k", byte_range)


def test_refused_credentials_are_reported(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_PASSWORD", "must-not-be-shown")
    monkeypatch.setenv("OS_APPLICATION_CREDENTIAL_SECRET", "must-not-be-shown")
    with pytest.raises(AccessDeniedError, match=r"access denied.*OS_\*") as caught:
        SwiftStorage.open("maps", Environment(variables))
    assert "must-not" not in str(caught.value)


def test_variables_of_mastaba_come_first(
    server: ObjectServer, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_AUTH_URL", "http://127.0.0.1:1")
    account, _, user = SWIFT_USER.partition(":")
    own = {
        "MASTABA_SWIFT_AUTHURL": f"{server.url}/auth/v1.0",
        "MASTABA_SWIFT_PUBLICURL": f"{server.url}/v1/AUTH_account",
        "MASTABA_SWIFT_USER": user,
        "MASTABA_SWIFT_PASSWD": SWIFT_PASSWORD,
        "MASTABA_SWIFT_ACCOUNT": account,
    }
    assert SwiftStorage.open("maps", Environment(own)).read("k").data == DATA


@pytest.mark.parametrize(
    "changes", [{"OS_AUTH_TYPE": "nothing"}, {"OS_USERNAME": ""}, {"OS_REGION_NAME": "elsewhere"}]
)
def test_unusable_variables_are_reported(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]
) -> None:
    for name, value in {**PASSWORD, "OS_AUTH_URL": f"{server.url}/v3", **changes}.items():
        if value:
            monkeypatch.setenv(name, value)
    with pytest.raises(StorageError, match=r"check the variables OS_\*"):
        SwiftStorage.open("maps", Environment({}))
