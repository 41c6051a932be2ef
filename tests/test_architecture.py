"""Who may import whom, and which library lives where. Found by reading, not by importing."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
CORE = REPOSITORY / "core/src"
PLUGINS = REPOSITORY / "plugins"

# Each package or module of the core may import those of its own line and of the lines above.
# What is not named here is bound by the special rules only.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "model"}),
    frozenset({"storage", "encoding", "slab"}),
    frozenset({"render", "catalogue", "service"}),
    frozenset({"http"}),
    frozenset({"services", "featureinfo"}),
    frozenset({"transport", "site", "wsgi"}),
    frozenset({"commands"}),
    frozenset({"cli"}),
    frozenset({"__main__"}),
)

# library: the modules (or packages) of the core that may know it
LIBRARIES = {
    "flup": {"mastaba.transport"},
    "granian": {"mastaba.transport.http"},
    "jsonschema": {"mastaba.config"},
    "yaml": {"mastaba.config"},
    "pluggy": {"mastaba.hookspecs", "mastaba.plugins"},
    # GeoTIFF has to write a CRS in the words of EPSG.
    "pyproj": {"mastaba.model.crs", "mastaba.encoding.geotiff"},
    "werkzeug": {"mastaba.http", "mastaba.doctor"},
    "urllib3": {"mastaba.storage.http"},
    "ctypes": {"mastaba.render.native", "mastaba.memory"},
    "orjson": {"mastaba.encoding.asc"},
    "simplejpeg": {"mastaba.encoding.jpeg", "mastaba.slab.codecs"},
    "pytest": {"mastaba.testing"},
}

# Every stored tile passes through these: nothing is decoded, drawn or routed by plugins there.
TILE_PATH = (
    "mastaba.http.app",
    "mastaba.http.request",
    "mastaba.http.response",
    "mastaba.http.tile_response",
    "mastaba.slab.delivery",
    "mastaba.slab.index",
    "mastaba.slab.index_cache",
    "mastaba.slab.layout",
    "mastaba.slab.reader",
    "mastaba.storage.base",
    "mastaba.storage.file",
)

# The writer of test data shares nothing with the reader that it is to prove.
WRITERS = (
    "documents",
    "installation",
    "pyramids",
    "slab_names",
    "slab_writer",
    "tile_encoder",
    "tile_matrix_sets",
    "tiny_installation",
    "vector_tile_writer",
)


@dataclass(frozen=True)
class Import:
    """One import that takes place when the program runs."""

    importer: str
    imported: str

    def __str__(self) -> str:
        return f"{self.importer} imports {self.imported}"


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path, root: Path) -> Iterator[Import]:
    """Give the imports of a module, those inside functions too, those for types only not."""
    importer = module_name(path, root)
    tree = ast.parse(path.read_text("utf-8"))
    for_types: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for child in node.body:
                for_types.update(ast.walk(child))
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(importer, alias.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{importer} imports relative to itself"
            assert node.module is not None
            for alias in node.names:
                # "from mastaba import errors" imports a module, "from mastaba.errors import X" not.
                as_module = root.joinpath(*node.module.split("."), alias.name)
                is_module = as_module.is_dir() or as_module.with_suffix(".py").is_file()
                yield Import(importer, f"{node.module}.{alias.name}" if is_module else node.module)


def all_imports(root: Path) -> list[Import]:
    return [found for path in sorted(root.rglob("*.py")) for found in imports_of(path, root)]


def part_of(module: str) -> str:
    """Return ``slab`` for ``mastaba.slab.reader``."""
    names = module.split(".")
    return names[1] if len(names) > 1 else "mastaba"


def layer_of(part: str) -> int | None:
    return next((rank for rank, parts in enumerate(LAYERS) if part in parts), None)


def is_within(module: str, packages: set[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in packages)


@pytest.fixture(scope="module")
def core() -> list[Import]:
    return all_imports(CORE)


def test_layers_name_modules_that_exist() -> None:
    for part in frozenset().union(*LAYERS):
        path = CORE / "mastaba" / part
        assert path.is_dir() or path.with_suffix(".py").is_file(), part


def test_imports_go_from_the_outer_layers_to_the_inner_ones(core: list[Import]) -> None:
    upward = []
    for found in core:
        outer, inner = layer_of(part_of(found.importer)), layer_of(part_of(found.imported))
        is_own = found.imported.split(".")[0] == "mastaba"
        if is_own and outer is not None and inner is not None and outer < inner:
            upward.append(str(found))
    assert upward == []


@pytest.mark.parametrize(
    ("part", "allowed"),
    [
        ("errors", set()),
        ("model", {"errors", "model"}),
        ("registry", {"errors"}),
        ("environment", set()),
        ("trace", set()),
        ("storage", {"errors", "environment", "storage", "trace"}),
        ("slab", {"errors", "model", "storage", "slab", "trace"}),
        ("encoding", {"errors", "model", "encoding"}),
        ("cancellation", {"errors"}),
        ("transport", {"cancellation", "errors", "transport"}),
    ],
)
def test_inner_parts_know_few_others(part: str, allowed: set[str], core: list[Import]) -> None:
    known = {
        part_of(found.imported)
        for found in core
        if part_of(found.importer) == part and found.imported.split(".")[0] == "mastaba"
    }
    assert known <= {*allowed, part}


@pytest.mark.parametrize(
    ("part", "forbidden"),
    [
        ("model", {"config", "http"}),
        ("config", {"http", "transport", "services", "commands", "cli", "wsgi"}),
        ("render", {"http", "config", "plugins"}),
        ("http", {"config", "plugins", "transport", "commands"}),
        ("services", {"config", "plugins", "transport", "commands"}),
    ],
)
def test_parts_do_not_know_what_uses_them(
    part: str, forbidden: set[str], core: list[Import]
) -> None:
    found = [
        str(one)
        for one in core
        if part_of(one.importer) == part
        and one.imported.startswith("mastaba.")
        and part_of(one.imported) in forbidden
    ]
    assert found == []


def test_hook_specifications_import_nothing_of_mastaba(core: list[Import]) -> None:
    own = [str(found) for found in core if found.importer == "mastaba.hookspecs"]
    assert [text for text in own if "imports mastaba" in text] == []


def test_core_imports_no_plugin(core: list[Import]) -> None:
    assert [str(found) for found in core if found.imported.startswith("mastaba_")] == []


def test_core_uses_the_testing_package_nowhere_else(core: list[Import]) -> None:
    found = [
        str(one)
        for one in core
        if part_of(one.imported) == "testing" and part_of(one.importer) != "testing"
    ]
    assert found == []


@pytest.mark.parametrize("name", WRITERS)
def test_writer_of_test_data_shares_nothing_with_the_reader(name: str, core: list[Import]) -> None:
    imports = [found for found in core if found.importer == f"mastaba.testing.{name}"]
    assert imports
    outside = [
        str(found)
        for found in imports
        if found.imported.split(".")[0] == "mastaba"
        and not found.imported.startswith("mastaba.testing.")
    ]
    assert outside == []


@pytest.mark.parametrize(("library", "places"), LIBRARIES.items())
def test_library_lives_in_its_place(library: str, places: set[str], core: list[Import]) -> None:
    users = {found.importer for found in core if found.imported.split(".")[0] == library}
    assert users, f"nothing imports {library}: take it out of this table and of the dependencies"
    assert {user for user in users if not is_within(user, places)} == set()


@pytest.mark.parametrize("module", TILE_PATH)
def test_tile_path_decodes_draws_and_dispatches_nothing(module: str, core: list[Import]) -> None:
    imports = [found for found in core if found.importer == module]
    assert imports
    heavy = {"numpy", "PIL", "yaml", "jsonschema", "pluggy", "pyproj", "lxml", "xml", "re"}
    assert [str(found) for found in imports if found.imported.split(".")[0] in heavy] == []
    parts = {part_of(found.imported) for found in imports if found.imported.startswith("mastaba.")}
    assert parts.isdisjoint({"config", "plugins", "encoding", "testing"})


# Distributions that are called otherwise than their packages; what comes with the core or with
# the system need not be declared.
DISTRIBUTIONS = {"PIL": "pillow", "yaml": "pyyaml"}
WITH_CORE = {"numpy", "pillow", "werkzeug", "pluggy", "pyproj", "rados"}

PLUGIN_SOURCES = sorted(PLUGINS.glob("*/src"))


@pytest.mark.parametrize("source", PLUGIN_SOURCES, ids=lambda path: path.parent.name)
def test_plugin_imports_no_other_plugin(source: Path) -> None:
    (own,) = [path.name for path in source.iterdir() if (path / "__init__.py").is_file()]
    foreign = [
        str(found)
        for found in all_imports(source)
        if found.imported.startswith("mastaba_") and found.imported.split(".")[0] != own
    ]
    assert foreign == []


@pytest.mark.parametrize("source", PLUGIN_SOURCES, ids=lambda path: path.parent.name)
def test_plugin_does_not_reach_into_transports_or_built_ins(source: Path) -> None:
    found = [
        str(one)
        for one in all_imports(source)
        if one.imported.startswith(("mastaba.transport", "mastaba.builtin"))
    ]
    assert found == []


@pytest.mark.parametrize("source", PLUGIN_SOURCES, ids=lambda path: path.parent.name)
def test_plugin_declares_every_library_that_it_imports(source: Path) -> None:
    project = tomllib.loads((source.parent / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project.get("optional-dependencies", {}).values()
    declared = {
        re.split(r"[^\w.-]", requirement)[0].lower().replace("-", "_")
        for requirement in [*project["dependencies"], *chain.from_iterable(extras)]
    }
    used = {found.imported.split(".")[0] for found in all_imports(source)}
    libraries = {
        DISTRIBUTIONS.get(name, name).lower()
        for name in used - set(sys.stdlib_module_names)
        if not name.startswith("mastaba")
    }
    assert libraries - declared - WITH_CORE == set()
