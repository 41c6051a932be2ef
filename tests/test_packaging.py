"""The distributions of the workspace: metadata, entry points and what their wheels contain."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import re
import tomllib
import zipfile
from collections.abc import Callable
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from scripts.dist import problem_of_changes, without_relative_links

import mastaba
from mastaba.plugins.discovery import ENTRY_POINT_GROUP

REPOSITORY = Path(__file__).parents[1]
CORE = REPOSITORY / "core"
PLUGINS = sorted(path.parent for path in (REPOSITORY / "plugins").glob("*/pyproject.toml"))
LIBS = sorted(path.parent for path in (REPOSITORY / "libs").glob("*/pyproject.toml"))
DISTRIBUTIONS = [CORE, *LIBS, *PLUGINS]

# Libraries of other distributions; they register nothing.
LIBRARIES = {"writer"}
LIBRARIES_OF_PLUGINS = {
    *("mastaba-coverage", "mastaba-http", "mastaba-ows", "mastaba-render", "mastaba-server"),
    *("mastaba-containers", "mastaba-documents", "mastaba-storage", "mastaba-writer"),
}

distributions = pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda path: path.name)
plugins = pytest.mark.parametrize("folder", PLUGINS, ids=lambda path: path.name)
with_hooks = pytest.mark.parametrize(
    "folder",
    [folder for folder in PLUGINS if folder.name not in LIBRARIES],
    ids=lambda path: path.name,
)

# The conformance tests are also a plugin of pytest; only a command belongs to Mastaba.
ENTRY_POINTS = {
    "dimensions": {ENTRY_POINT_GROUP: ("dimensions", "mastaba_dimensions")},
    "container_cog": {ENTRY_POINT_GROUP: ("cog", "mastaba_cog")},
    "container_pmtiles": {ENTRY_POINT_GROUP: ("pmtiles", "mastaba_pmtiles")},
    "builder": {ENTRY_POINT_GROUP: ("build", "mastaba_build")},
    "container_sqlite": {ENTRY_POINT_GROUP: ("sqlite_tiles", "mastaba_sqlite_tiles")},
    "conformance": {
        ENTRY_POINT_GROUP: ("conformance", "mastaba_conformance.new"),
        "pytest11": ("mastaba", "mastaba_conformance.plugin"),
    },
}


def pyproject(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))


def package_of(folder: Path) -> Path:
    """Return the one import package of a distribution."""
    (package,) = [path.parent for path in (folder / "src").glob("*/__init__.py")]
    return package


def metadata(folder: Path) -> importlib.metadata.Distribution:
    name = pyproject(folder)["project"]["name"]
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed")


@distributions
def test_version_is_read_from_the_one_place(folder: Path) -> None:
    document = pyproject(folder)
    version_file = (folder / document["tool"]["hatch"]["version"]["path"]).resolve()

    assert document["project"]["dynamic"] == ["version"]
    assert version_file == CORE / "src/mastaba/__init__.py"


@distributions
def test_installed_version_is_that_of_the_core(folder: Path) -> None:
    assert metadata(folder).version == mastaba.__version__


@with_hooks
def test_plugin_pins_the_minor_version_of_the_core(folder: Path) -> None:
    major, minor, _ = mastaba.__version__.split(".", 2)
    pins = [
        requirement
        for requirement in pyproject(folder)["project"]["dependencies"]
        if re.match(r"mastaba\b(?!-)", requirement)
    ]
    assert len(pins) == 1
    assert re.fullmatch(rf"mastaba(\[[\w,]+\])?~={major}\.{minor}\.0", pins[0])


@plugins
def test_plugin_depends_on_libraries_but_on_no_other_plugin(folder: Path) -> None:
    project = pyproject(folder)["project"]
    requirements = [
        *project["dependencies"],
        *(line for lines in project.get("optional-dependencies", {}).values() for line in lines),
    ]
    names = (re.split(r"[\[~=]", line)[0] for line in requirements)
    others = {name for name in names if name.startswith("mastaba-")}
    assert others <= LIBRARIES_OF_PLUGINS


@plugins
def test_plugin_asks_for_extras_that_the_core_has(folder: Path) -> None:
    known = set(pyproject(CORE)["project"].get("optional-dependencies", {}))
    for requirement in pyproject(folder)["project"]["dependencies"]:
        found = re.match(r"mastaba\[([\w,]+)\]", requirement)
        assert found is None or set(found[1].split(",")) <= known


@distributions
def test_metadata_is_complete(folder: Path) -> None:
    project = pyproject(folder)["project"]

    assert project["requires-python"] == ">=3.11"
    assert project["license"] == "Apache-2.0"
    assert len(project["description"]) > 20
    assert project["authors"]
    assert project["keywords"]
    assert any(name.startswith("Topic :: ") for name in project["classifiers"])
    readme = folder / project["readme"]
    assert readme.read_text("utf-8").startswith(f"# {project['name']}")


@distributions
def test_distributions_of_one_release_require_each_other(folder: Path) -> None:
    """Also those with extras, and those of optional dependencies."""
    major, minor, _ = mastaba.__version__.split(".", 2)
    project = pyproject(folder)["project"]
    optional = project.get("optional-dependencies", {}).values()
    for line in chain(project["dependencies"], *optional):
        if line.startswith("mastaba"):
            assert re.fullmatch(rf"[\w-]+(\[[\w,]+\])?~={major}\.{minor}\.0", line)


@plugins
def test_names_of_folder_package_and_distribution_agree(folder: Path) -> None:
    document = pyproject(folder)
    # A folder "build" is taken for the output of a build by many tools.
    names = {"builder": "build", "container_sqlite": "sqlite_tiles"}
    name = names.get(folder.name, folder.name.removeprefix("container_"))

    assert document["project"]["name"] == f"mastaba-{name.replace('_', '-')}"
    assert package_of(folder).name == f"mastaba_{name}"
    packages = document["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert packages == [f"src/{package_of(folder).name}"]


@with_hooks
def test_plugin_has_one_entry_point_and_it_resolves(folder: Path) -> None:
    package = package_of(folder)
    wanted = ENTRY_POINTS.get(folder.name, {ENTRY_POINT_GROUP: (folder.name, package.name)})
    declared = pyproject(folder)["project"]["entry-points"]
    assert {group: dict([item]) for group, item in wanted.items()} == declared
    for group, item in wanted.items():
        (entry,) = metadata(folder).entry_points.select(group=group)
        assert (entry.name, entry.value) == item
        module = entry.load()
        assert package in Path(module.__file__).parents
        assert module.__doc__


def test_command_of_the_core_resolves() -> None:
    scripts = pyproject(CORE)["project"]["scripts"]
    assert list(scripts) == ["mastaba"]
    module, _, function = scripts["mastaba"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


@distributions
def test_package_is_typed(folder: Path) -> None:
    assert (package_of(folder) / "py.typed").is_file()


@pytest.fixture(scope="module")
def wheel_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Return a function that builds a wheel as pip does: by the hook of the backend (PEP 517)."""
    backend = pytest.importorskip("hatchling.build")
    directory = tmp_path_factory.mktemp("wheels")

    @cache
    def build(folder: Path) -> Path:
        with contextlib.chdir(folder):
            return directory / backend.build_wheel(str(directory))

    return build


def wheel_cases() -> list[Any]:
    """Return all distributions; quick are the core, a library that is compiled, and a plugin."""
    quick = {"core", "render", "viewer"}
    return [
        pytest.param(
            folder, id=folder.name, marks=[] if folder.name in quick else [pytest.mark.thorough]
        )
        for folder in DISTRIBUTIONS
    ]


@pytest.mark.parametrize("folder", wheel_cases())
def test_wheel_contains_every_file_of_its_package(
    folder: Path, wheel_of: Callable[[Path], Path]
) -> None:
    package = package_of(folder)
    wheel = wheel_of(folder)
    wanted = {
        str(path.relative_to(package.parent))
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    with zipfile.ZipFile(wheel) as archive:
        held = {item for item in archive.namelist() if ".dist-info/" not in item}
        entry_points = "".join(
            archive.read(item).decode()
            for item in archive.namelist()
            if item.endswith("entry_points.txt")
        )
    assert held == wanted
    if folder not in LIBS and folder.name not in LIBRARIES:
        group = "console_scripts" if folder == CORE else ENTRY_POINT_GROUP
        assert f"[{group}]" in entry_points


def test_wheel_of_the_core_contains_the_schemas(wheel_of: Callable[[Path], Path]) -> None:
    with zipfile.ZipFile(wheel_of(CORE)) as archive:
        schemas = [item for item in archive.namelist() if item.startswith("mastaba/config/schemas")]
    assert len(schemas) == 8


def test_readme_of_a_release_has_no_relative_links() -> None:
    for folder in DISTRIBUTIONS:
        text = without_relative_links((folder / "README.md").read_text("utf-8"))
        assert not re.search(r"\]\((?!https?:|mailto:|#)", text), folder.name
    shown = without_relative_links(
        "see [the *page*](../a.md#b), [web](https://a.b/) and ![](c.png)"
    )
    assert shown == "see the *page*, [web](https://a.b/) and "


ENTRY = "\n### Added\n\n- Something.\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"# Changes\n\n## [Unreleased]\n\n## [1.0.0] - 2026-11-23\n{ENTRY}", None),
        (f"## [1.0.0] - 2026-11-23\n{ENTRY}", None),
        (f"## [Unreleased]\n\n### Added\n\n## [1.0.0] - 2026-11-23\n{ENTRY}", None),
        (f"## [Unreleased]\n{ENTRY}\n## [1.0.0] - 2026-11-23\n{ENTRY}", "[Unreleased] has entries"),
        (f"## [Unreleased]\n\n## [0.9.0] - 2026-11-23\n{ENTRY}", "no section [1.0.0]"),
        (f"## [1.0.01] - 2026-11-23\n{ENTRY}", "no section [1.0.0]"),
        (f"## [Unreleased]\n\n## [1.0.0]\n{ENTRY}", "no date"),
        (f"## [1.0.0] - soon\n{ENTRY}", "no date"),
        ("## [1.0.0] - 2026-11-23\n\n## [0.9.0] - 2026-01-01\n" + ENTRY, "no entries"),
        ("", "no section [1.0.0]"),
    ],
)
def test_a_release_has_a_dated_section_and_nothing_unreleased(
    text: str, problem: str | None
) -> None:
    found = problem_of_changes(text, "1.0.0")
    assert found is None if problem is None else problem in (found or "")
