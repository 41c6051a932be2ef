"""Who may import whom, and which library lives where. Found by reading, not by importing."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest
from tests.sources import parsed, walked

REPOSITORY = Path(__file__).parents[1]
CORE = REPOSITORY / "core/src"
PLUGINS = REPOSITORY / "plugins"
PLUGIN_SOURCES = sorted(PLUGINS.glob("*/src"))
LIBS = sorted((REPOSITORY / "libs").glob("*/src"))
RENDER = REPOSITORY / "libs/render/src"

# Libraries below the core, which imports all of them but http. The others are for plugins: these
# import the public interface of the core.
# Each may import those before it.
BELOW_CORE = ("server", "storage", "documents", "http")
LIBS_BELOW = [source for source in LIBS if source.parent.name in BELOW_CORE]
LIBS_ABOVE = [source for source in LIBS if source.parent.name not in {*BELOW_CORE, "render"}]

# Imported by other distributions.
LIBRARIES_OF_OURS = frozenset(
    {
        *("mastaba_coverage", "mastaba_http", "mastaba_ows", "mastaba_render", "mastaba_server"),
        *("mastaba_containers", "mastaba_documents", "mastaba_storage", "mastaba_writer"),
    }
)
# Distributions that may use `mastaba.tooling`, which promises nothing.
TOOLS = frozenset({"builder", "conformance", "demo", "doctor", "edge", "export", "serve"})

# The rooms of the core, from the innermost to the outermost: each may import those before it,
# also for types only.
ROOMS = (
    "__init__",
    "model",
    "errors",
    "storage_pool",
    "containers",
    "slab",
    "variants",
    "catalogue",
    "services",
    "tiles",
    "plugins",
    "config",
    "site",
    "wsgi",
    "commands",
    "tooling",
    "api",
    "__main__",
)
# The rooms of packages of plugins that have some, in the same order.
ROOMS_OF_PLUGINS = {
    "mastaba_build": (
        *("errors", "plugins", "samples", "output", "config", "sources", "plan", "pixels"),
        *("vector", "harvest", "pyramid", "work", "commands", "__init__"),
    ),
    "mastaba_elevation": (
        *("errors", "queries", "settings", "web", "facades", "edr", "terrain", "service"),
        "__init__",
    ),
}
MAX_PACKAGES = 13

MOST_LINES = 13_438
"""Lines of the modules of the core. Lower it with every change that removes some.

1,294 of them are for the seam of access: views, guarded tiles, virtual services, hooks, rates.
584 are for that of dimensions: names and values in requests, opening, refreshing, changes."""

# library: the modules (or packages) of the core that may know it
LIBRARIES = {
    "flup": {
        "mastaba_server.transport.fastcgi.connection",
        "mastaba_server.transport.fastcgi.records",
    },
    "httptools": {"mastaba_server.transport.http"},
    "jsonschema_rs": {"mastaba_documents.validation"},
    "yaml": {"mastaba_documents.reading"},
    "pluggy": {"mastaba", "mastaba.plugins"},
    "packaging": {"mastaba.plugins.discovery"},
    # GeoTIFF contains the EPSG definition of a CRS.
    "pyproj": {"mastaba.model.crs", "mastaba_render.encoding.geotiff"},
    "werkzeug": {"mastaba_server.web", "mastaba.commands.development"},
    "urllib3": {"mastaba_http.addresses", "mastaba_http.client", "mastaba_http.fetch"},
    "ctypes": {
        "mastaba_render.native",
        "mastaba_server.processes.allocator",
        "mastaba_server.processes.scoreboard",
    },
    "lxml": {"mastaba_ows.xml"},
    "orjson": {"mastaba_render.encoding.asc"},
    "simplejpeg": {"mastaba_render.encoding.jpeg", "mastaba_render.codecs"},
}

# Folders of plugins whose names are words of other things too.
USUAL_WORDS = frozenset({"access", "dimensions", "serve", "storage_http", "styles"})
# module: why it names a protocol that a plugin provides
PLUGIN_NAMES = {
    "mastaba.api.commands": "USAGE is the exit status of a command that was called wrongly",
    "mastaba.commands.plugins": "plugins --check applies the rules of the kit, if it is installed",
    "mastaba.config.services": "wms is a key of files of ROK4 version 6, which are refused",
    "mastaba.services.health": "clients of existing servers read the key 'tms'",
}

# Every stored tile passes through these: nothing is decoded, drawn or routed by plugins there.
TILE_PATH = (
    "mastaba.site.application",
    "mastaba.site.site_application",
    "mastaba.site.tile_table",
    "mastaba.services.addresses",
    "mastaba_server.web.request",
    "mastaba_server.web.response",
    "mastaba.tiles.stored",
    "mastaba.tiles.published",
    "mastaba.containers.index_cache",
    "mastaba.containers.reader",
    "mastaba.containers.tile_index",
    "mastaba.slab.delivery",
    "mastaba.slab.index",
    "mastaba.slab.layout",
    "mastaba.slab.reader",
    "mastaba_storage.base",
    "mastaba_storage.file",
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


@cache
def importing(path: Path) -> list[ast.AST]:
    """Return the imports of a module, and the conditions that some of them may have."""
    kinds = ast.Import | ast.ImportFrom | ast.If
    return [node for node in walked(parsed(path)) if isinstance(node, kinds)]


def imports_of(path: Path, root: Path, *, for_types: bool) -> Iterator[Import]:
    """Yield the imports of a module, including those inside functions.

    Args:
        for_types: also yield those that only type checkers see.
    """
    importer = module_name(path, root)
    nodes = importing(path)
    skipped: set[ast.AST] = set()
    for node in nodes:
        if not for_types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for child in node.body:
                skipped.update(ast.walk(child))
    for node in nodes:
        if node in skipped:
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


@cache
def all_imports(root: Path, *, for_types: bool = False) -> list[Import]:
    paths = sorted(root.rglob("*.py"))
    return [found for path in paths for found in imports_of(path, root, for_types=for_types)]


def part_of(module: str) -> str:
    """Return ``slab`` for ``mastaba.slab.reader``."""
    names = module.split(".")
    return names[1] if len(names) > 1 else "__init__"


def is_within(module: str, packages: set[str]) -> bool:
    """Say whether a module is one of these, or in one; "mastaba" is only the package itself."""
    return any(
        module == name or (name != "mastaba" and module.startswith(f"{name}.")) for name in packages
    )


@pytest.fixture(scope="module")
def core() -> list[Import]:
    return all_imports(CORE)


def test_rooms_are_those_of_the_core() -> None:
    found = {
        path.stem
        for path in (CORE / "mastaba").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert found == set(ROOMS)
    packages = [room for room in ROOMS if (CORE / "mastaba" / room).is_dir()]
    assert len(packages) <= MAX_PACKAGES


def test_the_core_stays_small() -> None:
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in CORE.rglob("*.py")}
    largest = sorted(lines, key=lambda path: -lines[path])[:10]
    assert sum(lines.values()) <= MOST_LINES, {
        str(path.relative_to(CORE)): lines[path] for path in largest
    }


def test_imports_go_from_the_outer_rooms_to_the_inner_ones() -> None:
    outward = [
        str(found)
        for found in all_imports(CORE, for_types=True)
        if found.imported.split(".")[0] == "mastaba"
        and ROOMS.index(part_of(found.importer)) < ROOMS.index(part_of(found.imported))
    ]
    assert outward == []


@pytest.mark.parametrize("package", sorted(ROOMS_OF_PLUGINS))
def test_imports_in_a_plugin_go_from_the_outer_rooms_to_the_inner_ones(package: str) -> None:
    rooms = ROOMS_OF_PLUGINS[package]
    (folder,) = PLUGINS.glob(f"*/src/{package}")
    paths = folder.iterdir()
    found = {path.stem for path in paths if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found == set(rooms)
    outward = [
        str(found)
        for found in all_imports(folder.parent, for_types=True)
        if found.imported.split(".")[0] == package
        and rooms.index(part_of(found.importer)) < rooms.index(part_of(found.imported))
    ]
    assert outward == []


def test_no_modules_import_each_other() -> None:
    sources = [*LIBS, CORE, *PLUGIN_SOURCES]
    names = {module_name(path, root) for root in sources for path in root.rglob("*.py")}
    graph: dict[str, set[str]] = {name: set() for name in names}
    for found in chain.from_iterable(all_imports(root, for_types=True) for root in sources):
        if found.imported in names:
            graph[found.importer].add(found.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


@pytest.mark.parametrize("interface", ["mastaba.api", "mastaba.tooling"])
def test_nothing_in_the_core_imports_an_interface(interface: str, core: list[Import]) -> None:
    within = {interface}
    assert [
        str(found)
        for found in core
        if is_within(found.imported, within) and not is_within(found.importer, within)
    ] == []


@pytest.mark.parametrize(
    "source", [*LIBS_ABOVE, *PLUGIN_SOURCES], ids=lambda path: path.parent.name
)
def test_plugin_imports_nothing_but_the_public_interface(source: Path) -> None:
    public = {"mastaba", "mastaba.errors", "mastaba.api"}
    if source.parent.name in TOOLS:
        public.add("mastaba.tooling")
    private = [
        str(found)
        for found in all_imports(source, for_types=True)
        if found.imported.split(".")[0] == "mastaba" and not is_within(found.imported, public)
    ]
    assert private == []


def test_hook_specifications_import_nothing_of_mastaba(core: list[Import]) -> None:
    own = [str(found) for found in core if found.importer == "mastaba.plugins.hookspecs"]
    assert [text for text in own if "imports mastaba" in text] == []


def test_core_imports_no_plugin(core: list[Import]) -> None:
    libs = {path.name for source in LIBS_BELOW for path in source.iterdir()}
    others = [found for found in core if found.imported.startswith("mastaba_")]
    assert [str(found) for found in others if found.imported.split(".")[0] not in libs] == []


def test_the_core_names_only_types_of_the_renderer() -> None:
    """Without mastaba-render, everything that draws nothing works."""
    package = {"mastaba_render"}
    typed = [
        x.importer for x in all_imports(CORE, for_types=True) if is_within(x.imported, package)
    ]
    assert set(typed) == {
        "mastaba.plugins.hookspecs",
        "mastaba.plugins.manager",
        "mastaba.services.base",
    }
    assert not any(is_within(found.imported, package) for found in all_imports(CORE))


def test_renderer_imports_only_the_rooms_that_answer_requests() -> None:
    outer = set(ROOMS[ROOMS.index("plugins") :])
    outward = [
        str(found)
        for found in all_imports(RENDER, for_types=True)
        if found.imported.split(".")[0] == "mastaba" and part_of(found.imported) in outer
    ]
    assert outward == []


@pytest.mark.parametrize("source", LIBS_BELOW, ids=lambda path: path.parent.name)
def test_library_below_the_core_imports_nothing_of_it(source: Path) -> None:
    lower = BELOW_CORE[: BELOW_CORE.index(source.parent.name) + 1]
    own = {f"mastaba_{name}" for name in lower}
    foreign = [
        str(found)
        for found in all_imports(source, for_types=True)
        if (top := found.imported.split(".")[0]).startswith("mastaba") and top not in own
    ]
    assert foreign == []


def test_core_names_no_plugin() -> None:
    """What the core needs to know about a plugin, the plugin declares. Docstrings may name it."""
    folders = {path.parent.name for path in PLUGIN_SOURCES} - USUAL_WORDS
    names = "|".join(name.removeprefix("storage_") for name in sorted(folders))
    pattern = re.compile(rf"(?<![a-z])({names})(?![a-z])", re.IGNORECASE)
    found = {
        module_name(path, CORE): text
        for path in sorted(CORE.rglob("*.py"))
        for text in strings_of(path)
        if pattern.search(text)
    }
    assert found.keys() == PLUGIN_NAMES.keys(), found


def strings_of(path: Path) -> Iterator[str]:
    """Yield the strings of a module that are not docstrings."""
    nodes = walked(parsed(path))
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def test_keys_that_a_request_gets_contain_a_dot() -> None:
    """No parameter of a front server has a dot, so none is taken for such a key."""
    # These make requests.
    makers = ("mastaba/site/", "mastaba_conformance/", "mastaba_doctor/")
    paths = [*CORE.rglob("*.py"), *chain.from_iterable(map(_python_files, PLUGIN_SOURCES))]
    constants: set[str] = set()
    keys: set[str] = set()
    for path in paths:
        for node in walked(parsed(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("read_once", "readable"):
                keys.add(ast.unparse(node.args[1]))
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant):
                    constants |= {target.id} if "." in str(node.value.value) else set()
                if (
                    isinstance(target, ast.Subscript)
                    and ast.unparse(target.value).endswith("environ")
                    and ast.unparse(target.value) != "os.environ"
                    and not any(maker in str(path) for maker in makers)
                ):
                    keys.add(ast.unparse(target.slice))
    assert "_PARAMETERS" in keys
    assert [key for key in keys if "." not in key and key not in constants] == []


def _python_files(source: Path) -> Iterator[Path]:
    return source.rglob("*.py")


def test_writer_shares_nothing_with_the_reader() -> None:
    imported = {found.imported for found in all_imports(PLUGINS / "writer/src")}
    ours = {name.split(".")[0] for name in imported if name.startswith("mastaba")}
    assert ours == {"mastaba_writer"}


@pytest.mark.parametrize(("library", "places"), LIBRARIES.items())
def test_library_lives_in_its_place(library: str, places: set[str], core: list[Import]) -> None:
    imports = chain(core, *(all_imports(source) for source in LIBS))
    users = {found.importer for found in imports if found.imported.split(".")[0] == library}
    assert users, f"nothing imports {library}: take it out of this table and of the dependencies"
    assert {user for user in users if not is_within(user, places)} == set()


@pytest.mark.parametrize("module", TILE_PATH)
def test_tile_path_decodes_draws_and_dispatches_nothing(module: str, core: list[Import]) -> None:
    below = chain.from_iterable(map(all_imports, LIBS_BELOW))
    imports = [found for found in chain(core, below) if found.importer == module]
    assert imports
    heavy = {"numpy", "PIL", "yaml", "jsonschema_rs", "pluggy", "pyproj", "lxml", "xml", "re"}
    assert [str(found) for found in imports if found.imported.split(".")[0] in heavy] == []
    parts = {part_of(found.imported) for found in imports if found.imported.startswith("mastaba.")}
    assert parts.isdisjoint({"config", "plugins"})


# Distributions that are called otherwise than their packages; what comes with the core or with
# the system need not be declared.
DISTRIBUTIONS = {"PIL": "pillow", "swiftclient": "python_swiftclient", "yaml": "pyyaml"}
WITH_CORE = {"numpy", "werkzeug", "pluggy", "pyproj", "rados"}


@pytest.mark.parametrize(
    "source", [*LIBS_ABOVE, *PLUGIN_SOURCES], ids=lambda path: path.parent.name
)
def test_plugin_imports_no_other_plugin(source: Path) -> None:
    (own,) = [path.name for path in source.iterdir() if (path / "__init__.py").is_file()]
    foreign = [
        str(found)
        for found in all_imports(source)
        if found.imported.startswith("mastaba_")
        and found.imported.split(".")[0] not in {own, *LIBRARIES_OF_OURS}
    ]
    assert foreign == []


@pytest.mark.parametrize("source", [*LIBS, *PLUGIN_SOURCES], ids=lambda path: path.parent.name)
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
