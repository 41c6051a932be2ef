"""Applications served over HTTP while a test runs."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

import pytest

from mastaba_conformance.serving import serving, serving_installation
from mastaba_conformance.tiny_installation import tiny_installation


def fetch(url: str) -> bytes:
    with build_opener(ProxyHandler({})).open(url) as response:
        content: bytes = response.read()
    return content


def test_application_knows_its_url_and_stops_listening() -> None:
    def application_at(url: str) -> Any:
        def application(environ: Any, start_response: Any) -> list[bytes]:
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [f"{url}{environ['PATH_INFO']}".encode()]

        return application

    with serving(application_at) as url:
        assert fetch(f"{url}/a") == f"{url}/a".encode()
    parts = urlsplit(url)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((parts.hostname, parts.port))


def test_installation_uses_the_public_url(tmp_path: Path) -> None:
    def write(url: str) -> Path:
        return tiny_installation(tmp_path, services=["tms"], public_url=url)

    with serving_installation(write) as url:
        document = json.loads(fetch(f"{url}/tms/1.0.0/RGB_PNG/metadata.json"))
    assert all(address.startswith(f"{url}/tms/1.0.0/") for address in document["tiles"])


def test_failed_creation_of_the_application_closes_the_server() -> None:
    def application_at(url: str) -> Any:
        raise LookupError(url)

    with pytest.raises(LookupError), serving(application_at):
        pass
