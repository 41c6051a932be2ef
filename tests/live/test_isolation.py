"""Each distribution alone with the lowest versions it allows, and all with the newest."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.live.environments import Environment, create
from tests.live.installations import cache_folder, projects
from tests.live.processes import REPOSITORY

# .ci/run gives them only the time that its other steps leave.
pytestmark = [pytest.mark.live, pytest.mark.timeout(3600)]

FOLDERS = [project.parent for project in projects()]

# Quick tests of each distribution that need no other one: its conformance tests, if it has any.
# Those of the libraries below the core run without it.
TESTS = {
    "core": [
        f"core/slab/test_{name}.py" for name in ("delivery", "index", "index_cache", "layout")
    ],
    "access": [f"access/identification/test_{name}.py" for name in ("fronts", "signed")],
    "access_oidc": ["access_oidc/test_oidc.py"],
    "admin": ["admin/test_plugin.py"],
    "builder": ["build/test_file_writer.py", "build/test_styles.py"],
    "conformance": ["conformance/test_serving.py"],
    "demo": ["demo/test_hydrology.py"],
    "dimensions": ["dimensions/test_resolution.py"],
    "doctor": ["doctor/test_header.py", "doctor/test_duplicates.py"],
    "edge": ["edge/test_purging.py"],
    "container_cog": ["container_cog/test_alone.py"],
    "container_pmtiles": ["container_pmtiles/test_directories.py"],
    "container_sqlite": ["container_sqlite/test_database.py"],
    "containers": ["containers/test_payloads.py"],
    "coverage": ["coverage/test_cells.py"],
    "export": ["export/test_selection.py"],
    "history": ["history/test_conformance.py"],
    "http": ["http/test_fetch.py", "http/test_storage.py"],
    "documents": ["documents"],
    "elevation": ["elevation/test_conformance.py"],
    "index_store": ["index_store/test_files.py"],
    "metrics": ["metrics/test_metrics.py"],
    "ogcapi": ["ogcapi/test_conformance.py"],
    "ows": ["ows"],
    "render": ["render/encoding/test_registration.py", "render/encoding/test_tiff.py"],
    "provenance": ["provenance/test_conformance.py"],
    "serve": ["serve/test_command.py"],
    "server": [
        "server/test_params.py",
        "server/test_fastcgi_protocol.py",
        "server/test_http_protocol.py",
        "server/test_listener.py",
    ],
    "storage": ["storage/test_path.py", "storage/test_retry.py"],
    "storage_ceph": ["storage_ceph/test_settings.py"],
    "storage_http": ["storage_http/test_hosts.py"],
    "storage_s3": ["storage_s3/test_settings.py"],
    "storage_swift": ["storage_swift/test_tokens.py"],
    "styles": ["styles/test_glyphs.py"],
    "tms": ["tms/test_paths.py"],
    "usage": ["usage/test_usage.py"],
    "viewer": ["viewer/test_page.py"],
    "wcs": ["wcs/test_conformance.py"],
    "wms": ["wms/test_formats.py"],
    "wmts": ["wmts/test_conformance.py"],
    "writer": ["writer/test_slab_writer.py"],
}

# Tests in these files that need another distribution. All of them run with the newest versions.
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
        "test_operations",
        "test_requests_by_service_operation_and_status",
        "test_storage_errors_are_counted_and_absent_objects_are_not_errors",
        "test_the_duration_histogram_is_consistent",
    ],
    "serve": ["test_files_are_served_until_they_are_stopped"],
    "storage_s3": ["test_libraries_are_loaded_for_the_first_layer_only"],
    "viewer": [
        "test_content_security_policy_is_strict",
        "test_first_page_of_the_server",
        "test_list_links_to_the_pages_of_other_services",
        "test_default_titles_of_services_are_translated",
        "test_translated_titles_are_those_of_the_services",
        "test_usual_title_of_a_style_is_translated",
    ],
}

# Libraries of tests, beside those of the conformance kit.
LIBRARIES = {"access_oidc": ["pyjwt"], "ogcapi": ["openapi-schema-validator"]}

# Examines the plugins, imports every module of a package but those that need libraries of an extra,
# and prints the packages of ours that are then loaded.
_IMPORT_ALL = """
import importlib, json, pathlib, sys
package, *extras = sys.argv[1:]
if package not in ("mastaba_server", "mastaba_storage", "mastaba_documents", "mastaba_http"):
    from mastaba.commands.main import main
    assert main(["plugins", "--check"]) == 0
root = pathlib.Path(importlib.import_module(package).__file__).parent
for path in root.rglob("*.py"):
    parts = path.relative_to(root.parent).with_suffix("").parts
    if parts[-1] != "__main__":
        try:
            importlib.import_module(".".join(part for part in parts if part != "__init__"))
        except ModuleNotFoundError as error:
            if error.name.lower() not in extras:
                raise
ours = {name.partition(".")[0] for name in sys.modules if name.startswith("mastaba")}
print(json.dumps(sorted(ours)))
"""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_distribution_works_alone(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    package = next(path.parent.name for path in (folder / "src").glob("*/__init__.py"))
    needs_core = folder.name not in ("server", "storage", "documents", "http")
    names = dict.fromkeys(["mastaba", project["name"]] if needs_core else [project["name"]])
    environment = create(cache_folder() / "alone")
    environment.install(
        *(("-r", REPOSITORY / "core/pyproject.toml") if needs_core else ()),
        *("-r", folder / "pyproject.toml", *map(environment.wheel, names)),
        lowest=True,
    )
    installed = environment.versions()

    extras = [
        re.split(r"[^\w-]", line)[0].replace("-", "_").lower()
        for lines in project.get("optional-dependencies", {}).values()
        for line in lines
    ]
    printed = environment.run("python", "-c", _IMPORT_ALL, package, *extras)
    loaded = set(json.loads(printed.splitlines()[-1]))
    of_core = {"mastaba", "mastaba_server", "mastaba_storage", "mastaba_documents"}
    allowed = of_core if needs_core else set[str]()
    ours = (re.match(r"mastaba-\w+", text) for text in project["dependencies"])
    allowed |= {package, *(found[0].replace("-", "_") for found in ours if found)}
    assert loaded <= allowed

    # The tests have tools of their own, which must not replace what is tested.
    pins = [f"{name}=={version}" for name, version in installed.items()]
    if needs_core:
        tools = [environment.wheel(name) for name in ("mastaba-conformance", "mastaba-writer")]
        options = []
    else:
        tools = ["pytest>=9.0"]
        options = ["--noconftest", "-p", "tests.server.conftest"]
    environment.install(*tools, *pins, "pytest-timeout>=2.4", *LIBRARIES.get(folder.name, []))
    if folder.name in DESELECTED:
        options += ["-k", f"not ({' or '.join(DESELECTED[folder.name])})"]
    _run_tests(environment, TESTS[folder.name], *options)
    after = environment.versions()
    assert {name: after[name] for name in installed} == installed


def test_newest_versions() -> None:
    """All distributions together: what each declares has been shown above."""
    environment = create(cache_folder() / "newest")
    libraries = [library for needed in LIBRARIES.values() for library in needed]
    ours = sorted(environment.wheels.glob("*.whl"))
    environment.install(*ours, "pytest-timeout>=2.4", *libraries)
    environment.run("mastaba", "plugins", "--check")
    _run_tests(environment, [path for paths in TESTS.values() for path in paths])


def _run_tests(environment: Environment, paths: Sequence[str], *options: str) -> None:
    tests = [f"tests/{path}" for path in paths]
    fixed = ["-q", "-m", "not live and not thorough", "-p", "no:cacheprovider"]
    environment.run("python", "-m", "pytest", *fixed, *options, *tests)
