import logging
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.loaders import JSONFileLoader

from mastaba.errors import (
    AccessDeniedError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from mastaba.plugins.manager import Plugins
from mastaba.storage_pool import StoragePool
from mastaba_conformance.object_server import Faults, ObjectServer
from mastaba_storage.base import ByteRange
from mastaba_storage.environment import Environment
from mastaba_storage_s3.clusters import find_cluster
from mastaba_storage_s3.storage import S3Storage

SECRET = "a-secret-that-must-not-be-shown"


def environment(**variables: str) -> Environment:
    return Environment({f"MASTABA_{name}": value for name, value in variables.items()})


def open_bucket(server: ObjectServer, container: str = "maps", **variables: str) -> S3Storage:
    given = {"S3_URL": server.url, "S3_KEY": "key", "S3_SECRETKEY": "secret", **variables}
    return S3Storage.open(container, environment(**given))


@pytest.mark.parametrize(
    ("variables", "kind", "message"),
    [
        ({}, AccessDeniedError, "MASTABA_S3_KEY and MASTABA_S3_SECRETKEY are not set"),
        ({"S3_KEY": "k"}, AccessDeniedError, "MASTABA_S3_SECRETKEY is not set"),
        ({"S3_KEY": "", "S3_SECRETKEY": SECRET}, AccessDeniedError, "MASTABA_S3_KEY is not set"),
        (
            {"S3_URL": "http://a,http://b", "S3_KEY": "k", "S3_SECRETKEY": SECRET},
            StorageError,
            "MASTABA_S3_URL, MASTABA_S3_KEY and MASTABA_S3_SECRETKEY have 2, 1 and 1 elements",
        ),
        (
            {"S3_URL": "http://a", "S3_KEY": "k,", "S3_SECRETKEY": f"{SECRET},x"},
            StorageError,
            "have 1, 1 and 2 elements",
        ),
        (
            {"S3_URL": "http://a,http://a/", "S3_KEY": "k,l", "S3_SECRETKEY": f"{SECRET},x"},
            StorageError,
            "duplicate cluster a in MASTABA_S3_URL",
        ),
        (
            {"S3_URL": "s3.example.org", "S3_KEY": "k", "S3_SECRETKEY": SECRET},
            StorageError,
            "'s3.example.org' in MASTABA_S3_URL is not a URL",
        ),
        (
            {"S3_KEY": "k", "S3_SECRETKEY": SECRET, "S3_SIGNATURE_VERSION": "3"},
            StorageError,
            "MASTABA_S3_SIGNATURE_VERSION is 3",
        ),
    ],
)
def test_invalid_variables_are_reported_by_name(
    variables: dict[str, str], kind: type[StorageError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        S3Storage.open("maps", environment(**variables))
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)


def test_unknown_cluster_is_reported_with_the_known_ones() -> None:
    variables = {
        "S3_URL": "https://one.example:9000, http://two.example/",
        "S3_KEY": "k,l",
        "S3_SECRETKEY": "s,t",
    }
    with pytest.raises(StorageError, match=r"'three'.*one\.example:9000, two\.example$"):
        S3Storage.open("maps@three", environment(**variables))


def test_clusters_are_selected_by_name_and_the_first_is_the_default() -> None:
    with (
        ObjectServer({"one": "first"}) as one,
        ObjectServer({"two": "second"}) as two,
    ):
        one.put("maps", "k", b"one")
        two.put("maps", "k", b"two")
        pool = StoragePool(
            Plugins().storages,
            environment(
                S3_URL=f"{one.url}/, {two.url}", S3_KEY="one,two", S3_SECRETKEY="first,second"
            ),
        )
        second = two.url.removeprefix("http://")
        assert pool.open("s3", "maps").read("k").data == b"one"
        assert pool.open("s3", f"maps@{second}").read("k").data == b"two"
        # Naming the default cluster explicitly gives the same container.
        first = pool.open("s3", f"maps@{one.url.removeprefix('http://')}")
        assert first is pool.open("s3", "maps")
        assert first.full_name == f"s3://maps@{one.url.removeprefix('http://')}"
        assert pool.counts() == {"s3": 2}
        pool.close()


@pytest.mark.parametrize(
    ("container", "beside", "expected"),
    [
        ("b", "maps", "b"),
        ("b", "maps@two", "b@two"),
        ("b@one", "maps@two", "b@one"),
        ("b@one", None, "b@one"),
    ],
)
def test_a_level_uses_the_cluster_of_its_descriptor(
    container: str, beside: str | None, expected: str
) -> None:
    assert S3Storage.resolve_container(container, beside) == expected


def test_a_bucket_needs_a_cluster_if_the_descriptor_is_a_file() -> None:
    with pytest.raises(ValueError, match="write b@cluster"):
        S3Storage.resolve_container("b", None)


def test_an_invalid_secret_is_reported_without_showing_it(server: ObjectServer) -> None:
    server.put("maps", "k", b"data")
    with pytest.raises(AccessDeniedError, match="403 SignatureDoesNotMatch") as caught:
        open_bucket(server, S3_SECRETKEY=SECRET).read("k")
    assert SECRET not in str(caught.value)
    with pytest.raises(AccessDeniedError, match="403 InvalidAccessKeyId"):
        open_bucket(server, S3_KEY="nobody").read("k")


def test_missing_bucket_is_reported_once(
    server: ObjectServer, caplog: pytest.LogCaptureFixture
) -> None:
    storage = open_bucket(server, "no-such-bucket")
    for _ in range(3):
        with pytest.raises(ObjectNotFoundError, match="NoSuchBucket"):
            storage.read("k")
    records = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.getMessage() for record in records] == [
        f"the bucket s3://no-such-bucket@{server.url.removeprefix('http://')} does not exist"
    ]


def test_requests_use_path_style_and_an_inclusive_range(server: ObjectServer) -> None:
    server.put("maps", "a/b c", b"0123456789")
    assert open_bucket(server).read("a/b c", ByteRange(2, 3)).data == b"234"
    (request,) = server.requests
    assert (request.method, request.path, request.range, request.status) == (
        "GET",
        "/maps/a/b c",
        "bytes=2-4",
        206,
    )


def test_connections_are_reused(server: ObjectServer) -> None:
    server.put("maps", "k", b"data")
    storage = open_bucket(server)
    for _ in range(5):
        storage.read("k")
        storage.exists("absent")
    assert server.connections == 1


@pytest.mark.parametrize("version", ["4", "2"])
def test_virtual_host_through_a_proxy(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    server.put("maps", "k", b"data")
    monkeypatch.setenv("HTTP_PROXY", server.url)
    storage = open_bucket(
        server,
        S3_URL="http://s3.example.org:9000",
        S3_USE_VIRTUAL_HOST="true",
        S3_SIGNATURE_VERSION=version,
        S3_REGION="eu-west-3",
    )
    assert storage.read("k").data == b"data"
    assert server.requests[-1].host == "maps.s3.example.org:9000"
    monkeypatch.setenv("NO_PROXY", "s3.example.org")
    direct = open_bucket(server, S3_URL="http://s3.example.org:1", NETWORK_TIMEOUT="2")
    with pytest.raises(StorageUnavailableError):
        direct.read("k")


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[ObjectServer]:
    """A server with a self-signed certificate."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run([*command, *subject, *files], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with ObjectServer(tls=context) as server:
        server.put("maps", "k", b"data")
        yield server


def test_self_signed_certificate_is_refused_and_the_message_names_the_remedy(
    tls_server: ObjectServer,
) -> None:
    with pytest.raises(
        StorageUnavailableError, match=r"certificate is not accepted.*MASTABA_SSL_NO_VERIFY"
    ):
        open_bucket(tls_server).read("k")
    with pytest.raises(StorageUnavailableError):
        open_bucket(tls_server, SSL_NO_VERIFY="0").read("k")
    assert open_bucket(tls_server, SSL_NO_VERIFY="1").read("k").data == b"data"


def test_truncated_objects_are_reported(server: ObjectServer) -> None:
    server.put("maps", "k", b"0123456789")
    storage = open_bucket(server)
    server.faults = Faults(truncations=1)
    for byte_range in (None, ByteRange(0, 10)):
        with pytest.raises(StorageUnavailableError):
            storage.read("k", byte_range)


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("status", [301, 400, 418, 500, 503, 429])
def test_other_responses_are_reported_by_their_status(server: ObjectServer, status: int) -> None:
    server.put("maps", "k", b"data")
    server.forced_status = status
    with pytest.raises(StorageError, match=str(status)) as caught:
        open_bucket(server).read("k")
    assert isinstance(caught.value, StorageUnavailableError) == (status >= 429)
    assert len(server.requests) == 1


def test_libraries_are_loaded_for_the_first_layer_only() -> None:
    code = (
        "import sys\n"
        "from mastaba.plugins.manager import Plugins\n"
        "assert {'s3', 'swift'} <= set(Plugins().storages)\n"
        "heavy = {'boto3', 'botocore', 'keystoneauth1', 'swiftclient', 'requests', 'urllib3'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_new_process_does_not_parse_the_descriptions_of_services(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = environment(S3_URL=server.url, S3_KEY="key", S3_SECRETKEY="secret")
    _, cluster = find_cluster(given, "maps")
    first = cluster.client.get()
    parsed: list[str] = []
    monkeypatch.setattr(JSONFileLoader, "load_file", lambda _, path: parsed.append(path))
    # Before a fork, the client is dropped; the child makes its own.
    cluster.client.drop()
    second = cluster.client.get()
    assert second is not first
    assert parsed == []
