import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cache

import pytest

from mastaba.environment import Environment
from mastaba.storage.base import Storage
from mastaba_conformance.object_server import ObjectServer
from mastaba_conformance.storage import ObjectWriter, StorageTests
from mastaba_conformance.storage.faults import FaultTests
from mastaba_conformance.storage.kit import StorageKit
from mastaba_conformance.storage.ranges import RangeTests
from mastaba_conformance.storage.reads import ReadTests
from mastaba_conformance.storage.sequences import SequenceTests
from mastaba_conformance.storage.threads import ThreadTests
from mastaba_conformance.storage.versions import VersionTests
from mastaba_storage_s3.storage import S3Storage


class Bucket:
    def __init__(self, server: ObjectServer) -> None:
        self._server = server

    def put(self, key: str, data: bytes) -> None:
        self._server.put("maps", key, data)

    def delete(self, key: str) -> None:
        self._server.delete("maps", key)


@cache
def environment(variables: tuple[tuple[str, str], ...]) -> Environment:
    """Return the same environment for equal variables: each has its own boto3 client."""
    return Environment({f"MASTABA_{name}": value for name, value in variables})


def open_bucket(url: str, **variables: str) -> S3Storage:
    given = {"S3_URL": url, "S3_KEY": "key", "S3_SECRETKEY": "secret", **variables}
    return S3Storage.open("maps", environment(tuple(given.items())))


class Fixtures(StorageKit):
    """Buckets of one server: each new server would need another client of boto3."""

    forks_while_reading = True
    # The buckets of a cluster share a client of boto3.
    shares_connections = True
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
    def storage(self, server: ObjectServer) -> Storage:
        return open_bucket(server.url)

    @pytest.fixture
    def writer(self, server: ObjectServer) -> ObjectWriter:
        return Bucket(server)

    @pytest.fixture
    def outage(self, server: ObjectServer) -> Callable[[], AbstractContextManager[None]]:
        return server.outage

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

    level = "reads"
    # No other request than those that are tested with the other version.
    holds_large_objects = False

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
