"""Former names of the public interface, which still work until they are removed.

A module of the interface that has lost a name ends with::

    __getattr__ = former_names(__name__, {"Old": ("mastaba.api.tiles.New", "2.0")})
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def former_names(module: str, names: Mapping[str, tuple[str, str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module with former names (PEP 562).

    Each use of a former name gives the object that replaces it, and a `DeprecationWarning` at the
    line that uses it.

    Args:
        module: name of the module.
        names: for each former name, the full name of its replacement, and the release that
            removes it.
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        replacement, release = names[name]
        text = f"{module}.{name} will be removed in Mastaba {release}; use {replacement}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        place, _, replaced = replacement.rpartition(".")
        try:
            module_of_it = importlib.import_module(place)
        except ModuleNotFoundError as error:
            # The name belongs to another distribution now.
            name_of_it = place.partition(".")[0].replace("_", "-")
            raise ImportError(f"{text}, which {name_of_it} contains: install it") from error
        return getattr(module_of_it, replaced)

    return find


def moved_names(module: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module whose names are in other modules now.

    Args:
        module: name of the module.
        places: former names, separated by spaces, by the module that contains them;
            ``Old=New`` where they have another name.
    """
    moved = {}
    for place, names in places.items():
        for name in names.split():
            former, _, new = name.partition("=")
            moved[former] = (f"{place}.{new or former}", "2.0")
    return former_names(module, moved)
