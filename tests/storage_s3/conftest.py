import os
from collections.abc import Iterator

import pytest

from mastaba_conformance.object_server import ObjectServer


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove settings of the machine for proxies and AWS from the environment."""
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as server:
        server.make_container("maps")
        yield server
