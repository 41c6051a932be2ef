"""A provider of OpenID Connect over TLS on this machine, which the tests control."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

import mastaba_http.client

ALGORITHMS: dict[str, Any] = {
    "RS256": jwt.algorithms.RSAAlgorithm,
    "PS256": jwt.algorithms.RSAAlgorithm,
    "ES256": jwt.algorithms.ECAlgorithm,
    "EdDSA": jwt.algorithms.OKPAlgorithm,
}


class Provider(ThreadingHTTPServer):
    """Answers with its documents, and counts the requests for them."""

    daemon_threads = True

    def __init__(self, certificate: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server_port}"
        self.issuer = f"{self.url}/realm"
        self.keys: dict[str, tuple[str, Any]] = {}
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.requests: list[str] = []
        self.is_held = False
        self._released = threading.Event()
        self._released.set()
        self.serve_configuration(issuer=self.issuer)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gives up is no error of the test."""

    def hold(self) -> threading.Event:
        """Answer no request until the returned event is set."""
        self._released = threading.Event()
        return self._released

    def wait(self) -> None:
        """Wait as long as requests are held."""
        self.is_held = not self._released.is_set()
        self._released.wait()

    def serve_configuration(self, **members: str) -> None:
        document = {"issuer": self.issuer, "jwks_uri": f"{self.url}/jwks", **members}
        path = "/realm/.well-known/openid-configuration"
        self.answers[path] = 200, json.dumps(document).encode()

    def add_key(self, algorithm: str, kid: str) -> None:
        make: dict[str, Any] = {
            "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate,
        }
        key = make.get(algorithm, lambda: rsa.generate_private_key(65537, 2048))()
        self.keys[kid] = algorithm, key
        self.serve_keys()

    def jwk(self, kid: str) -> dict[str, Any]:
        algorithm, key = self.keys[kid]
        found = json.loads(ALGORITHMS[algorithm].to_jwk(key.public_key()))
        return {**found, "kid": kid, "use": "sig", "alg": algorithm}

    def serve_keys(self, *further: Any) -> None:
        keys = [*map(self.jwk, self.keys), *further]
        self.answers["/jwks"] = 200, json.dumps({"keys": keys}).encode()

    def claims(self, **members: Any) -> dict[str, Any]:
        now = int(time.time())
        usual = {"iss": self.issuer, "aud": "mastaba", "sub": "anna", "iat": now, "exp": now + 300}
        return {name: value for name, value in {**usual, **members}.items() if value is not None}

    def token(self, kid: str, headers: dict[str, Any] | None = None, **members: Any) -> str:
        """A token made by another library."""
        algorithm, key = self.keys[kid]
        return jwt.encode(
            self.claims(**members), key, algorithm, headers={"kid": kid, **(headers or {})}
        )


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        self.server.wait()
        status, body = self.server.answers.get(self.path, (404, b""))
        self.send_response(status)
        if status == 302:
            self.send_header("Location", body.decode())
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "provider of the tests")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("provider") / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


@pytest.fixture
def provider(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    mastaba_http.client._tls_context.cache_clear()
    with Provider(certificate) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
    mastaba_http.client._tls_context.cache_clear()


def encoded(document: Any) -> str:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()
