import socket
from collections.abc import Callable, Iterator

import pytest
from tests.object_stores import OneServer

from mastaba_conformance.storage import StorageTests
from mastaba_conformance.storage.faults import FaultTests
from mastaba_conformance.storage.forks import ForkTests
from mastaba_conformance.storage.reads import ReadTests
from mastaba_storage.base import Storage


class Fixtures(OneServer):
    """Containers of one server, each with a token of its own."""

    # The connection to the authentication server belongs to all containers of an account.
    shares_connections = True

    @pytest.fixture
    def storage(self, open_container: Callable[..., Storage]) -> Storage:
        return open_container()

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

    quick = (
        "test_whole_object",
        "test_stat",
        "test_invalid_credentials_are_refused",
        "test_child_process_can_read",
    )
    level = "reads"

    @pytest.fixture
    def authentication(self) -> str:
        return "native"
