"""Each distribution alone with the core, with the lowest and the newest versions it allows."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from tests.live.environments import Environment, create
from tests.live.installations import cache_folder, projects
from tests.live.processes import REPOSITORY

pytestmark = pytest.mark.live

FOLDERS = [project.parent for project in projects()]

# Quick tests of each distribution that need no other one: its conformance tests, if it has any.
TESTS = {
    "core": ["core/slab"],
    "admin": ["admin/test_plugin.py"],
    "builder": ["build/test_file_writer.py", "build/test_styles.py"],
    "conformance": ["conformance/test_serving.py"],
    "demo": ["demo/test_hydrology.py"],
    "doctor": ["doctor/test_slab.py"],
    "edge": ["edge/test_purging.py"],
    "http": ["http/test_fetch.py", "http/test_storage.py"],
    "elevation": ["elevation/test_conformance.py"],
    "index_store": ["index_store/test_files.py"],
    "metrics": ["metrics/test_metrics.py"],
    "ogcapi": ["ogcapi/test_conformance.py"],
    "ows": ["ows"],
    "render": ["render/encoding/test_registration.py", "render/encoding/test_tiff.py"],
    "server": ["server/test_params.py", "server/test_fastcgi_protocol.py"],
    "storage_ceph": ["storage_ceph/test_settings.py"],
    "storage_s3": ["storage_s3/test_settings.py"],
    "storage_swift": ["storage_swift/test_tokens.py"],
    "tms": ["tms/test_paths.py"],
    "viewer": ["viewer/test_page.py"],
    "wms": ["wms/test_formats.py"],
    "wmts": ["wmts/test_conformance.py"],
    "writer": ["writer/test_slab_writer.py"],
}

# Tests in these files that need another distribution.
DESELECTED = {
    "admin": ["test_the_check_of_a_configuration_says_so"],
    "conformance": ["test_installation_uses_the_public_url"],
    "edge": [
        "test_a_layer_is_purged_by_hand",
        "test_an_invalid_address_of_a_cache_is_reported",
    ],
    "metrics": [
        "test_caches_and_storages",
        "test_counters_survive_worker_restarts_and_reloads",
        "test_each_worker_reports_the_counters_of_all",
        "test_metrics_are_available_while_services_are_turned_off",
        "test_operations_that_a_service_names",
        "test_requests_by_service_operation_and_status",
        "test_storage_errors_are_counted_and_absent_objects_are_not_errors",
        "test_the_duration_histogram_is_consistent",
    ],
    "storage_s3": ["test_libraries_are_loaded_for_the_first_layer_only"],
    "viewer": [
        "test_content_security_policy_is_strict",
        "test_first_page_of_the_server",
        "test_list_links_to_the_pages_of_other_services",
    ],
}

# Libraries of tests, beside those of the conformance kit.
LIBRARIES = {"ogcapi": ["openapi-schema-validator"]}

# Imports every module of a package, but those that need libraries of an extra, and prints the
# packages of ours that are then loaded.
_IMPORT_ALL = """
import importlib, json, pathlib, sys
root = pathlib.Path(importlib.import_module(sys.argv[1]).__file__).parent
for path in root.rglob("*.py"):
    parts = path.relative_to(root.parent).with_suffix("").parts
    if parts[-1] != "__main__":
        try:
            importlib.import_module(".".join(part for part in parts if part != "__init__"))
        except ModuleNotFoundError as error:
            if error.name not in sys.argv[2:]:
                raise
ours = {name.partition(".")[0] for name in sys.modules if name.startswith("mastaba")}
print(json.dumps(sorted(ours)))
"""


@pytest.mark.parametrize("versions", ["lowest", "newest"])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_distribution_works_alone(folder: Path, versions: str) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    package = next(path.parent.name for path in (folder / "src").glob("*/__init__.py"))
    environment = create(cache_folder() / f"alone-{versions}")
    lowest = versions == "lowest"
    environment.install(
        *("-r", REPOSITORY / "core/pyproject.toml", "-r", folder / "pyproject.toml"),
        *(environment.wheel("mastaba"), environment.wheel(project["name"])),
        lowest=lowest,
    )
    installed = environment.versions()

    environment.run("mastaba", "plugins", "--check")
    extras = [
        re.split(r"[^\w]", line)[0]
        for lines in project.get("optional-dependencies", {}).values()
        for line in lines
    ]
    loaded = set(json.loads(environment.run("python", "-c", _IMPORT_ALL, package, *extras)))
    allowed = {"mastaba", "mastaba_server", package}
    ours = (re.match(r"mastaba-\w+", text) for text in project["dependencies"])
    allowed |= {found[0].replace("-", "_") for found in ours if found}
    assert loaded <= allowed

    _run_tests(environment, folder.name)
    # The tests have tools of their own, which must not replace what is tested.
    after = environment.versions()
    assert {name: after[name] for name in installed} == installed


def _run_tests(environment: Environment, name: str) -> None:
    pins = [f"{name}=={version}" for name, version in environment.versions().items()]
    ours = [environment.wheel(name) for name in ("mastaba-conformance", "mastaba-writer")]
    environment.install(*ours, *pins, "pytest-timeout>=2.4", *LIBRARIES.get(name, []))
    tests = [f"tests/{path}" for path in TESTS[name]]
    chosen = ["-k", f"not ({' or '.join(DESELECTED[name])})"] if name in DESELECTED else []
    options = ["-q", "-m", "not live and not thorough", "-p", "no:cacheprovider", *chosen]
    environment.run("python", "-m", "pytest", *options, *tests)
