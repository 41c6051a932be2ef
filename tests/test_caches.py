"""Every cache of the project is bounded, and is in the table of caches.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.sources import parsed, walked

REPOSITORY = Path(__file__).parents[1]
SOURCES = [
    REPOSITORY / "core/src",
    *sorted(REPOSITORY.glob("libs/*/src")),
    *sorted(REPOSITORY.glob("plugins/*/src")),
]
MAPPINGS = {"dict", "OrderedDict", "defaultdict", "WeakKeyDictionary", "WeakValueDictionary"}

# What maps are kept for that is not a cache: it holds what exists at the time, and drops it.
STATE = {
    "mastaba.site.site_application": "services by their paths",
    "mastaba.model.crs.Equivalences._equal": "what is declared in a configuration",
    "mastaba.services.base.Site.services": "services of the configuration",
    "mastaba.config.services.ServicesConfig.virtual": "virtual services of the configuration",
    "mastaba_access.rules.what.Layers._groups": "groups of the layers of a catalogue",
    "mastaba_server.trace.Trace.steps": "times of one request",
    "mastaba_demo.terrain._Evaluation.fields": "fields of one tile",
    "mastaba.plugins": "what plugins provide, and their problems",
    "mastaba.services.base._Encoders._created": "one for each installed encoder",
    "mastaba.config.composition.Composer.reports": "what containers say, for each layer",
    "mastaba.containers.index_cache.IndexCache._entries": "the cache itself, which is in the table",
    "mastaba.containers.index_cache.IndexCache._flights": "loads under way",
    "mastaba.site": "connections, children and changes under way",
    "mastaba_server": "connections, children and changes under way",
    "mastaba_elevation.queries.datasets.Datasets": "layers of the configuration",
    "mastaba_coverage.block.TileBlock._indices": "slabs of one download",
    "mastaba_coverage.container_block.ContainerBlock._versions": "versions of one download",
    "mastaba_usage.addresses.Addresses": "services of the configuration, for one command",
    "mastaba_usage.database._Names._labels": "keys of one roll-up",
    "mastaba_usage.importing.LogCounter": "days and keys of the logs that a command counts",
    "mastaba_export.object_store.Upload._tags": "parts of one upload",
    "mastaba_styles.fonts.Fonts": "fonts of the operator, 1000 at most",
    "mastaba_styles.sheets.StyleFiles": "styles that descriptors name",
    "mastaba_cog.mosaic.table.Rows": "rows of one table, 1,000,000 at most",
    "mastaba_cog.mosaic.vrt._Reader": "sources of one document, of 64 MiB at most",
    "mastaba_dimensions.axes": "values of the configuration",
    "mastaba_dimensions.opening.Opener._opening": "variants that are being opened",
    "mastaba_metrics.table": "the table of each scoreboard, and its counters",
}


def is_served(module: str) -> bool:
    """Return whether a serving process may contain a module; others end with their task."""
    return not module.startswith(("mastaba_build", "mastaba_conformance", "mastaba_writer"))


@cache
def modules() -> dict[str, ast.Module]:
    """Return the sources by the names of the modules."""
    return {
        name.removesuffix(".__init__"): parsed(path)
        for source in SOURCES
        for path in sorted(source.rglob("*.py"))
        if is_served(name := ".".join(path.relative_to(source).with_suffix("").parts))
    }


def named(node: ast.expr) -> str:
    """Return the last name of ``functools.cache``, ``cache`` and the like."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def decorated(module: str, tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Return functions with a cache, and whether that has a bound."""
    for node in walked(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                call = decorator.func if isinstance(decorator, ast.Call) else decorator
                if named(call) in ("cache", "lru_cache", "cached"):
                    yield f"{module}.{node.name}", is_bounded(decorator, node)
    for owner, node in assignments(tree):
        value = node.value
        # lru_cache(maxsize=...)(function)
        maker = value.func if isinstance(value, ast.Call) else None
        if isinstance(maker, ast.Call) and named(maker.func) in ("cache", "lru_cache"):
            for target in targets(node):
                yield f"{module}.{owner}{named(target)}", is_bounded(maker)


def is_bounded(decorator: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef | None = None):
    if not isinstance(decorator, ast.Call):
        # Without arguments there is one entry; functions of a name are called with few names.
        return (
            named(decorator) == "lru_cache"
            or (function is not None and not function.args.args)
            or (
                function is not None
                and [argument.arg for argument in function.args.args] == ["name"]
            )
        )
    sizes = [*decorator.args[:1], *(k.value for k in decorator.keywords if k.arg == "maxsize")]
    return all(not (isinstance(size, ast.Constant) and size.value is None) for size in sizes)


def targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def assignments(tree: ast.Module) -> Iterator[tuple[str, ast.Assign | ast.AnnAssign]]:
    """Return assignments at the top, and those to attributes of ``self`` with their class."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            yield "", node
        if isinstance(node, ast.ClassDef):
            for inner in walked(node):
                if isinstance(inner, ast.Assign | ast.AnnAssign):
                    is_own = any(
                        isinstance(target, ast.Attribute) and named(target.value) == "self"
                        for target in targets(inner)
                    )
                    if is_own or inner in node.body:
                        yield f"{node.name}.", inner


def growing(module: str, tree: ast.Module) -> Iterator[str]:
    """Return mappings that begin empty and get entries somewhere else: by key, or by ``|=``."""
    written = {
        named(target.value)
        for node in walked(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript)
    }
    written |= {
        named(node.target)
        for node in walked(tree)
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr)
    }
    written |= {
        named(argument)
        for node in walked(tree)
        if isinstance(node, ast.Call) and (named(node.func) in ("setdefault", "_remember"))
        for argument in [*node.args, getattr(node.func, "value", ast.Constant(0))]
    }
    for owner, node in assignments(tree):
        value = node.value
        is_empty = isinstance(value, ast.Dict) and not value.keys
        is_empty |= isinstance(value, ast.Call) and (
            named(value.func) in MAPPINGS
            or (
                named(value.func) == "field"
                and any(named(k.value) in MAPPINGS for k in value.keywords)
            )
        )
        is_recent = isinstance(value, ast.Call) and named(value.func) == "Recent"
        if is_empty or is_recent:
            for target in targets(node):
                if is_recent or named(target) in written:
                    yield f"{module}.{owner}{named(target)}"


def table() -> dict[str, str]:
    """Return the bound of each cache that is listed, by its name."""
    text = Path(__file__).with_name("caches.md").read_text("utf-8")
    found = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            names, _, bound = (cell.strip() for cell in line.strip("|").split("|"))
            found.update(dict.fromkeys(re.findall(r"`([^`]+)`", names), bound))
    return found


@cache
def caches() -> dict[str, bool]:
    """Return all functions with a cache, and whether that has a bound."""
    return dict(entry for module, tree in modules().items() for entry in decorated(module, tree))


@cache
def maps() -> list[str]:
    """Return all mappings that grow."""
    return [name for module, tree in modules().items() for name in growing(module, tree)]


@cache
def classes() -> list[str]:
    """Return all classes that are caches."""
    return [
        f"{module}.{node.name}"
        for module, tree in modules().items()
        for node in walked(tree)
        if isinstance(node, ast.ClassDef) and node.name.endswith("Cache")
    ]


def is_state(name: str) -> bool:
    return any(name == entry or name.startswith(f"{entry}.") for entry in STATE)


def test_the_walk_finds_caches_of_every_kind() -> None:
    assert len(caches()) > 20
    assert {
        "mastaba_render.sampling.stencil",
        "mastaba_server.web.text._decode_short",
    } <= caches().keys()
    assert "mastaba_wmts.getcapabilities.GetCapabilities._complete" in caches()
    assert "mastaba_tms.service.TileMapServer._documents" in maps()
    assert "mastaba_ogcapi.service.OGCAPIService._documents" in maps()
    assert "mastaba_render.layer_map.LayerMap._needed" in maps()
    assert "mastaba.containers.index_cache.IndexCache" in classes()


@pytest.mark.parametrize("source", ["@cache\ndef f(x): ...", "@lru_cache(None)\ndef f(x): ...",
                                    "f = lru_cache(maxsize=None)(g)"])  # fmt: skip
def test_caches_without_a_bound_are_seen(source: str) -> None:
    assert dict(decorated("m", ast.parse(source))) == {"m.f": False}


def test_every_cache_has_a_bound() -> None:
    assert [name for name, bounded in caches().items() if not bounded] == []


def test_every_cache_is_in_the_table_and_nothing_else() -> None:
    found = {*caches(), *classes(), *(name for name in maps() if not is_state(name))}
    assert found == set(table())
    assert all(re.search(r"\d|one", bound) for bound in table().values())


def test_what_is_called_state_exists() -> None:
    known = modules().keys() | set(maps())
    for entry in STATE:
        assert any(name == entry or name.startswith(f"{entry}.") for name in known), entry
