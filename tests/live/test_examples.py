"""The examples and what ``mastaba new`` writes: installed, tested and served."""

from __future__ import annotations

import io
import shutil
import sqlite3
import tomllib
from pathlib import Path

import pytest
from PIL import Image
from tests.live.environments import Environment, create
from tests.live.examples import check_tiles, get, installed, served, vector_pyramid_in
from tests.live.processes import REPOSITORY

from mastaba_conformance.tiny_installation import tiny_installation

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]

EXAMPLES = sorted(path.parent for path in (REPOSITORY / "examples").glob("*/pyproject.toml"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the core, the conformance tests and TMS, but no example."""
    environment = create(tmp_path_factory.mktemp("examples") / "venv")
    names = ("mastaba", "mastaba-writer", "mastaba-conformance", "mastaba-tms")
    environment.install(*map(environment.wheel, names), "mypy", "ruff")
    return environment


@pytest.fixture(scope="module")
def types(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which mypy keeps what it knows about the libraries."""
    return tmp_path_factory.mktemp("types")


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_own_tests_of_an_example_pass(
    folder: Path, environment: Environment, tmp_path: Path
) -> None:
    name = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]["name"]
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with installed(environment, copy, name):
        # Fork tests of the kit warn about threads from Python 3.12 on.
        environment.run("python", "-m", "pytest", "-q", "-W", "error", "--mastaba-report", cwd=copy)


@pytest.mark.parametrize("kind", ["storage", "service", "encoder", "container"])
def test_new_distribution_passes_its_tests_at_once(
    kind: str, environment: Environment, types: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    environment.run("mastaba", "new", kind, "my_own", "--directory", folder)
    name = "mastaba-storage-my-own" if kind == "storage" else "mastaba-my-own"
    with installed(environment, folder, name):
        environment.run("pytest", "-q", "--mastaba-report", cwd=folder)
        environment.run("mypy", "--cache-dir", types, cwd=folder)
        environment.run("ruff", "check", "--no-cache", cwd=folder)
        environment.run("ruff", "format", "--check", "--no-cache", cwd=folder)


def test_tiles_come_from_sqlite(environment: Environment, tmp_path: Path) -> None:
    storage = {"type": "SQLITE", "database_name": "maps"}
    server_json, slabs, descriptor = vector_pyramid_in(tmp_path / "site", storage, "vector/")
    with sqlite3.connect(tmp_path / "maps.sqlite") as database:
        database.execute(
            "CREATE TABLE objects (key TEXT PRIMARY KEY, version TEXT NOT NULL, data BLOB NOT NULL)"
        )
        objects = {**slabs, "vector/vector.json": descriptor}
        rows = [(key, "1", data) for key, data in objects.items()]
        database.executemany("INSERT INTO objects VALUES (?, ?, ?)", rows)
    database.close()
    with (
        installed(environment, REPOSITORY / "examples/storage-sqlite", "mastaba-storage-sqlite"),
        served(environment, server_json, tmp_path, MASTABA_SQLITE_DIRECTORY=str(tmp_path)) as url,
    ):
        check_tiles(url)


def test_tiles_are_drawn_in_the_grid_of_the_web(environment: Environment, tmp_path: Path) -> None:
    section = {"slippy": {"enabled": True}}
    server_json = tiny_installation(tmp_path / "site", services=[], services_overrides=section)
    with (
        installed(environment, REPOSITORY / "examples/slippy-tiles", "mastaba-slippy-tiles"),
        served(environment, server_json, tmp_path) as url,
    ):
        assert "RGB_JPG" in get(f"{url}/slippy").json()
        for layer in ("RGB_PNG", "RGB_JPG", "FLOAT32_ZIP"):
            response = get(f"{url}/slippy/{layer}/3/4/2.png")
            assert response.status == 200, response.data
            image = Image.open(io.BytesIO(response.data))
            assert (image.format, image.size) == ("PNG", (256, 256))
            again = {"If-None-Match": response.headers["ETag"]}
            assert get(f"{url}/slippy/{layer}/3/4/2.png", **again).status == 304
        assert get(f"{url}/slippy/RGB_JPG/3/8/0.png").status == 404


def test_maps_are_avif(environment: Environment, tmp_path: Path) -> None:
    formats = {"global": {"map": {"formats": ["image/avif"]}}}
    server_json = tiny_installation(
        tmp_path / "site",
        services=["wms"],
        services_overrides=formats,
        server_overrides={"plugins": {"avif": {"quality": 90}}},
    )
    environment.install(environment.wheel("mastaba-wms"))
    query = (
        "SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_PNG&STYLES=&CRS=EPSG:3857"
        "&BBOX=0,0,5000000,5000000&WIDTH=200&HEIGHT=100&FORMAT=image/avif"
    )
    with (
        installed(environment, REPOSITORY / "examples/avif", "mastaba-avif"),
        served(environment, server_json, tmp_path) as url,
    ):
        response = get(f"{url}/wms?{query}")
        assert response.headers["Content-Type"] == "image/avif", response.data
        image = Image.open(io.BytesIO(response.data))
        assert (image.format, image.size) == ("AVIF", (200, 100))
        small = get(f"{url}/wms?{query}&FORMAT_OPTIONS=quality:10")
        assert len(small.data) < len(response.data)


def test_middleware_in_one_file_adds_its_header(environment: Environment, tmp_path: Path) -> None:
    server_json = tiny_installation(tmp_path / "site", services=["tms"])
    directory = str(REPOSITORY / "examples/one-file")
    with served(environment, server_json, tmp_path, MASTABA_PLUGINS_DIR=directory) as url:
        assert (
            get(f"{url}/tms/1.0.0/VECTOR/3/4/2.pbf").headers["Server-Timing"].startswith("total;")
        )
