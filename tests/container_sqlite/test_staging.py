"""Databases in object stores: each is copied into a directory that processes share."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.container_sqlite.ground import application, picture, write_mbtiles
from werkzeug.test import Client

from mastaba.api.storages import ByteRange, ObjectRead
from mastaba.errors import ContainerFormatError, StorageUnavailableError
from mastaba_conformance.containers import MemoryStorage
from mastaba_conformance.object_server import S3_KEYS, ObjectServer
from mastaba_sqlite_tiles import staging
from mastaba_sqlite_tiles.staging import Staging

PLACES = [(4, column, row) for column in (8, 9) for row in (5, 6)]
ENTRY = {"path": "s3://maps/a.mbtiles"}
KEY = "/maps/a.mbtiles"


def tiles(version: int) -> dict[tuple[int, int, int], bytes]:
    return {place: picture(100 * version + number) for number, place in enumerate(PLACES)}


def database(directory: Path, version: int) -> bytes:
    return write_mbtiles(directory / f"{version}.mbtiles", tiles(version)).read_bytes()


def address(place: tuple[int, int, int]) -> str:
    return "/tms/1.0.0/A/{}/{}/{}.png".format(*place)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    key, secret = next(iter(S3_KEYS.items()))
    with ObjectServer() as server:
        monkeypatch.setenv("ROK4_S3_URL", server.url)
        monkeypatch.setenv("ROK4_S3_KEY", key)
        monkeypatch.setenv("ROK4_S3_SECRETKEY", secret)
        monkeypatch.setenv("MASTABA_STAGING_DIRECTORY", str(tmp_path / "staged"))
        yield server


def copies(directory: Path) -> list[Path]:
    return [path for path in (directory / "staged").iterdir() if path.suffix != ".lock"]


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def test_tiles_are_those_of_the_object(
    tmp_path: Path, store: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = database(tmp_path, 0)
    store.put("maps", "a.mbtiles", data)
    monkeypatch.setattr(staging, "_RANGE", len(data) // 3)
    site = application(tmp_path / "one", A=ENTRY)
    client = Client(site)
    before = len(store.requests)
    assert {place: client.get(address(place)).data for place in PLACES} == tiles(0)
    assert len(store.requests) == before
    (copy,) = copies(tmp_path)
    assert copy.read_bytes() == data
    assert copy.stat().st_mode & 0o777 == 0o600
    version = client.get(address(PLACES[0])).headers["ETag"]
    # The copy is that of the other processes of the node, and is found again after a restart.
    gets = store.count("GET", KEY)
    other = Client(application(tmp_path / "two", A=ENTRY))
    assert store.count("GET", KEY) == gets + 1
    assert other.get(address(PLACES[0])).headers["ETag"] == version


def test_new_version_is_served_when_its_copy_is_complete(
    tmp_path: Path, store: ObjectServer
) -> None:
    store.put("maps", "a.mbtiles", database(tmp_path, 0))
    site = application(tmp_path / "site", A=ENTRY)
    client = Client(site)
    etag = client.get(address(PLACES[0])).headers["ETag"]
    store.put("maps", "a.mbtiles", database(tmp_path, 1))
    assert client.get(address(PLACES[0]), headers={"If-None-Match": etag}).status_code == 304
    indices = site.site.catalogue.indices
    with store.outage():
        indices.clear()
        assert client.get(address(PLACES[0])).data == tiles(0)[PLACES[0]]
        until(lambda: not any(t.name == "mastaba-staging" for t in threading.enumerate()))
    indices.clear()
    client.get(address(PLACES[0]))
    until(lambda: client.get(address(PLACES[0])).data == tiles(1)[PLACES[0]])
    assert {place: client.get(address(place)).data for place in PLACES} == tiles(1)
    changed = client.get(address(PLACES[0]), headers={"If-None-Match": etag})
    assert changed.status_code == 200
    assert len(copies(tmp_path)) == 1


class Changing(MemoryStorage):
    """Objects that are replaced after some reads."""

    versions: list[bytes]

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        found = super().read(key, byte_range, version)
        if self.versions:
            self.put(key, self.versions.pop(0))
        return found


@pytest.mark.parametrize("changes", [2, 9])
def test_copy_is_of_one_version(
    changes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "_RANGE", 10)
    storage = Changing()
    storage.versions = [bytes([65 + number]) * 30 for number in range(changes)]
    storage.put("a", b"0" * 30)
    place = Staging(str(tmp_path), 1000)
    if changes > 4:
        with pytest.raises(StorageUnavailableError, match="replaced all the time"):
            place.update(storage, "a", "a", waits=True)
        assert not [path for path in tmp_path.iterdir() if path.suffix != ".lock"]
    else:
        place.update(storage, "a", "a", waits=True)
        assert Path(place.path_of("a")).read_bytes() == b"B" * 30


def test_copies_that_are_not_used_make_room(tmp_path: Path) -> None:
    storage, place = MemoryStorage(), Staging(str(tmp_path), 100)
    for name in "abcd":
        storage.put(name, name.encode() * 40)
    used = place.use("a")
    Path(place.path_of("x") + ".part").write_bytes(bytes(20))  # of a process that was killed
    for name in "abc":
        place.update(storage, name, name, waits=True)
    assert {path.read_bytes()[:1] for path in tmp_path.iterdir() if path.suffix != ".lock"} == {
        b"a",
        b"c",
    }
    storage.put("d", bytes(61))
    with pytest.raises(ContainerFormatError, match="MASTABA_STAGING_BYTES leaves 60"):
        place.update(storage, "d", "d", waits=True)
    os.close(used)
    place.update(storage, "d", "d", waits=True)
    assert Path(place.path_of("d")).stat().st_size == 61


@pytest.mark.parametrize(
    ("setting", "data", "reason"),
    [
        ({"MASTABA_STAGING_DIRECTORY": ""}, None, "set MASTABA_STAGING_DIRECTORY"),
        ({"MASTABA_STAGING_BYTES": "1000"}, None, "MASTABA_STAGING_BYTES leaves 1000"),
        ({}, b"II*\0" + bytes(100), "is a GeoTIFF"),
        ({"MASTABA_STAGING_DIRECTORY": "/dev/null/a"}, None, "MASTABA_STAGING_DIRECTORY: "),
    ],
)
def test_refusal_has_a_remedy(
    setting: dict[str, str],
    data: bytes | None,
    reason: str,
    tmp_path: Path,
    store: ObjectServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store.put("maps", "a.mbtiles", database(tmp_path, 0) if data is None else data)
    good = write_mbtiles(tmp_path / "good.mbtiles", tiles(0))
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    site = application(tmp_path / "site", A=ENTRY, GOOD={"path": str(good)}).site
    assert list(site.catalogue.layers) == ["GOOD"]
    assert reason in caplog.text


@pytest.mark.thorough
def test_processes_and_threads_get_one_version(tmp_path: Path, store: ObjectServer) -> None:
    """Fifty threads in two processes, whose copies both of them update."""
    both = [database(tmp_path, version) for version in (0, 1)]
    store.put("maps", "a.mbtiles", both[0])
    wanted = [tiles(version) for version in (0, 1)]
    sites: list[Any] = [application(tmp_path / name, A=ENTRY) for name in ("one", "two")]
    stop = threading.Event()

    answers: list[int] = []

    def replacing() -> int:
        turn = 0
        while not stop.wait(0.05):
            # When each thread has read once on average, on a machine of any speed.
            if len(answers) < 50 * turn:
                continue
            turn += 1
            store.put("maps", "a.mbtiles", both[turn % 2])
            for site in sites:
                site.site.catalogue.indices.clear()
        return turn

    def reading(seed: int) -> None:
        chance, client = random.Random(seed), Client(sites[seed % 2])
        for _ in range(100):
            place = chance.choice(PLACES)
            answer = client.get(address(place))
            is_right = answer.data in (wanted[0][place], wanted[1][place])
            answers.append(answer.status_code if is_right or answer.status_code == 503 else 0)

    with ThreadPoolExecutor(51) as pool:
        writer = pool.submit(replacing)
        try:
            list(pool.map(reading, range(50)))
        finally:
            stop.set()
        assert writer.result() > 3
    assert set(answers) <= {200, 503}
    assert answers.count(503) <= len(answers) // 1000
