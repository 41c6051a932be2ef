"""The plugin author's manual, the published schemas and the sample files."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.public_api.names import CORE, HOOKS, names_of
from tests.support.sampling import one_in

from mastaba.config.schema import SCHEMA_NAMES, SchemaValidator, schema
from mastaba.model.settings import MapSettings
from mastaba.plugins import hookspecs
from mastaba.plugins.manager import Plugins
from mastaba_documents.faults import Faults
from mastaba_documents.reading import parse_document

REPOSITORY = Path(__file__).parents[1]
MANUAL = REPOSITORY / "docs/plugin-authors.md"
EXAMPLES = REPOSITORY / "examples"
CONFIG = REPOSITORY / "config"
SAMPLES = ("server", "services", "layer")

_BLOCK = re.compile(r"^```(?:python|toml)\n# path: (?P<path>\S+)\n(?P<code>.*?)^```$", re.M | re.S)


@pytest.fixture(scope="module")
def manual() -> str:
    return MANUAL.read_text("utf-8")


# ---------------------------------------------------------------- the manual


def test_every_hook_is_described_with_its_arguments(manual: str) -> None:
    described = re.findall(r"^### `(\w+\(.*\))`$", manual, re.M)
    wanted = [
        f"{name}({', '.join(inspect.signature(getattr(hookspecs, name)).parameters)})"
        for name in hookspecs.hook_names()
    ]
    assert sorted(described) == sorted(wanted)


def test_links_inside_the_manual_have_targets(manual: str) -> None:
    headings = re.findall(r"^#+ (.*)$", manual, re.M)
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}
    links = re.findall(r"\]\(#([^)]*)\)", manual)
    assert links
    assert set(links) <= anchors


def test_code_of_the_manual_is_that_of_the_examples(manual: str) -> None:
    blocks = list(_BLOCK.finditer(manual))
    shown = {block["path"].partition("/")[0] for block in blocks}
    assert shown == {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    for block in blocks:
        # A block is a whole file or a part of it.
        code = (EXAMPLES / block["path"]).read_text("utf-8")
        assert block["code"] in code, f"{block['path']} differs from the manual"


def test_every_public_module_is_in_the_table_with_names_that_exist(manual: str) -> None:
    rows = re.findall(r"^\| [^|]* \| (?:\[`|`)(mastaba[\w.]*)[^|]*\| ([^|]*) \|$", manual, re.M)
    named = {module: re.findall(r"`(\w+)`", names) for module, names in rows}
    # Not those that only have former names.
    assert {module for module in CORE if module != HOOKS and names_of(module)} <= set(named)
    for module in set(named) & set(CORE):
        assert set(named[module]) <= {name.name for name in names_of(module)}, module


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Register the examples as if installed; returns the environment to use them.

    The live tests install them, and run their own tests.
    """
    directory = tmp_path_factory.mktemp("examples")
    places = [str(directory)]
    for pyproject in sorted(EXAMPLES.glob("*/pyproject.toml")):
        project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
        name, version = project["name"], project["version"]
        info = directory / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        entries = project["entry-points"]["mastaba"].items()
        lines = [f"{entry} = {value}\n" for entry, value in entries]
        (info / "entry_points.txt").write_text("[mastaba]\n" + "".join(lines))
        places.append(str(pyproject.parent / "src"))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mastaba", *arguments],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )


def test_examples_are_listed_as_the_manual_says(examples: dict[str, str]) -> None:
    ended = run(examples, "--plugins", "examples/one-file", "plugins")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = {line.split()[0]: line.split(None, 3)[1:] for line in ended.stdout.splitlines()}
    assert rows["storage_sqlite"] == ["mastaba-storage-sqlite", "1.0.0", "storage driver sqlite"]
    assert rows["storage_obstore"][2] == "storage driver obstore"
    assert rows["slippy_tiles"][2] == "service slippy, command slippy-tile"
    assert rows["avif"][2] == "encoder image/avif"
    assert rows["zip"][2] == "container zip"
    assert rows["server_timing"][2] == "middleware"


def test_command_of_the_manual_runs(examples: dict[str, str]) -> None:
    ended = run(examples, "slippy-tile", "2.35", "48.85", "12")
    assert (ended.returncode, ended.stdout) == (0, "12/2074/1409\n")


@pytest.mark.parametrize(
    "folder", one_in(9, sorted(path.parent.name for path in EXAMPLES.glob("*/tests")))
)
def test_tests_of_an_example_start_inside_the_repository(folder: str) -> None:
    # Authors do not have the plugins of pytest that the settings of the repository need.
    words = ("-p", "no:timeout", "-p", "no:xdist", "--collect-only", "--ignore-glob=*")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=EXAMPLES / folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, ended.stdout + ended.stderr


def test_examples_import_nothing_but_the_public_interface() -> None:
    for path in EXAMPLES.rglob("*.py"):
        for module in re.findall(
            r"^from (mastaba(?:\.[\w.]+)?) import", path.read_text("utf-8"), re.M
        ):
            assert module in ("mastaba", "mastaba.errors") or module.startswith("mastaba.api."), (
                path
            )


def test_every_block_of_python_in_the_manual_has_its_file(manual: str) -> None:
    assert manual.count("```python\n") + manual.count("```toml\n") == len(_BLOCK.findall(manual))


def test_json_of_the_manual_is_json(manual: str) -> None:
    blocks = re.findall(r"^```json\n(.*?)^```$", manual, re.M | re.S)
    assert blocks
    for block in blocks:
        assert isinstance(json.loads(block), dict)


# ---------------------------------------------------------------- config/


@pytest.fixture(scope="module")
def workspace() -> Plugins:
    """Return all plugins of the workspace; skip when some are not installed."""
    plugins = Plugins()
    projects = [
        tomllib.loads(path.read_text("utf-8"))["project"]
        for path in (REPOSITORY / "plugins").glob("*/pyproject.toml")
    ]
    wanted = {
        project["name"] for project in projects if "mastaba" in project.get("entry-points", {})
    }
    missing = wanted - {info.distribution for info in plugins.listing()}
    if missing:
        pytest.skip(f"needs all plugins of the workspace; not installed: {sorted(missing)}")
    return plugins


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_published_schema_is_that_of_the_whole_workspace(name: str, workspace: Plugins) -> None:
    published = json.loads((CONFIG / f"{name}.schema.json").read_text("utf-8"))
    assert published == schema(name, workspace), (
        f"config/{name}.schema.json is out of date; write it again with 'make schemas', or: "
        f"mastaba schema {name} > config/{name}.schema.json"
    )


def test_config_contains_only_schemas_and_samples() -> None:
    assert {path.name for path in CONFIG.iterdir()} == {
        *(f"{name}.schema.json" for name in SCHEMA_NAMES),
        *(f"{name}.sample.yaml" for name in SAMPLES),
    }


def check(text: str, name: str, plugins: Plugins) -> list[str]:
    faults = Faults()
    document = parse_document(text, f"{name}.yaml", faults)
    SchemaValidator(name, plugins).validate(document, f"{name}.yaml", faults)
    return [str(fault) for fault in faults.all]


def uncomment(text: str) -> str:
    """Return a sample with its commented keys in force; lines of prose begin with two signs."""
    return re.sub(r"^(\s*)#(?!#) ?", r"\1", text, flags=re.M)


@pytest.fixture(params=SAMPLES)
def sample(request: pytest.FixtureRequest) -> tuple[str, str]:
    name: str = request.param
    return name, (CONFIG / f"{name}.sample.yaml").read_text("utf-8")


def test_sample_is_valid_as_it_is(sample: tuple[str, str], workspace: Plugins) -> None:
    name, text = sample
    assert check(text, name, workspace) == []


def test_sample_is_valid_with_every_commented_key(
    sample: tuple[str, str], workspace: Plugins
) -> None:
    name, text = sample
    assert check(uncomment(text), name, workspace) == []


def walk_schema(properties: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Give path and schema of every key."""
    for name, node in properties.items():
        yield f"{prefix}.{name}", node
        yield from walk_schema(node.get("properties", {}), f"{prefix}.{name}")
        inside = node.get("items", {}).get("properties", {})
        yield from walk_schema(inside, f"{prefix}.{name}[]")


def walk_document(document: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Give path and value of every key."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield f"{prefix}.{name}", value
            yield from walk_document(value, f"{prefix}.{name}")
    elif isinstance(document, list):
        for item in document:
            yield from walk_document(item, f"{prefix}[]")


def test_sample_shows_every_key(sample: tuple[str, str], workspace: Plugins) -> None:
    name, text = sample
    known = dict(walk_schema(schema(name, workspace)["properties"]))
    if name == "layer":  # a viewer and the like publish all layers
        known = {path: node for path, node in known.items() if not path.startswith(".viewer")}
    shown = dict(walk_document(yaml.safe_load(uncomment(text))))
    assert set(known) - set(shown) == set()


def test_commented_key_of_a_sample_states_its_default(
    sample: tuple[str, str], workspace: Plugins
) -> None:
    name, text = sample
    in_force = dict(walk_document(yaml.safe_load(text)))
    commented = {
        path: value
        for path, value in walk_document(yaml.safe_load(uncomment(text)))
        if path not in in_force
    }
    wanted = {
        path: node["default"]
        for path, node in walk_schema(schema(name, workspace)["properties"])
        if node.get("default", {}) != {} and path in commented
    }
    assert wanted
    assert {path: commented[path] for path in wanted} == wanted


def test_default_formats_of_the_sample_are_those_of_the_core() -> None:
    text = (CONFIG / "services.sample.yaml").read_text("utf-8")
    formats = yaml.safe_load(uncomment(text))["global"]["map"]["formats"]
    assert tuple(formats) == MapSettings().formats


# ---------------------------------------------------------------- commands of the pages

_OURS = r"['\"]?\.\.?/(?:core|libs/\w+|plugins/\w+)(?:\[\w+\])?['\"]?"
_INSTALLATION = re.compile(rf"pip install ((?:{_OURS}(?:[ \t]|\\\n)*)+)")
_PAGES = [
    REPOSITORY / "README.md",
    *sorted(REPOSITORY.glob("docs/**/*.md")),
    *sorted(REPOSITORY.glob("plugins/*/README.md")),
    *sorted(REPOSITORY.glob("libs/*/README.md")),
    *sorted(REPOSITORY.glob("examples/*.md")),
]


def test_pages_install_what_exists_with_all_that_it_needs() -> None:
    """The packages are not on PyPI, so pip finds none that is not given."""
    commands = 0
    for page in _PAGES:
        text = page.read_text("utf-8")
        assert not re.search(r"pip install (-\w+ )*[\"']?mastaba", text), (
            f"{page.name}: not on PyPI"
        )
        for command in _INSTALLATION.findall(text):
            commands += 1
            words = [word.strip("'\"") for word in command.replace("\\\n", " ").split()]
            for folder, _, extra in (word.partition("[") for word in words if "[" in word):
                (file,) = REPOSITORY.glob(f"*/{Path(folder).name}/pyproject.toml")
                assert (
                    extra[:-1]
                    in tomllib.loads(file.read_text("utf-8"))["project"]["optional-dependencies"]
                ), f"{page.name}: {folder}[{extra}"
            if len(words) == 1 and words[0].endswith("]"):  # adds to what is installed
                continue
            given = {Path(word.partition("[")[0]).name for word in words}
            libraries = {"server", "storage", "documents"}
            is_below = given <= {*libraries, "http"}
            needed = {"server"} if is_below else {"core", *libraries}
            for name in given - {"core"}:
                (file,) = REPOSITORY.glob(f"*/{name}/pyproject.toml")
                project = tomllib.loads(file.read_text("utf-8"))["project"]
                ours = (re.match(r"mastaba-([a-z0-9-]+)", one) for one in project["dependencies"])
                needed |= {found[1].replace("-", "_") for found in ours if found}
            assert needed <= given, f"{page.name}: pip install {command}"
    assert commands > 20
