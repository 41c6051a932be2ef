"""Credentials, regions and endpoints that boto3 finds if the variables MASTABA_S3_* are not set."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from mastaba.errors import AccessDeniedError, StorageError
from mastaba_conformance.object_server import ObjectServer
from mastaba_storage.base import ByteRange
from mastaba_storage.environment import Environment
from mastaba_storage_s3.storage import S3Storage

DATA = b"0123456789"


@pytest.fixture(autouse=True)
def _object(server: ObjectServer) -> None:
    server.put("maps", "k", DATA)


def open_bucket(**variables: str) -> S3Storage:
    return S3Storage.open(
        "maps", Environment({f"MASTABA_{name}": value for name, value in variables.items()})
    )


def check_reads(storage: S3Storage) -> None:
    """Check both ways of reading: boto3 sends the first request, the core the second."""
    assert storage.read("k").data == DATA
    assert storage.read("k", ByteRange(2, 3)).data == b"234"


def signed_region(server: ObjectServer) -> set[str]:
    return {request.headers["Authorization"].split("/")[2] for request in server.requests}


def test_profile_with_region(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "credentials").write_text(
        "[maps]\naws_access_key_id = key\naws_secret_access_key = secret\n"
    )
    (tmp_path / "config").write_text("[profile maps]\nregion = eu-west-3\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "maps")
    check_reads(open_bucket(S3_URL=server.url))
    assert signed_region(server) == {"eu-west-3"}
    server.requests.clear()
    check_reads(open_bucket(S3_URL=server.url, S3_REGION="us-west-2"))
    assert signed_region(server) == {"us-west-2"}


def test_environment_with_endpoint(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
    storage = open_bucket()
    assert storage.full_name == f"s3://maps@{server.url.removeprefix('http://')}"
    check_reads(storage)
    tokens = {request.headers["X-Amz-Security-Token"] for request in server.requests}
    assert tokens == {"a-token"}


def test_variables_of_mastaba_come_first(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    check_reads(open_bucket(S3_URL=server.url, S3_KEY="key", S3_SECRETKEY="secret"))


def test_an_unknown_profile_is_reported(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nothing")
    with pytest.raises(StorageError, match=r"boto3 cannot be used: .*nothing"):
        open_bucket(S3_URL=server.url)


class TokenService(ThreadingHTTPServer):
    """Issues temporary credentials for web identities, like STS.

    Attributes:
        roles: requested roles.
        lifetime: of the credentials.
        is_closed: whether requests are refused.
    """

    lifetime = timedelta(hours=1)
    is_closed = False

    def __init__(self, store: ObjectServer) -> None:
        super().__init__(("127.0.0.1", 0), TokenHandler)
        self.store = store
        self.roles: list[str] = []


class TokenHandler(BaseHTTPRequestHandler):
    server: TokenService

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        service = self.server
        if service.is_closed or form["WebIdentityToken"] != ["an-identity"]:
            self.send_error(403)
            return
        service.roles += form["RoleArn"]
        number = len(service.roles)
        service.store.s3_keys = {f"KEY{number}": f"secret{number}"}
        expiration = (datetime.now(UTC) + service.lifetime).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = (
            '<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
            "<AssumeRoleWithWebIdentityResult><Credentials>"
            f"<AccessKeyId>KEY{number}</AccessKeyId>"
            f"<SecretAccessKey>secret{number}</SecretAccessKey>"
            f"<SessionToken>token{number}</SessionToken><Expiration>{expiration}</Expiration>"
            "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def token_service(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TokenService]:
    (tmp_path / "identity").write_text("an-identity")
    with TokenService(server) as service:
        thread = threading.Thread(target=service.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "identity"))
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/maps")
        monkeypatch.setenv("AWS_REGION", "eu-west-3")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{service.server_port}")
        yield service
        service.shutdown()
        thread.join()


def test_temporary_credentials_of_a_web_identity_are_renewed(
    server: ObjectServer, token_service: TokenService
) -> None:
    # botocore renews credentials that expire in less than ten minutes with the next request.
    token_service.lifetime = timedelta(minutes=5)
    storage = open_bucket(S3_URL=server.url)
    for _ in range(3):
        assert storage.read("k", ByteRange(2, 3)).data == b"234"
    keys = [request.headers["Authorization"].split("=")[1] for request in server.requests]
    assert len({key.partition("/")[0] for key in keys}) == 3
    assert set(token_service.roles) == {"arn:aws:iam::123456789012:role/maps"}


def test_refused_identity_is_reported(server: ObjectServer, token_service: TokenService) -> None:
    storage = open_bucket(S3_URL=server.url)
    check_reads(storage)
    token_service.is_closed = True
    with pytest.raises(AccessDeniedError, match="boto3 gets no credentials"):
        open_bucket(S3_URL=server.url).read("k", ByteRange(2, 3))
