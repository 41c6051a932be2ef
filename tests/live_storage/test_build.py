"""Pyramids built into real object stores, and served from there."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.build.ground import checksums, grid, noise, write_raster
from tests.fork_server import KILLS_IT, STOPS_IT, ForkServer
from tests.live_storage.conftest import Store, s3_writer, swift_writer
from tests.sizes import sized
from werkzeug.test import Client

from mastaba.wsgi import create_application
from mastaba_writer.installation import installed_services, write_installation

# A second worker takes longer to start than such a build.
OPTIONS = ("--slab", "2x2", "--format", "jpg", "--name", "ortho", "--json", "--workers", "1")
Place = tuple[str, Mapping[str, str]]
Command = Callable[..., list[str]]


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


@pytest.fixture(params=["in_s3", "in_swift", "in_ceph"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The place of a build; its credentials are in the environment."""
    output, variables = request.getfixturevalue(request.param)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    return str(output)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sources")


@pytest.fixture(scope="module")
def ortho(folder: Path) -> Path:
    pixels, transform = noise(3, 700, 900), grid(900000, 6500000, 5)
    return write_raster(folder / "ortho.tif", pixels, transform, "EPSG:2154")


@pytest.fixture(scope="module")
def patch(folder: Path) -> Path:
    """A second source, in the middle of the first."""
    pixels, transform = noise(3, 60, 60, 5), grid(900100, 6499900, 5)
    return write_raster(folder / "patch.tif", pixels, transform, "EPSG:2154")


@pytest.fixture(scope="module")
def beside(folder: Path) -> Path:
    """A source beside the first."""
    pixels, transform = noise(3, 700, 900, 5), grid(903000, 6500000, 5)
    return write_raster(folder / "beside.tif", pixels, transform, "EPSG:2154")


def words_of(local: Path, source: Path, output: str, *more: str | Path) -> list[str]:
    """Return the words of a build that keeps its local files in a folder.

    Args:
        more: further sources and options.
    """
    own = ("--work", str(local / "work"), "--server", str(local / "server"))
    return ["build", "--output", output, *OPTIONS, *own, str(source), *map(str, more)]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return `words_of` with the folder of the test."""
    return partial(words_of, tmp_path)


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


@pytest.fixture(scope="module")
def tiles_in_files(
    mastaba: ForkServer, ortho: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    """The tiles of a build in files."""
    folder = tmp_path_factory.mktemp("files")
    built = mastaba.run(*words_of(folder, ortho, str(folder / "files")))
    assert built.returncode == 0, built.stderr
    return tiles(folder / "server/server.json")


# Only this test also runs with the S3 of Swift. The others ask nothing more of it than of the S3 of
# Ceph and of Swift itself; the tests of the driver cover each of its operations.
@pytest.mark.parametrize("place", ["in_s3", "in_s3_of_swift", "in_swift", "in_ceph"], indirect=True)
def test_tiles_from_a_store_are_those_from_files(
    mastaba: ForkServer,
    place: str,
    ortho: Path,
    tmp_path: Path,
    command: Command,
    tiles_in_files: dict[str, bytes],
) -> None:
    in_store = mastaba.run(*command(ortho, place), "--workers", "2")
    assert in_store.returncode == 0, in_store.stderr
    assert mastaba.run(*command(ortho, place, "--verify", "full")).returncode == 0
    served = tiles(tmp_path / "server/server.json")
    assert len(served) > 30
    assert served == tiles_in_files


def test_a_template_finds_the_pyramids_of_a_store(
    mastaba: ForkServer, place: str, ortho: Path, patch: Path, tmp_path: Path, command: Command
) -> None:
    for year, source in (("1950", patch), ("2023", ortho)):
        built = mastaba.run(*command(source, place, "--replace", "--name", f"year_{year}"))
        assert built.returncode == 0, built.stderr
    (descriptor,) = (tmp_path / "server").rglob("year_2023.json")
    document = json.loads(descriptor.read_text("utf-8"))
    document["dimensions"] = [{"name": "time"}]
    document["variants"] = {"template": f"{place}/year_{{time}}.json"}
    descriptor.write_text(json.dumps(document), "utf-8")
    application = create_application(str(tmp_path / "server/server.json"))
    catalogue = application.site.catalogue
    (values,) = catalogue.values_of(catalogue.layers["year_2023"])
    assert list(values.texts) == ["1950", "2023"]
    client = Client(application)
    for year in values.texts:
        layer = catalogue.resolve("year_2023", {"time": year}).layer
        limits = layer.pyramid.finest.limits
        name = f"{layer.pyramid.finest.matrix.id}/{limits.min_col}/{limits.min_row}"
        answer = client.get(f"/tms/1.0.0/year_2023;time={year}/{name}.jpeg")
        assert answer.status_code == 200, answer.data
    catalogue.storages.close()


def test_an_update_links_to_unchanged_slabs(
    mastaba: ForkServer, place: str, ortho: Path, patch: Path, tmp_path: Path, command: Command
) -> None:
    assert mastaba.run(*command(ortho, place, "--replace")).returncode == 0
    before = tiles(tmp_path / "server/server.json")
    updated = mastaba.run(*command(ortho, place, patch, "--update"))
    assert updated.returncode == 0, updated.stderr
    (built,) = [json.loads(line) for line in updated.stdout.splitlines() if '"built"' in line]
    assert built["built"] > 0
    assert built["unchanged"] > 5
    after = tiles(tmp_path / "server/server.json")
    assert after != before
    equal = [name for name in before if after.get(name) == before[name]]
    assert len(equal) > 5
    assert mastaba.run(*command(ortho, place, "--verify", "full")).returncode == 0
    # Rollback is one object.
    assert mastaba.run("pyramid", "rollback", "ortho", "--output", place).returncode == 0
    assert tiles(tmp_path / "server/server.json") == before


def join(mastaba: ForkServer, ortho: Path, beside: Path, output: str, local: Path) -> None:
    """Build two pyramids, join them and draw the levels above."""
    for name, source in (("one", ortho), ("two", beside)):
        built = mastaba.run(*words_of(local, source, output, "--name", name))
        assert built.returncode == 0, built.stderr
    sources = [f"{output}/{name}.json" for name in ("one", "two")]
    for words in (["join", *sources, "--name", "ortho"], ["head", "ortho", "--from", "13"]):
        done = mastaba.run("pyramid", *words, "--output", output, "--json")
        assert done.returncode == 0, done.stderr
        (totals,) = [json.loads(line) for line in done.stdout.splitlines() if '"built"' in line]
        assert totals["built"] > 0
        assert totals["unchanged"] > 1
    assert mastaba.run(*words_of(local, ortho, output, "--verify", "full")).returncode == 0


def tiles_of(layer: dict[str, Any], output: str, folder: Path) -> dict[str, bytes]:
    """Return all tiles of a layer whose pyramid is in a place."""
    pyramids = [{**pyramid, "path": f"{output}/ortho.json"} for pyramid in layer["pyramids"]]
    server_json = write_installation(
        folder,
        layers={"ortho": {**layer, "pyramids": pyramids}},
        tile_matrix_sets={},
        services=installed_services(),
        public_url="http://localhost",
    )
    return tiles(server_json)


@pytest.fixture(scope="module")
def joined_in_files(
    mastaba: ForkServer, ortho: Path, beside: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The layer of a joined pyramid in files, and its tiles."""
    folder = tmp_path_factory.mktemp("joined")
    output = str(folder / "files")
    join(mastaba, ortho, beside, output, folder)
    layer = json.loads((folder / "files/ortho.layer.json").read_text())
    return layer, tiles_of(layer, output, folder / "served")


def test_joined_pyramids_link_to_slabs_of_a_store(
    mastaba: ForkServer,
    place: str,
    ortho: Path,
    beside: Path,
    tmp_path: Path,
    joined_in_files: tuple[dict[str, Any], dict[str, bytes]],
) -> None:
    layer, expected = joined_in_files
    join(mastaba, ortho, beside, f"{place}/joined", tmp_path)
    served = tiles_of(layer, f"{place}/joined", tmp_path / "served")
    assert len(served) > 30
    assert served == expected


AGAIN = ("--name", "again", "--format", "png", "--channels", "4", "--slab", "4x4", "--workers", "1")


def checksums_of_a_build_from(
    mastaba: ForkServer, ortho: Path, patch: Path, source: str, local: Path
) -> dict[str, bytes]:
    """Build two versions of a pyramid, and another one from it; return the files of that."""
    for more in ((), (patch, "--update")):
        # Most slabs of the second version are symbolic objects, or links.
        built = mastaba.run(*words_of(local, ortho, source, *more, "--masks"))
        assert built.returncode == 0, built.stderr
    words = ("build", f"{source}/ortho.json", "--output", str(local / "again"))
    again = mastaba.run(*words, *AGAIN)
    assert again.returncode == 0, again.stderr
    return checksums(local / "again/again")


@pytest.fixture(scope="module")
def drawn_from_files(
    mastaba: ForkServer, ortho: Path, patch: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    """The files of a pyramid that is built from one in files."""
    folder = tmp_path_factory.mktemp("again")
    return checksums_of_a_build_from(mastaba, ortho, patch, str(folder / "files"), folder)


def test_a_pyramid_in_a_store_is_a_source(
    mastaba: ForkServer,
    place: str,
    ortho: Path,
    patch: Path,
    tmp_path: Path,
    drawn_from_files: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = f"{place}/source"
    found = checksums_of_a_build_from(mastaba, ortho, patch, source, tmp_path)
    assert len(found) > 5
    assert found == drawn_from_files
    missing = mastaba.run("build", f"{place}/none.json", "--output", str(tmp_path / "none"))
    assert missing.returncode == 2
    assert "none.json: cannot be read" in missing.stderr
    for name in [name for name in os.environ if name.endswith(("_SECRETKEY", "_PASSWD"))]:
        monkeypatch.setenv(name, "wrong")
    if not place.startswith("ceph"):
        words = ("build", f"{source}/ortho.json", "--name", "denied")
        denied = mastaba.run(*words, "--output", str(tmp_path / "denied"))
        assert denied.returncode == 2
        assert "ortho.json: cannot be read" in denied.stderr
        assert "Traceback" not in denied.stderr
        assert not (tmp_path / "denied").exists()


def test_a_killed_build_resumes(
    mastaba: ForkServer,
    in_s3: Place,
    ortho: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output, variables = in_s3
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    words = command(ortho, f"{output}/killed", "--workers", "2")
    generator = random.Random(5)
    slabs = kills = 0
    for _ in range(sized(8, 20)):
        killed = mastaba.run(*words, after=generator.randint(1, 5), by=KILLS_IT)
        slabs += killed.stdout.count('"event": "slab"')
        if killed.returncode == 0:
            break
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        kills += 1
    final = mastaba.run(*words)
    assert final.returncode == 0, final.stderr
    slabs += final.stdout.count('"event": "slab"')
    record = mastaba.run(*words, "--verify", "full")
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
    mastaba: ForkServer,
    in_s3: Place,
    ortho: Path,
    command: Command,
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
    failed = mastaba.run(*command(ortho, os.environ.get("OUTPUT", output)))
    assert failed.returncode == 1
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr


def test_a_second_builder_elsewhere_is_refused(
    mastaba: ForkServer, place: str, ortho: Path, tmp_path: Path, command: Command
) -> None:
    words = command(ortho, f"{place}/twice")
    with mastaba.running(*words, after=1, by=STOPS_IT) as first:
        assert any('"event": "slab"' in line for line in first.output)
        os.kill(first.pid, signal.SIGSTOP)
        second = mastaba.run(*words, "--work", str(tmp_path / "other"))
    assert second.returncode == 3
    assert f"process {first.pid} builds this pyramid" in second.stderr
    assert mastaba.run(*words).returncode == 0


def test_a_pyramid_is_copied_into_a_store_and_back(
    mastaba: ForkServer, place: str, ortho: Path, patch: Path, tmp_path: Path
) -> None:
    for more in ((), (patch, "--update")):
        built = mastaba.run(*words_of(tmp_path, ortho, str(tmp_path / "files"), *more, "--masks"))
        assert built.returncode == 0, built.stderr
    copies = (
        (tmp_path / "files", f"{place}/copied"),
        (f"{place}/copied", f"{place}/further"),
        (f"{place}/further", tmp_path / "back"),
    )
    for source, target in copies:
        words = ("pyramid", "copy", f"{source}/ortho.json", str(target), "--verify", "full")
        copied = mastaba.run(*words)
        assert copied.returncode == 0, copied.stderr
    for folder in ("ortho", "ortho_2"):
        found = checksums(tmp_path / "back" / folder)
        assert len(found) > 5
        assert found == checksums(tmp_path / "files" / folder)
    links = [path for path in (tmp_path / "files").rglob("*.tif") if path.is_symlink()]
    assert links
    for path in links:
        assert (tmp_path / "back" / path.relative_to(tmp_path / "files")).is_symlink()
