"""The public modules, and the names in them."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Final

import mastaba.api
import mastaba_render.api
from mastaba.plugins import hookspecs

HOOKS: Final = hookspecs.__name__
FORMER: Final = frozenset(
    f"mastaba.api.{name}" for name in ("encoders", "maps", "resampling", "xml")
)
"""Modules of former names alone."""
API: Final = tuple(
    f"{package.__name__}.{module.name}"
    for package in (mastaba.api, mastaba_render.api)
    for module in pkgutil.iter_modules(package.__path__)
    if not module.name.startswith("_") and f"{package.__name__}.{module.name}" not in FORMER
)
CORE: Final = ("mastaba", "mastaba.errors", HOOKS, *API)
LIBS: Final = (
    "mastaba_coverage",
    "mastaba_http",
    "mastaba_ows.contact",
    "mastaba_ows.crs",
    "mastaba_ows.errors",
    "mastaba_ows.featureinfo",
    "mastaba_ows.featureinfo.answers",
    "mastaba_ows.featureinfo.external",
    "mastaba_ows.inspire",
    "mastaba_ows.links",
    "mastaba_ows.parameters",
    "mastaba_ows.post",
    "mastaba_ows.provider",
    "mastaba_ows.xml",
)
KIT: Final = tuple(
    f"mastaba_conformance.{name}"
    for name in (
        "storage",
        "services",
        "encoders",
        "containers",
        "tiny_installation",
        "serving",
        "counting_storage",
        "object_server",
    )
)
WRITER: Final = tuple(
    f"mastaba_writer.{name}"
    for name in (
        "pyramids",
        "installation",
        "slab_writer",
        "slab_names",
        "tile_encoder",
        "deflate",
        "vector_tile_writer",
        "descriptor",
        "documents",
        "tile_matrix_sets",
        "progress",
    )
)

# Modules of the types of aliases such as int | str and Callable[[int], str].
_TYPING: Final = frozenset(("types", "typing", "collections.abc"))


@dataclass(frozen=True, slots=True)
class Name:
    """A public name.

    Attributes:
        module: public module that offers it.
        name: name in that module.
        value: what it names.
        origin: module that defines it.
    """

    module: str
    name: str
    value: Any
    origin: str

    @property
    def is_class(self) -> bool:
        """Whether it is a class of this project, and not an alias of another one."""
        return inspect.isclass(self.value) and self._is_ours

    @property
    def is_function(self) -> bool:
        """Whether it is a function of this project."""
        return inspect.isroutine(self.value) and self._is_ours

    @property
    def is_alias(self) -> bool:
        """Whether it is another name of a type."""
        if self.is_class or self.is_function:
            return False
        return inspect.isclass(self.value) or type(self.value).__module__ in _TYPING

    @property
    def _is_ours(self) -> bool:
        return (self.value.__module__ or "").startswith("mastaba")

    @property
    def definition(self) -> tuple[str, str]:
        """Source of the value of a constant, and the text below it; empty if there is none."""
        return _constants(self.origin).get(self.name, ("", ""))


@cache
def names_of(module: str) -> list[Name]:
    """Return the public names of a module, in the order of its ``__all__``.

    Of a module without ``__all__``, these are the classes and functions that it defines.
    """
    loaded = importlib.import_module(module)
    names = hookspecs.hook_names() if module == HOOKS else getattr(loaded, "__all__", None)
    names = _defined(loaded) if names is None else names
    origins = _origins(loaded)
    return [Name(module, name, getattr(loaded, name), origins.get(name, module)) for name in names]


def _defined(module: ModuleType) -> list[str]:
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    )


def _origins(module: ModuleType) -> dict[str, str]:
    """Return the modules from which a module imports names."""
    return {
        alias.name: node.module
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


@cache
def _constants(module: str) -> dict[str, tuple[str, str]]:
    """Return the sources of the values of a module's constants, and the texts below them."""
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    found: dict[str, tuple[str, str]] = {}
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        text = ""
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            text = inspect.cleandoc(str(following.value.value))
        for target in targets:
            if isinstance(target, ast.Name):
                found[target.id] = ast.unparse(value), text
    return found
