"""Each distribution alone with the core, with the lowest and the newest versions it allows."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from tests.live.environments import Environment, create
from tests.live.installations import projects
from tests.live.processes import REPOSITORY

pytestmark = pytest.mark.live

FOLDERS = [project.parent for project in projects()]

# Quick tests of each distribution that need no other one: its conformance tests, if it has any.
TESTS = {
    "core": ["core/slab"],
    "admin": ["admin/test_plugin.py"],
    "build": ["build/test_bad_input.py"],
    "conformance": ["conformance/test_serving.py"],
    "demo": ["demo/test_hydrology.py"],
    "doctor": ["doctor/test_slab.py"],
    "metrics": ["metrics/test_metrics.py"],
    "ogcapi": ["ogcapi/test_plugin.py"],
    "storage_ceph": ["storage_ceph/test_settings.py"],
    "storage_s3": ["storage_s3/test_settings.py"],
    "storage_swift": ["storage_swift/test_tokens.py"],
    "tms": ["tms/test_paths.py"],
    "viewer": ["viewer/test_data.py"],
    "wms": ["wms/test_formats.py"],
    "wmts": ["wmts/test_plugin.py"],
    "writer": ["writer/test_slab_writer.py"],
}

# Tests in these files that need another distribution.
DESELECTED = {
    "admin": "test_the_check_of_a_configuration_says_so",  # mastaba check: doctor
}

# Imports every module of a package and prints the packages of ours that are then loaded.
_IMPORT_ALL = """
import importlib, json, pathlib, sys
root = pathlib.Path(importlib.import_module(sys.argv[1]).__file__).parent
for path in root.rglob("*.py"):
    parts = path.relative_to(root.parent).with_suffix("").parts
    if parts[-1] != "__main__":
        importlib.import_module(".".join(part for part in parts if part != "__init__"))
ours = {name.partition(".")[0] for name in sys.modules if name.startswith("mastaba")}
print(json.dumps(sorted(ours)))
"""


@pytest.mark.parametrize("versions", ["lowest", "newest"])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_distribution_works_alone(folder: Path, versions: str, tmp_path: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    package = next(path.parent.name for path in (folder / "src").glob("*/__init__.py"))
    environment = create(tmp_path / "venv")
    lowest = versions == "lowest"
    environment.install(
        *("-r", REPOSITORY / "core/pyproject.toml", "-r", folder / "pyproject.toml"),
        *(environment.wheel("mastaba"), environment.wheel(project["name"])),
        lowest=lowest,
    )
    installed = environment.versions()

    environment.run("mastaba", "plugins", "--check")
    loaded = set(json.loads(environment.run("python", "-c", _IMPORT_ALL, package)))
    allowed = {"mastaba", package}
    if any(text.startswith("mastaba-writer") for text in project["dependencies"]):
        allowed.add("mastaba_writer")
    assert loaded <= allowed

    _run_tests(environment, folder.name)
    # The tests have tools of their own, which must not replace what is tested.
    after = environment.versions()
    assert {name: after[name] for name in installed} == installed


def _run_tests(environment: Environment, name: str) -> None:
    pins = [f"{name}=={version}" for name, version in environment.versions().items()]
    ours = [environment.wheel(name) for name in ("mastaba-conformance", "mastaba-writer")]
    environment.install(*ours, *pins, "pytest-timeout>=2.4")
    tests = [f"tests/{path}" for path in TESTS[name]]
    chosen = ["-k", f"not ({DESELECTED[name]})"] if name in DESELECTED else []
    options = ["-q", "-p", "no:cacheprovider", *chosen]
    environment.run("python", "-m", "pytest", *options, *tests)
