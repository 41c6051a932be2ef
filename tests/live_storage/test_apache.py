"""The storage driver for web servers, with an Apache that knows nothing of object stores."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote

import pytest
from tests.live.processes import WEB_USER, Process, answers, free_port, is_root, program, render

from mastaba.errors import ObjectChangedError, ObjectNotFoundError
from mastaba_conformance.storage import ObjectWriter, StorageTests
from mastaba_http import HTTPClient
from mastaba_storage.base import ByteRange
from mastaba_storage.environment import Environment
from mastaba_storage.managed import ManagedStorage
from mastaba_storage.retry import RetryPolicy
from mastaba_storage_http.storage import WebStorage

_CONFIGURATION = """
ServerRoot @folder@
PidFile @folder@/apache.pid
DefaultRuntimeDir @folder@
Mutex file:@folder@ default
ErrorLog /dev/stderr
LogLevel warn
ServerName 127.0.0.1
Listen 127.0.0.1:@port@
DocumentRoot @folder@/htdocs
@user@
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule filter_module /usr/lib/apache2/modules/mod_filter.so
LoadModule deflate_module /usr/lib/apache2/modules/mod_deflate.so
AllowEncodedSlashes NoDecode
SetOutputFilter DEFLATE
<Directory />
  Require all granted
</Directory>
"""
OLD = 1_600_000_000


def opened(url: str) -> WebStorage:
    """Open the root of a web server."""
    host = url.removeprefix("http://")
    return WebStorage.open(host, Environment({"MASTABA_HTTP_HOSTS": host}))


class Folder:
    """Writes files below the root of the web server, each at another time.

    An ETag of Apache is size and time of change in microseconds, but the clock of the file system
    stands still for some milliseconds.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last = 0

    def _path(self, key: str) -> Path:
        # A key is path and query of a URL.
        return self.path / unquote(key.partition("?")[0])

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        # A name of 255 characters has no room for a suffix.
        fresh = path.with_name(".new")
        fresh.write_bytes(data)
        self._last = max(self._last + 1, time.time_ns() // 1000)
        os.utime(fresh, ns=(self._last * 1000, self._last * 1000))
        fresh.replace(path)

    def delete(self, key: str) -> None:
        self._path(key).unlink()


@pytest.fixture(scope="module")
def apache() -> Iterator[tuple[str, Path]]:
    """Return the URL of an Apache, and its root."""
    # Apache runs as another user, who cannot enter the folders of pytest.
    with TemporaryDirectory(prefix="mastaba-apache-") as name:
        yield from _started(Path(name))


def _started(folder: Path) -> Iterator[tuple[str, Path]]:
    (folder / "htdocs").mkdir()
    folder.chmod(0o755)
    port = free_port()
    user = f"User {WEB_USER}\nGroup {WEB_USER}" if is_root() else ""
    configuration = folder / "apache.conf"
    configuration.write_text(render(_CONFIGURATION, {"folder": folder, "port": port, "user": user}))
    command = [program("apache2", "apache2"), "-D", "FOREGROUND", "-f", configuration]
    with Process("apache", command, folder) as process:
        url = f"http://127.0.0.1:{port}"
        process.wait_for(lambda: answers(url))
        yield url, folder / "htdocs"


class TestPlainApache(StorageTests):
    time_limit = 240.0
    keys_are_paths = True
    examples = 15
    repeats = 8
    # Apache takes the ETag from a look at the file, and opens the file afterwards. If the file is
    # replaced in between, the bytes of the new one have the ETag of the old one, for every client.
    # Two spellings of a URL are one: the tests of the driver contain their own.
    test_similar_key_is_another_object = None  # type: ignore[assignment]
    test_versions_are_never_mixed_while_an_object_is_replaced = None  # type: ignore[assignment]
    test_ranges_are_never_mixed_while_an_object_is_replaced = None  # type: ignore[assignment]

    @pytest.fixture
    def writer(self, apache: tuple[str, Path]) -> ObjectWriter:
        return Folder(apache[1])

    @pytest.fixture
    def storage(self, apache: tuple[str, Path]) -> WebStorage:
        return opened(apache[0])


@pytest.fixture
def storage(apache: tuple[str, Path]) -> Iterator[WebStorage]:
    storage = opened(apache[0])
    yield storage
    storage.close()


@pytest.fixture
def folder(apache: tuple[str, Path]) -> Folder:
    return Folder(apache[1])


def is_weak(apache: tuple[str, Path], name: str) -> bool:
    client = HTTPClient(apache[0], 30)
    with closing(client):
        return client.request("HEAD", f"/{name}", {}).headers["ETag"].startswith("W/")


def test_version_of_a_fresh_file_stays_valid(
    storage: WebStorage, folder: Folder, apache: tuple[str, Path]
) -> None:
    folder.put("fresh", b"0123456789")
    read = storage.read("fresh", ByteRange(2, 3))
    assert is_weak(apache, "fresh"), "Apache sends a strong ETag"
    assert read.data == b"234"
    assert read.version
    assert storage.stat("fresh").version == read.version
    assert storage.read("fresh", ByteRange(4, 3), read.version).data == b"456"
    while is_weak(apache, "fresh"):
        time.sleep(0.1)
    assert storage.read("fresh", ByteRange(4, 3), read.version).data == b"456"
    other = opened(apache[0])
    assert other.read("fresh", ByteRange(4, 3), read.version).data == b"456"
    other.close()
    os.utime(folder.path / "fresh", (OLD, OLD))
    with pytest.raises(ObjectChangedError):
        storage.read("fresh", ByteRange(4, 3), read.version)


@pytest.mark.parametrize("age", [OLD, None], ids=["strong", "weak"])
def test_replaced_file_is_noticed(storage: WebStorage, folder: Folder, age: int | None) -> None:
    folder.put("replaced", b"before")
    if age is not None:
        os.utime(folder.path / "replaced", (age, age))
    version = storage.read("replaced", ByteRange(0, 3)).version
    folder.put("replaced", b"after!")
    with pytest.raises(ObjectChangedError):
        storage.read("replaced", ByteRange(0, 3), version)


@pytest.mark.parametrize("data", [b"", b"1", b"x" * 100_000], ids=["empty", "short", "long"])
@pytest.mark.parametrize("name", ["stat", "stat.html"])
def test_size_without_a_content_length(
    storage: WebStorage, folder: Folder, data: bytes, name: str
) -> None:
    folder.put(name, data)
    found = storage.stat(name)
    assert found.size == len(data)
    assert found.version == storage.read(name).version or found.version is None
    assert storage.exists(name)
    with pytest.raises(ObjectNotFoundError):
        storage.stat("absent")


def test_a_client_sends_a_body(apache: tuple[str, Path]) -> None:
    client = HTTPClient(apache[0], 30)
    # A plain Apache takes no POST for a file, but reads the body, and keeps the connection.
    for _ in range(3):
        assert client.request("POST", "/fresh", {}, body=b"x" * 10_000).status in (200, 405)
    client.close()


def test_managed_reads_do_not_count_changes_as_failures(
    storage: WebStorage, folder: Folder
) -> None:
    managed = ManagedStorage(storage, RetryPolicy(failures=1))
    folder.put("again", b"before")
    version = managed.read("again", ByteRange(0, 3)).version
    folder.put("again", b"after!")
    with pytest.raises(ObjectChangedError):
        managed.read("again", ByteRange(0, 3), version)
    assert not managed.is_suspended
