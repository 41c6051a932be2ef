"""The public members of a class: what its users can call, read or override."""

from __future__ import annotations

import ast
import enum
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, ForwardRef

ATTRIBUTE: Final = "attribute"
PROPERTY: Final = "property"
METHOD: Final = "method"
FIXTURE: Final = "fixture"

_HEADING = re.compile(r"(?:Args|Attributes):\s*")
_ENTRY = re.compile(r"    (\w+(?:, \w+)*): ")


@dataclass(frozen=True, slots=True)
class Member:
    """A public member of a class.

    Attributes:
        name: name of the member.
        kind: one of the constants of this module.
        owner: class that defines it.
        value: the function of a method, property or fixture; None for attributes.
        annotation: source of the type of an attribute; empty if it has none.
    """

    name: str
    kind: str
    owner: type
    value: Any = None
    annotation: str = ""


def members_of(cls: type) -> list[Member]:
    """Return the public members that a class and its bases of this project define, by name.

    Tests of the conformance kits are not members.
    """
    found: dict[str, Member] = {}
    for owner in own_bases(cls):
        for member in (*_attributes(owner), *_callables(owner)):
            if not member.name.startswith(("_", "test_")):
                found.setdefault(member.name, member)
    return [found[name] for name in sorted(found)]


def own_bases(cls: type) -> list[type]:
    """Return a class and those of its bases that belong to this project."""
    return [base for base in cls.__mro__ if base.__module__.split(".")[0].startswith("mastaba")]


def source_of(annotation: Any) -> str:
    """Return the source of a type in an annotation."""
    if isinstance(annotation, ForwardRef):  # in named tuples
        return annotation.__forward_arg__
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def described(cls: type) -> set[str]:
    """Return the attributes and arguments that docstrings of a class and its bases describe."""
    found: set[str] = set()
    for base in own_bases(cls):
        inside = False
        for line in inspect.cleandoc(vars(base).get("__doc__") or "").splitlines():
            if line and not line.startswith(" "):
                inside = _HEADING.fullmatch(line) is not None
            elif inside and (entry := _ENTRY.match(line)):
                found |= set(entry[1].split(", "))
    return found


def _attributes(owner: type) -> Iterator[Member]:
    if issubclass(owner, enum.Enum):
        yield from (Member(name, ATTRIBUTE, owner) for name in owner.__members__)
        return
    for name, annotation in inspect.get_annotations(owner).items():
        yield Member(name, ATTRIBUTE, owner, annotation=source_of(annotation))
    own = vars(owner).get("__init__")
    # Those of dataclasses and protocols have no source.
    if inspect.isfunction(own) and own.__module__ == owner.__module__:
        for node in ast.walk(ast.parse(textwrap.dedent(_source(own)))):
            for place in _targets(node):
                if isinstance(place, ast.Attribute) and ast.unparse(place.value) == "self":
                    yield Member(place.attr, ATTRIBUTE, owner)


def _targets(node: ast.AST) -> list[ast.expr]:
    """Return what an assignment assigns to; nothing for other statements."""
    if isinstance(node, ast.AnnAssign):
        return [node.target]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [
        place
        for target in targets
        for place in (target.elts if isinstance(target, ast.Tuple) else [target])
    ]


def _source(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""


def _callables(owner: type) -> Iterator[Member]:
    for name, value in vars(owner).items():
        if isinstance(value, property):
            yield Member(name, PROPERTY, owner, value.fget)
        elif isinstance(value, cached_property):
            yield Member(name, PROPERTY, owner, value.func)
        elif type(value).__name__ == "FixtureFunctionDefinition":
            function = value._get_wrapped_function()
            yield Member(
                name, FIXTURE, owner, inspect.unwrap(getattr(function, "__func__", function))
            )
        elif isinstance(value, classmethod | staticmethod):
            yield Member(name, METHOD, owner, value.__func__)
        elif inspect.isfunction(value):
            yield Member(name, METHOD, owner, value)
