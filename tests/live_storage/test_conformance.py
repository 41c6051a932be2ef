"""The contract of storage drivers, tested with real object stores."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.live_storage.conftest import Store, ceph_writer, s3_writer, swift_writer
from tests.sizes import sized

from mastaba_conformance.storage import ObjectWriter, StorageTests
from mastaba_storage.base import Storage
from mastaba_storage.writable import WritableStorage
from mastaba_storage_ceph.storage import CephStorage
from mastaba_storage_ceph.writer import CephWriter
from mastaba_storage_s3.storage import S3Storage
from mastaba_storage_s3.writer import S3Writer
from mastaba_storage_swift.storage import SwiftStorage
from mastaba_storage_swift.writer import SwiftWriter


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def silent_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


class StoreTests(StorageTests):
    # The stores run on the same machine as the tests, which may be busy.
    time_limit = 240.0
    examples = sized(20, 60)
    repeats = sized(10, 25)


class FewerRepetitions:
    """For a driver that another class tests with all repetitions."""

    examples = sized(6, 15)
    repeats = sized(4, 8)


class S3Tests(StoreTests):
    # The buckets of a cluster share a client of boto3.
    shares_connections = True

    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError

    @pytest.fixture
    def writer(self, store: Store) -> ObjectWriter:
        return s3_writer(store, "kit")

    @pytest.fixture
    def open(self, store: Store) -> Callable[..., Storage]:
        return lambda **changes: S3Storage.open("kit", store.environment("S3_", **changes))

    @pytest.fixture
    def storage(self, open: Callable[..., Storage]) -> Storage:
        return open()

    @pytest.fixture
    def writable(self, store: Store, writer: ObjectWriter) -> WritableStorage:
        return S3Writer.open("kit", store.environment("S3_"))

    @pytest.fixture(params=["wrong secret", "unknown key"])
    def open_refused(
        self, open: Callable[..., Storage], request: pytest.FixtureRequest
    ) -> Callable[[], Storage]:
        if request.param == "unknown key":
            return lambda: open(S3_KEY="nobody:nobody")
        return lambda: open(S3_SECRETKEY="wrong")

    @pytest.fixture
    def open_unreachable(self, open: Callable[..., Storage]) -> Callable[[], Storage]:
        return lambda: open(S3_URL=f"http://127.0.0.1:{closed_port()}")

    @pytest.fixture
    def open_silent(self, open: Callable[..., Storage], silent_port: int) -> Callable[[], Storage]:
        return lambda: open(S3_URL=f"http://127.0.0.1:{silent_port}", NETWORK_TIMEOUT="1")


class TestS3OfRADOSGateway(S3Tests):
    @pytest.fixture
    def store(self, rgw: Store) -> Store:
        return rgw

    def test_a_foreign_bucket_is_refused(
        self, store: Store, writer: ObjectWriter, open: Callable[..., Storage]
    ) -> None:
        writer.put("private", b"for the owner only")
        stranger = open(
            S3_KEY=store.variables["STRANGER_KEY"],
            S3_SECRETKEY=store.variables["STRANGER_SECRETKEY"],
        )
        with pytest.raises(Exception, match="403 AccessDenied"):
            stranger.read("private")


class TestSignatureVersion2OfRADOSGateway(FewerRepetitions, TestS3OfRADOSGateway):
    @pytest.fixture
    def storage(self, open: Callable[..., Storage]) -> Storage:
        return open(S3_SIGNATURE_VERSION="2")


class TestS3OfSwift(FewerRepetitions, S3Tests):
    creates_exclusively = False

    @pytest.fixture
    def store(self, swift: Store) -> Store:
        return swift


class SwiftTests(StoreTests):
    # The connection to the authentication server belongs to all containers of an account.
    shares_connections = True
    # Swift looks for an object before it creates one; the gateway of Ceph ignores the condition.
    creates_exclusively = False

    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError

    @pytest.fixture
    def writer(self, store: Store) -> ObjectWriter:
        return swift_writer(store, "kit")

    @pytest.fixture
    def open(self, store: Store, writer: ObjectWriter) -> Callable[..., Storage]:
        # Many threads at once wait long for one process of Keystone.
        return lambda **changes: SwiftStorage.open(
            "kit",
            store.environment("SWIFT_", "KEYSTONE_", **{"NETWORK_TIMEOUT": "200", **changes}),
        )

    @pytest.fixture
    def storage(self, open: Callable[..., Storage]) -> Storage:
        return open()

    @pytest.fixture
    def writable(self, store: Store, writer: ObjectWriter) -> WritableStorage:
        return SwiftWriter.open("kit", store.environment("SWIFT_", "KEYSTONE_"))

    @pytest.fixture(params=["wrong password", "unknown user"])
    def open_refused(
        self, open: Callable[..., Storage], request: pytest.FixtureRequest
    ) -> Callable[[], Storage]:
        if request.param == "unknown user":
            return lambda: open(SWIFT_USER="nobody")
        return lambda: open(SWIFT_PASSWD="wrong")

    @pytest.fixture(params=["SWIFT_AUTHURL", "SWIFT_PUBLICURL"])
    def open_unreachable(
        self, open: Callable[..., Storage], request: pytest.FixtureRequest
    ) -> Callable[[], Storage]:
        return lambda: open(**{request.param: f"http://127.0.0.1:{closed_port()}/v1/AUTH_maps"})

    @pytest.fixture(params=["SWIFT_AUTHURL", "SWIFT_PUBLICURL"])
    def open_silent(
        self, open: Callable[..., Storage], silent_port: int, request: pytest.FixtureRequest
    ) -> Callable[[], Storage]:
        url = f"http://127.0.0.1:{silent_port}/v1/AUTH_maps"
        return lambda: open(**{request.param: url}, NETWORK_TIMEOUT="1")


class TestSwift(SwiftTests):
    @pytest.fixture
    def store(self, swift: Store) -> Store:
        return swift

    def test_a_foreign_account_is_refused(
        self, open: Callable[..., Storage], writer: ObjectWriter
    ) -> None:
        writer.put("private", b"for the owner only")
        with pytest.raises(Exception, match="403"):
            open(SWIFT_USER="stranger").read("private")


class TestSwiftOfRADOSGateway(FewerRepetitions, SwiftTests):
    @pytest.fixture
    def store(self, rgw: Store) -> Store:
        return rgw


class TestSwiftWithKeystone(FewerRepetitions, SwiftTests):
    @pytest.fixture
    def store(self, swift_with_keystone: Store) -> Store:
        return swift_with_keystone


class TestCeph(StoreTests):
    # The connection to the cluster belongs to all pools.
    shares_connections = True
    # A cluster refuses objects of more than 128 MiB (osd_max_object_size).
    holds_large_objects = False

    @pytest.fixture
    def storage(self, ceph: Store) -> Storage:
        return CephStorage.open("maps", ceph.environment("CEPH_"))

    @pytest.fixture
    def writer(self, ceph: Store) -> ObjectWriter:
        return ceph_writer(ceph, "maps")

    @pytest.fixture
    def writable(self, ceph: Store) -> WritableStorage:
        # The user of the reading driver may only read.
        return CephWriter.open("maps", ceph.environment("CEPH_", CEPH_USERNAME="client.admin"))

    @pytest.fixture(params=["client.stranger", "client.nobody"])
    def open_refused(self, ceph: Store, request: pytest.FixtureRequest) -> Callable[[], Storage]:
        return lambda: CephStorage.open(
            "maps", ceph.environment("CEPH_", CEPH_USERNAME=request.param)
        )

    @pytest.fixture
    def elsewhere(self, ceph: Store, tmp_path: Path) -> Callable[[int], Callable[[], Storage]]:
        """Opens the cluster at a different port."""

        def elsewhere(port: int) -> Callable[[], Storage]:
            text = Path(ceph.variables["MASTABA_CEPH_CONFFILE"]).read_text()
            lines = [line for line in text.splitlines() if not line.startswith("mon_host")]
            conf = tmp_path / "ceph.conf"
            address = f"mon_host = v1:127.0.0.1:{port}"
            text = "\n".join((*lines, "")).replace("[global]", f"[global]\n{address}")
            conf.write_text(text)
            environment = ceph.environment("CEPH_", CEPH_CONFFILE=str(conf), NETWORK_TIMEOUT="2")
            return lambda: CephStorage.open("maps", environment)

        return elsewhere

    @pytest.fixture
    def open_unreachable(
        self, elsewhere: Callable[[int], Callable[[], Storage]]
    ) -> Callable[[], Storage]:
        return elsewhere(closed_port())

    @pytest.fixture
    def open_silent(
        self, elsewhere: Callable[[int], Callable[[], Storage]], silent_port: int
    ) -> Callable[[], Storage]:
        return elsewhere(silent_port)
