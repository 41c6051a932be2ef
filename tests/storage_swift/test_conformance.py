import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from mastaba.storage.base import Storage
from mastaba_conformance.object_server import ObjectServer
from mastaba_conformance.storage import ObjectWriter, StorageTests
from mastaba_conformance.storage.faults import FaultTests
from mastaba_conformance.storage.forks import ForkTests
from mastaba_conformance.storage.kit import StorageKit
from mastaba_conformance.storage.reads import ReadTests


class Container:
    def __init__(self, server: ObjectServer) -> None:
        self._server = server

    def put(self, key: str, data: bytes) -> None:
        self._server.put("maps", key, data)

    def delete(self, key: str) -> None:
        self._server.delete("maps", key)


class Fixtures(StorageKit):
    """Containers of one server, each with a token of its own."""

    # The connection to the authentication server belongs to all containers of an account.
    shares_connections = True
    forks_while_reading = True
    # The live tests try 60 sequences and 25 repetitions with each real server.
    examples = 8
    repeats = 5

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls) -> Iterator[ObjectServer]:
        with ObjectServer() as server:
            server.make_container("maps")
            yield server

    @pytest.fixture
    def storage(self, open_container: Callable[..., Storage]) -> Storage:
        return open_container()

    @pytest.fixture
    def writer(self, server: ObjectServer) -> ObjectWriter:
        return Container(server)

    @pytest.fixture
    def outage(self, server: ObjectServer) -> Callable[[], AbstractContextManager[None]]:
        return server.outage

    @pytest.fixture
    def open_refused(self, open_container: Callable[..., Storage]) -> Callable[[], Storage]:
        return lambda: open_container(SWIFT_PASSWD="wrong")

    @pytest.fixture
    def open_unreachable(self, open_container: Callable[..., Storage]) -> Callable[[], Storage]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        return lambda: open_container(url=url)

    @pytest.fixture
    def open_silent(
        self, open_container: Callable[..., Storage]
    ) -> Iterator[Callable[[], Storage]]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/AUTH_account"
            yield lambda: open_container(SWIFT_PUBLICURL=url, NETWORK_TIMEOUT="1")


class TestSwiftStorage(Fixtures, StorageTests):
    @pytest.fixture
    def authentication(self) -> str:
        return "keystone"


class TestNativeAuthentication(Fixtures, ReadTests, FaultTests, ForkTests):
    """Levels whose requests fetch and renew tokens."""

    level = "reads"
    # Whatever the token is, these make the requests that are tested with Keystone.
    holds_large_objects = False
    forks_while_reading = False

    @pytest.fixture
    def authentication(self) -> str:
        return "native"
