import socket
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from tests.object_stores import OneServer

from mastaba_conformance.object_server import ObjectServer
from mastaba_conformance.storage import StorageTests
from mastaba_conformance.storage.faults import FaultTests
from mastaba_conformance.storage.ranges import RangeTests
from mastaba_conformance.storage.reads import ReadTests
from mastaba_conformance.storage.sequences import SequenceTests
from mastaba_conformance.storage.threads import ThreadTests
from mastaba_conformance.storage.versions import VersionTests
from mastaba_storage.base import Storage
from mastaba_storage.environment import Environment
from mastaba_storage_s3.storage import S3Storage


@cache
def environment(variables: tuple[tuple[str, str], ...]) -> Environment:
    """Return the same environment for equal variables: each has its own boto3 client."""
    return Environment({f"MASTABA_{name}": value for name, value in variables})


def open_bucket(url: str, **variables: str) -> S3Storage:
    given = {"S3_URL": url, "S3_KEY": "key", "S3_SECRETKEY": "secret", **variables}
    return S3Storage.open("maps", environment(tuple(given.items())))


class Fixtures(OneServer):
    """Buckets of one server: each new server would need another client of boto3."""

    # The buckets of a cluster share a client of boto3.
    shares_connections = True

    @pytest.fixture
    def storage(self, server: ObjectServer) -> Storage:
        return open_bucket(server.url)

    @pytest.fixture(params=[{"S3_SECRETKEY": "wrong"}, {"S3_KEY": "unknown"}])
    def open_refused(
        self, server: ObjectServer, request: pytest.FixtureRequest
    ) -> Callable[[], Storage]:
        return lambda: open_bucket(server.url, **request.param)

    @pytest.fixture
    def open_unreachable(self) -> Callable[[], Storage]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        return lambda: open_bucket(f"http://127.0.0.1:{port}")

    @pytest.fixture
    def open_silent(self) -> Iterator[Callable[[], Storage]]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            yield lambda: open_bucket(url, NETWORK_TIMEOUT="1")


class TestS3Storage(Fixtures, StorageTests):
    pass


class TestSignatureVersion2(Fixtures, ReadTests, RangeTests, FaultTests):
    """Levels whose requests differ in what is signed."""

    quick = (
        "test_whole_object",
        "test_range",
        "test_stat",
        "test_keys_are_used_unchanged",
        "test_invalid_credentials_are_refused",
    )
    level = "reads"

    @pytest.fixture
    def storage(self, server: ObjectServer) -> Storage:
        return open_bucket(server.url, S3_SIGNATURE_VERSION="2")


class TestServerThatIgnoresConditions(Fixtures, VersionTests, ThreadTests, SequenceTests):
    """Levels in which objects change while they are read."""

    level = "versions"

    @pytest.fixture
    def storage(self, server: ObjectServer) -> Storage:
        server.ignores_conditions = True
        return open_bucket(server.url)
