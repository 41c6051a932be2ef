"""The public interface as text: every name with its signature, one per line."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

from scripts.public_api.members import ATTRIBUTE, METHOD, Member, members_of, own_bases, source_of
from scripts.public_api.names import Name, names_of

_ADDRESS = re.compile(r"<function (\w+) at 0x[0-9a-f]+>")


def surface(modules: Iterable[str]) -> str:
    """Return the names of public modules with their signatures.

    The text does not depend on the version of Python.
    """
    lines: list[str] = []
    for module in modules:
        lines += (f"{module}", *(f"  {line}" for name in names_of(module) for line in _lines(name)))
    return "\n".join(lines) + "\n"


def _lines(name: Name) -> Iterator[str]:
    if name.is_class:
        yield from _class_lines(name)
    elif name.is_function:
        yield f"{name.name}{_signature(name.value)}"
    elif name.is_alias:
        yield f"type {name.name} = {name.definition[0]}"
    else:
        yield f"{name.name}: {type(name.value).__name__}"


def _class_lines(name: Name) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in name.value.__bases__ if base is not object)
    yield f"class {name.name}({bases})" if bases else f"class {name.name}"
    if issubclass(name.value, enum.Enum):
        yield from (f"  {member.name} = {member.value!r}" for member in name.value)
        return
    if _has_signature(name.value):
        yield f"  __init__{_signature(name.value)}"
    yield from (f"  {_member(member)}" for member in members_of(name.value))


def _has_signature(cls: type) -> bool:
    """Return whether a class defines how it is created: neither protocols nor plain errors do."""
    own = {
        name for base in own_bases(cls) for name in ("__init__", "__new__") if name in vars(base)
    }
    return bool(own) and not getattr(cls, "_is_protocol", False)


def _member(member: Member) -> str:
    if member.kind == ATTRIBUTE:
        return f"{member.name}: {member.annotation}" if member.annotation else member.name
    if member.kind == METHOD:
        return f"{member.name}{_signature(member.value)}"
    kind = inspect.signature(member.value).return_annotation
    return f"{member.kind} {member.name}: {kind}"


def _signature(value: Any) -> str:
    signature = inspect.signature(value)
    parameters = [
        each.replace(annotation=_annotation(each.annotation), default=_default(each.default))
        for each in signature.parameters.values()
    ]
    returned = _annotation(signature.return_annotation)
    return str(signature.replace(parameters=parameters, return_annotation=returned))


def _annotation(annotation: Any) -> Any:
    # A signature would put texts in quotes.
    absent = annotation is inspect.Signature.empty
    return annotation if absent else _Shown(source_of(annotation))


def _default(value: Any) -> Any:
    # Each run has other addresses of functions.
    absent = value is inspect.Parameter.empty
    return value if absent else _Shown(_ADDRESS.sub(r"\1", repr(value)))


class _Shown:
    """A text that signatures show as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text
