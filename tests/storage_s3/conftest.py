from collections.abc import Iterator

import pytest

from mastaba_conformance.object_server import ObjectServer


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove proxy settings of the machine from the environment."""
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as server:
        server.make_container("maps")
        yield server
