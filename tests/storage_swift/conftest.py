from collections.abc import Callable, Iterator

import pytest

from mastaba.environment import Environment
from mastaba_conformance.object_server import (
    DOMAIN_ID,
    PROJECT_ID,
    SWIFT_PASSWORD,
    SWIFT_USER,
    ObjectServer,
)
from mastaba_storage_swift.storage import SwiftStorage
from mastaba_storage_swift.tokens import shared_tokens

OpenContainer = Callable[..., SwiftStorage]


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove proxy settings of the machine and cached tokens of other tests."""
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    yield
    shared_tokens.cache_clear()


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as server:
        server.make_container("maps")
        yield server


@pytest.fixture(params=["native", "keystone"])
def open_container(request: pytest.FixtureRequest, server: ObjectServer) -> OpenContainer:
    """Opens a container of the server; keyword arguments override the valid variables."""
    account, _, user = SWIFT_USER.partition(":")
    valid = {"SWIFT_USER": user, "SWIFT_PASSWD": SWIFT_PASSWORD}
    if request.param == "native":
        valid |= {"SWIFT_ACCOUNT": account}
    else:
        valid |= {"KEYSTONE_DOMAINID": DOMAIN_ID, "KEYSTONE_PROJECTID": PROJECT_ID}
    path = "/auth/v1.0" if request.param == "native" else "/v3/auth/tokens"

    def open_container(
        container: str = "maps", url: str = server.url, **variables: str
    ) -> SwiftStorage:
        urls = {"SWIFT_AUTHURL": url + path, "SWIFT_PUBLICURL": f"{url}/v1/AUTH_account"}
        given = {**valid, **urls, **variables}
        return SwiftStorage.open(
            container, Environment({f"MASTABA_{name}": value for name, value in given.items()})
        )

    return open_container
