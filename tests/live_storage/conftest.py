"""Real object stores, started by scripts/services, and writers independent of our drivers."""

from __future__ import annotations

import gc
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import botocore.session
import pytest
import urllib3
from botocore.config import Config
from tests.build.clusters import fork_builds
from tests.fork_server import ForkServer

from mastaba_storage.environment import Environment
from mastaba_storage_ceph.cluster import shared_cluster

SCRIPTS = Path(__file__).parents[2] / "scripts/services"


@dataclass(frozen=True, eq=False)
class Store:
    """A running service.

    Attributes:
        folder: folder of the service.
        variables: environment variables for clients, printed by its script.
    """

    folder: Path
    variables: Mapping[str, str]

    def environment(self, *prefixes: str, **changes: str) -> Environment:
        """Return the variables for Mastaba with the given prefixes, with some changes."""
        chosen = {
            name: value
            for name, value in self.variables.items()
            if name.removeprefix("MASTABA_").startswith(prefixes)
        }
        return Environment(chosen | {f"MASTABA_{name}": text for name, text in changes.items()})


@dataclass(frozen=True)
class S3Writer:
    """Writes into a bucket with botocore's own client."""

    store: Store
    bucket: str

    @cached_property
    def _client(self) -> Any:
        variables = self.store.variables
        return botocore.session.Session().create_client(
            "s3",
            endpoint_url=variables["MASTABA_S3_URL"],
            aws_access_key_id=variables["MASTABA_S3_KEY"],
            aws_secret_access_key=variables["MASTABA_S3_SECRETKEY"],
            region_name="us-east-1",
            config=Config(
                s3={"addressing_style": "path"},
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )

    def create(self) -> None:
        self._client.create_bucket(Bucket=self.bucket)

    def put(self, key: str, data: bytes) -> None:
        self._client.put_object(Bucket=self.bucket, Key=key, Body=data)

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self.bucket, Key=key)


@dataclass(frozen=True)
class SwiftWriter:
    """Writes into a container with plain HTTP requests."""

    store: Store
    container: str

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        return urllib3.PoolManager()

    @cached_property
    def _token(self) -> str:
        variables = self.store.variables
        user, password = variables["MASTABA_SWIFT_USER"], variables["MASTABA_SWIFT_PASSWD"]
        url = variables["MASTABA_SWIFT_AUTHURL"]
        if "MASTABA_KEYSTONE_DOMAINID" not in variables:
            account = f"{variables['MASTABA_SWIFT_ACCOUNT']}:{user}"
            headers = {"X-Auth-User": account, "X-Auth-Key": password}
            return self._pool.request("GET", url, headers=headers).headers["X-Auth-Token"]
        domain = {"id": variables["MASTABA_KEYSTONE_DOMAINID"]}
        who = {"name": user, "domain": domain, "password": password}
        auth = {
            "identity": {"methods": ["password"], "password": {"user": who}},
            "scope": {"project": {"id": variables["MASTABA_KEYSTONE_PROJECTID"]}},
        }
        answer = self._pool.request("POST", url, json={"auth": auth})
        return answer.headers["X-Subject-Token"]

    def create(self) -> None:
        self._send("PUT", "")

    def put(self, key: str, data: bytes) -> None:
        self._send("PUT", key, data)

    def delete(self, key: str) -> None:
        self._send("DELETE", key)

    def _send(self, method: str, key: str, data: bytes = b"") -> None:
        base = f"{self.store.variables['MASTABA_SWIFT_PUBLICURL']}/{quote(self.container)}"
        # Keys may contain "." and ".." segments, which must not be normalised.
        url = f"{base}/{quote(key).replace('/.', '/%2E')}" if key else base
        answer = self._pool.request(method, url, data, headers={"X-Auth-Token": self._token})
        assert answer.status < 300, (method, url, answer.status, answer.data[:200])


@dataclass(frozen=True)
class CephWriter:
    """Writes into a pool as the administrator of the cluster."""

    store: Store
    pool: str

    @cached_property
    def _context(self) -> Any:
        rados = pytest.importorskip("rados")
        cluster = rados.Rados(
            name="client.admin", conffile=self.store.variables["MASTABA_CEPH_CONFFILE"]
        )
        cluster.connect()
        return cluster.open_ioctx(self.pool)

    def put(self, key: str, data: bytes) -> None:
        self._context.write_full(key, data)

    def delete(self, key: str) -> None:
        self._context.remove_object(key)


@pytest.fixture(scope="session", autouse=True)
def _connections_end() -> Iterator[None]:
    """Close the connections to Ceph: librados may abort if the end of the interpreter does it."""
    yield
    shared_cluster.cache_clear()
    gc.collect()


@cache
def s3_writer(store: Store, bucket: str) -> S3Writer:
    """Return the writer of a bucket, which is created on first use."""
    writer = S3Writer(store, bucket)
    writer.create()
    return writer


@cache
def swift_writer(store: Store, container: str) -> SwiftWriter:
    """Return the writer of a container, which is created on first use."""
    writer = SwiftWriter(store, container)
    writer.create()
    return writer


def ceph_writer(store: Store, pool: str) -> CephWriter:
    """Return the writer of a pool."""
    return CephWriter(store, pool)


class _ScriptError(Exception):
    """A script failed. The message contains its stderr."""


def _script(name: str, action: str, *folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / name), action, *map(str, folder)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    if done.returncode:
        raise _ScriptError(f"scripts/services/{name} {action}: {done.stderr.strip()}")
    return done.stdout


Start = Callable[..., Store]


@pytest.fixture(scope="session")
def start() -> Iterator[Start]:
    """Starts a service, and stops all of them in the end."""
    base = Path(tempfile.mkdtemp(prefix="mastaba-"))
    started: list[tuple[str, Path]] = []

    def start(name: str, label: str = "", **environment: str) -> Store:
        folder = base / (label or name)
        try:
            _script(name, "install")
        except _ScriptError as failure:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"{name} cannot be installed here: {failure}")
        started.append((name, folder))
        _script(name, "up", folder, **environment)
        lines = _script(name, "env", folder).splitlines()
        pairs = (shlex.split(line)[1].split("=", 1) for line in lines)
        return Store(folder, dict(pairs))

    yield start
    for name, folder in reversed(started):
        _script(name, "down", folder)
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="session")
def ceph(start: Start) -> Store:
    return start("ceph")


@pytest.fixture(scope="session")
def rgw(start: Start, ceph: Store) -> Store:
    return start("rgw", CEPH_FOLDER=str(ceph.folder))


@pytest.fixture(scope="session")
def swift(start: Start) -> Store:
    return start("swift")


@pytest.fixture(scope="session")
def keystone(start: Start) -> Store:
    return start("keystone")


@pytest.fixture(scope="session")
def swift_with_keystone(start: Start, keystone: Store) -> Store:
    return start("swift", "swift-keystone", KEYSTONE_FOLDER=str(keystone.folder))


@pytest.fixture(scope="session")
def mastaba() -> Iterator[ForkServer]:
    """Return a process that forks builds, with the clients of the stores imported."""
    server = fork_builds("mastaba_storage_s3.writer", "mastaba_storage_swift.writer")
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove proxy settings of the machine from the environment."""
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.live)
