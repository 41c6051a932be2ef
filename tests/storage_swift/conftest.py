import os
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from mastaba_conformance.object_server import (
    DOMAIN_ID,
    PROJECT_ID,
    SWIFT_PASSWORD,
    SWIFT_USER,
    ObjectServer,
)
from mastaba_storage.environment import Environment
from mastaba_storage_swift.storage import SwiftStorage

OpenContainer = Callable[..., SwiftStorage]


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove settings of the machine for proxies and OpenStack."""
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in [name for name in os.environ if name.startswith("OS_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as server:
        server.make_container("maps")
        yield server


@pytest.fixture(params=["native", "keystone"])
def authentication(request: pytest.FixtureRequest) -> str:
    """The kind of authentication that `open_container` uses."""
    return str(request.param)


@pytest.fixture
def open_container(authentication: str, server: ObjectServer) -> OpenContainer:
    """Opens a container of the server; keyword arguments override the valid variables."""
    account, _, user = SWIFT_USER.partition(":")
    valid = {"SWIFT_USER": user, "SWIFT_PASSWD": SWIFT_PASSWORD}
    if authentication == "native":
        valid |= {"SWIFT_ACCOUNT": account}
    else:
        valid |= {"KEYSTONE_DOMAINID": DOMAIN_ID, "KEYSTONE_PROJECTID": PROJECT_ID}
    path = "/auth/v1.0" if authentication == "native" else "/v3/auth/tokens"

    @cache
    def environment(variables: tuple[tuple[str, str], ...]) -> Environment:
        return Environment({f"MASTABA_{name}": value for name, value in variables})

    def open_container(
        container: str = "maps", url: str = server.url, **variables: str
    ) -> SwiftStorage:
        urls = {"SWIFT_AUTHURL": url + path, "SWIFT_PUBLICURL": f"{url}/v1/AUTH_account"}
        given = {**valid, **urls, **variables}
        return SwiftStorage.open(container, environment(tuple(given.items())))

    return open_container
