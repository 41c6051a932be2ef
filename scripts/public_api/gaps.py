"""Public names without documentation that ``help()`` shows."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

from scripts.public_api.members import ATTRIBUTE, described, members_of
from scripts.public_api.names import names_of


def gaps(module: str) -> list[str]:
    """Return the names of a public module that have no documentation, with what is missing."""
    found = [] if importlib.import_module(module).__doc__ else [f"{module}: no docstring"]
    for name in names_of(module):
        place = f"{module}.{name.name}"
        if name.is_class:
            found += _class_gaps(place, name.value)
        elif name.is_function:
            found += [] if name.value.__doc__ else [f"{place}: no docstring"]
        elif not name.definition[1]:
            found.append(f"{place}: no text below its definition in {name.origin}")
    return found


def _class_gaps(place: str, cls: type) -> Iterator[str]:
    text = cls.__doc__ or ""
    if not text or text.startswith(f"{cls.__name__}("):  # written by @dataclass
        yield f"{place}: no docstring"
    known = described(cls)
    for member in members_of(cls):
        if member.kind == ATTRIBUTE:
            if member.name not in known:
                yield f"{place}.{member.name}: not in the section Attributes"
        elif not _documented(cls, member.name, member.value):
            yield f"{place}.{member.name}: no docstring"


def _documented(cls: type, name: str, function: Any) -> bool:
    """Return whether a member has a docstring, or overrides one that has."""
    if getattr(function, "__doc__", None):
        return True
    return any(inspect.getdoc(vars(base)[name]) for base in cls.__mro__ if name in vars(base))
