"""Pyramids built into real object stores, and served from there."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.build.ground import MASTABA, checksums, grid, noise, write_raster
from tests.live_storage.conftest import Store, s3_writer, swift_writer
from werkzeug.test import Client

from mastaba.wsgi import create_application
from mastaba_writer.installation import installed_services, write_installation

OPTIONS = ("--slab", "2x2", "--format", "jpg", "--name", "ortho", "--json")
Place = tuple[str, Mapping[str, str]]


def chosen(store: Store, *words: str) -> dict[str, str]:
    return {
        name: text for name, text in store.variables.items() if any(word in name for word in words)
    }


@pytest.fixture
def in_s3(rgw: Store) -> Place:
    s3_writer(rgw, "built")
    return "s3://built/maps", chosen(rgw, "_S3_")


@pytest.fixture
def in_s3_of_swift(swift: Store) -> Place:
    s3_writer(swift, "built")
    return "s3://built", chosen(swift, "_S3_")


@pytest.fixture
def in_swift(swift: Store) -> Place:
    swift_writer(swift, "built")
    return "swift://built/maps", chosen(swift, "_SWIFT_")


@pytest.fixture
def in_ceph(ceph: Store) -> Place:
    user = {"MASTABA_CEPH_USERNAME": "client.admin"}
    return "ceph://maps/built", chosen(ceph, "_CEPH_") | user


@pytest.fixture(params=["in_s3", "in_s3_of_swift", "in_swift", "in_ceph"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The place of a build; its credentials are in the environment."""
    output, variables = request.getfixturevalue(request.param)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    return str(output)


@pytest.fixture(scope="module")
def ortho(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sources") / "ortho.tif"
    return write_raster(path, noise(3, 700, 900), grid(900000, 6500000, 5), "EPSG:2154")


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., list[str]]:
    """Return the words of a build that keeps its local files in the folder of the test."""

    def words(source: Path, output: str, *more: str) -> list[str]:
        local = ("--work", str(tmp_path / "work"), "--server", str(tmp_path / "server"))
        return [
            *(*MASTABA, "build", str(source), "--output", output),
            *(*OPTIONS, *local, *more),
        ]

    return words


def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)


def tiles(server_json: Path) -> dict[str, bytes]:
    """Return all tiles of the layer, as served."""
    application = create_application(str(server_json))
    client = Client(application)
    found: dict[str, bytes] = {}
    for level in application.site.catalogue.layers["ortho"].pyramid.levels.values():
        limits = level.limits
        for row in range(limits.min_row, limits.max_row + 1):
            for column in range(limits.min_col, limits.max_col + 1):
                name = f"{level.matrix.id}/{column}/{row}"
                answer = client.get(f"/tms/1.0.0/ortho/{name}.jpeg")
                assert answer.status_code in (200, 404), answer.data
                if answer.status_code == 200:
                    found[name] = bytes(answer.data)
    application.site.catalogue.storages.close()
    return found


def test_tiles_from_a_store_are_those_from_files(
    place: str, ortho: Path, tmp_path: Path, command: Callable[..., list[str]]
) -> None:
    in_files = run(command(ortho, str(tmp_path / "files"), "--server", str(tmp_path / "f")))
    assert in_files.returncode == 0, in_files.stderr
    in_store = run(command(ortho, place))
    assert in_store.returncode == 0, in_store.stderr
    assert run(command(ortho, place, "--verify", "full")).returncode == 0
    served = tiles(tmp_path / "server/server.json")
    assert len(served) > 30
    assert served == tiles(tmp_path / "f/server.json")


def test_an_update_links_to_unchanged_slabs(
    place: str, ortho: Path, tmp_path: Path, command: Callable[..., list[str]]
) -> None:
    assert run(command(ortho, place, "--replace")).returncode == 0
    before = tiles(tmp_path / "server/server.json")
    patch = write_raster(
        tmp_path / "patch.tif", noise(3, 60, 60, 5), grid(900100, 6499900, 5), "EPSG:2154"
    )
    words = command(ortho, place, "--update")
    words.insert(words.index(str(ortho)) + 1, str(patch))
    updated = run(words)
    assert updated.returncode == 0, updated.stderr
    (built,) = [json.loads(line) for line in updated.stdout.splitlines() if '"built"' in line]
    assert built["built"] > 0
    assert built["unchanged"] > 5
    after = tiles(tmp_path / "server/server.json")
    assert after != before
    equal = [name for name in before if after.get(name) == before[name]]
    assert len(equal) > 5
    assert run(command(ortho, place, "--verify", "full")).returncode == 0
    # Rollback is one object.
    words = [*MASTABA, "pyramid", "rollback", "ortho", "--output", place]
    assert run(words).returncode == 0
    assert tiles(tmp_path / "server/server.json") == before


def test_joined_pyramids_link_to_slabs_of_a_store(
    place: str, ortho: Path, tmp_path: Path, command: Callable[..., list[str]]
) -> None:
    beside = write_raster(
        tmp_path / "beside.tif", noise(3, 700, 900, 5), grid(903000, 6500000, 5), "EPSG:2154"
    )
    for number, output in enumerate((str(tmp_path / "files"), f"{place}/joined")):
        for name, source in (("one", ortho), ("two", beside)):
            built = run(command(source, output, "--name", name, "--server", str(tmp_path / "s")))
            assert built.returncode == 0, built.stderr
        sources = [f"{output}/{name}.json" for name in ("one", "two")]
        for words in (["join", *sources, "--name", "ortho"], ["head", "ortho", "--from", "13"]):
            done = run([*MASTABA, "pyramid", *words, "--output", output, "--json"])
            assert done.returncode == 0, done.stderr
            (totals,) = [json.loads(line) for line in done.stdout.splitlines() if '"built"' in line]
            assert totals["built"] > 0
            assert totals["unchanged"] > 1
        assert run(command(ortho, output, "--verify", "full")).returncode == 0
        layer = json.loads((tmp_path / "files/ortho.layer.json").read_text())
        for pyramid in layer["pyramids"]:
            pyramid["path"] = f"{output}/ortho.json"
        write_installation(
            tmp_path / f"served{number}",
            layers={"ortho": layer},
            tile_matrix_sets={},
            services=installed_services(),
            public_url="http://localhost",
        )
    served = tiles(tmp_path / "served1/server.json")
    assert len(served) > 30
    assert served == tiles(tmp_path / "served0/server.json")


def test_a_pyramid_in_a_store_is_a_source(
    place: str,
    ortho: Path,
    tmp_path: Path,
    command: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for output in (f"{place}/source", str(tmp_path / "files")):
        built = run(command(ortho, output, "--masks", "--server", str(tmp_path / "s")))
        assert built.returncode == 0, built.stderr
    # A further version: most of its slabs are symbolic objects.
    patch = write_raster(
        tmp_path / "patch.tif", noise(3, 60, 60, 5), grid(900100, 6499900, 5), "EPSG:2154"
    )
    for output in (f"{place}/source", str(tmp_path / "files")):
        words = command(ortho, output, "--masks", "--server", str(tmp_path / "s"), "--update")
        words.insert(words.index(str(ortho)) + 1, str(patch))
        updated = run(words)
        assert updated.returncode == 0, updated.stderr
    found = []
    for number, source in enumerate((f"{place}/source/ortho.json", tmp_path / "files/ortho.json")):
        output = tmp_path / f"again{number}"
        words = [*MASTABA, "build", str(source), "--output", str(output), "--name", "again"]
        again = run([*words, "--format", "png", "--channels", "4", "--slab", "4x4"])
        assert again.returncode == 0, again.stderr
        found.append(checksums(output / "again"))
    assert len(found[0]) > 5
    assert found[0] == found[1]
    missing = run([*MASTABA, "build", f"{place}/none.json", "--output", str(tmp_path / "none")])
    assert missing.returncode == 2
    assert "none.json: cannot be read" in missing.stderr
    for name in [name for name in os.environ if name.endswith(("_SECRETKEY", "_PASSWD"))]:
        monkeypatch.setenv(name, "wrong")
    if not place.startswith("ceph"):
        words = [*MASTABA, "build", f"{place}/source/ortho.json", "--name", "denied"]
        denied = run([*words, "--output", str(tmp_path / "denied")])
        assert denied.returncode == 2
        assert "ortho.json: cannot be read" in denied.stderr
        assert "Traceback" not in denied.stderr
        assert not (tmp_path / "denied").exists()


def test_a_killed_build_resumes(
    in_s3: Place,
    ortho: Path,
    tmp_path: Path,
    command: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output, variables = in_s3
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    words = command(ortho, f"{output}/killed", "--workers", "2")
    generator = random.Random(5)
    slabs = kills = 0
    for _ in range(20):
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            wanted = generator.randint(0, 4)
            for line in process.stdout:
                slabs += '"event": "slab"' in line
                wanted -= '"event": "slab"' in line
                if wanted < 0:
                    os.kill(process.pid, signal.SIGKILL)
                    kills += 1
                    break
        if process.returncode == 0:
            break
    final = run(words)
    assert final.returncode == 0, final.stderr
    slabs += final.stdout.count('"event": "slab"')
    record = run([*words, "--verify", "full"])
    assert record.returncode == 0, record.stderr
    (verified,) = [json.loads(line) for line in record.stdout.splitlines() if "verified" in line]
    assert kills >= 5
    # A kill costs at most the slabs in the workers and those that were not yet reported.
    assert slabs <= verified["slabs"] + 8 + kills * 4


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("MASTABA_S3_SECRETKEY", "wrong", "403"),
        ("MASTABA_S3_URL", "http://127.0.0.1:1", "does not answer"),
        ("OUTPUT", "s3://no-such-bucket/maps", "NoSuchBucket"),
    ],
)
def test_an_unusable_store_is_named(
    in_s3: Place,
    ortho: Path,
    command: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    text: str,
    message: str,
) -> None:
    output, variables = in_s3
    for key, value in variables.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv(name, text)
    monkeypatch.setenv("MASTABA_OBJECT_ATTEMPTS_WAIT", "0")
    words = command(ortho, os.environ.get("OUTPUT", output))
    failed = run(words)
    assert failed.returncode == 1
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr


def test_a_second_builder_elsewhere_is_refused(
    place: str, ortho: Path, tmp_path: Path, command: Callable[..., list[str]]
) -> None:
    words = command(ortho, f"{place}/twice")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert any('"event": "slab"' in line for line in first.stdout)
        first.send_signal(signal.SIGSTOP)
        second = run([*words, "--work", str(tmp_path / "other")])
        first.send_signal(signal.SIGKILL)
    assert second.returncode == 3
    assert f"process {first.pid} builds this pyramid" in second.stderr
    assert run(words).returncode == 0
