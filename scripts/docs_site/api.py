"""Pages on the public interface, in which Sphinx inserts signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from scripts.public_api.members import FIXTURE, METHOD, PROPERTY, members_of
from scripts.public_api.names import API, HOOKS, KIT, WRITER, Name, names_of

_LONGEST_VALUE = 72
_MASTABA = "What every plugin imports: the decorator of hooks, and references to classes."


@dataclass(frozen=True, slots=True)
class _Group:
    """Modules with a page that lists them."""

    place: str
    title: str
    introduction: str
    modules: Sequence[str]
    further: Sequence[str] = ()


_GROUPS: Final = (
    _Group(
        "index",
        "Reference",
        "Every public name, with its signature and docstring, as ``help()`` shows them. "
        ":doc:`/api` says what may change in which release. Plugins import from ``mastaba``, "
        "``mastaba.errors`` and the modules of ``mastaba.api``, and implement hooks. Their tests "
        "use the :doc:`conformance kit <conformance>` and the :doc:`writer <writer>`.",
        ("mastaba", HOOKS, "mastaba.errors", *API),
        ("conformance", "writer"),
    ),
    _Group(
        "conformance",
        "Conformance kit",
        "The tests of ``mastaba-conformance``, and what they use.",
        KIT,
    ),
    _Group(
        "writer",
        "Writer",
        "Functions of ``mastaba-writer``, which write slabs, pyramids and installations.",
        WRITER,
    ),
)


def api_pages() -> dict[str, str]:
    """Return a page for each public module, and pages that list them, by path on the site."""
    pages = {}
    for group in _GROUPS:
        pages[f"reference/{group.place}.rst"] = _index(group)
        pages |= {f"reference/{module}.rst": _page(module) for module in group.modules}
    return pages


def _index(group: _Group) -> str:
    lines = [_heading(group.title), "", group.introduction, "", ".. list-table::", ""]
    for module in group.modules:
        lines += (f"   * - :doc:`{_title(module)} <{module}>`", f"     - {_summary(module)}")
    lines += ("", ".. toctree::", "   :hidden:", "")
    # The pages of one package need not repeat its name.
    short = (_title(module).removeprefix("mastaba.api.") for module in group.modules)
    short = (name.rpartition(".")[2] if group.place != "index" else name for name in short)
    lines += (f"   {name} <{module}>" for name, module in zip(short, group.modules, strict=True))
    lines += (f"   {page}" for page in group.further)
    return "\n".join(lines) + "\n"


def _title(module: str) -> str:
    return "Hooks" if module == HOOKS else module


def _summary(module: str) -> str:
    text = inspect.getdoc(importlib.import_module(module)) or ""
    return _MASTABA if module == "mastaba" else text.splitlines()[0]


def _page(module: str) -> str:
    introduction = f".. automodule:: {module}"
    if module == "mastaba":  # its docstring is about the inside of the core
        introduction = f".. py:module:: {module}\n\n{_MASTABA}"
    entries = [_entry(name, module) for name in names_of(module)]
    return "\n\n".join([_heading(_title(module)), introduction, *entries]) + "\n"


def _heading(title: str) -> str:
    return f"{title}\n{'=' * len(title)}"


def _entry(name: Name, module: str) -> str:
    if name.is_function:
        return f".. autofunction:: {name.name}"
    if name.is_class:
        return "\n".join(_class(name.name, name.value, module))
    return _constant(name)


def _constant(name: Name) -> str:
    source, text = name.definition
    if name.is_alias:
        lines = [f".. py:type:: {name.name}", f"   :canonical: {source}"]
    else:
        lines = [f".. py:data:: {name.name}", f"   :type: {type(name.value).__name__}"]
        if len(repr(name.value)) <= _LONGEST_VALUE:
            lines.append(f"   :value: {name.value!r}")
    return "\n".join([*lines, "", textwrap.indent(text, "   ")])


def _class(name: str, cls: type, module: str) -> Iterator[str]:
    yield f".. auto{'exception' if issubclass(cls, Exception) else 'class'}:: {name}"
    if first_modules()[cls] != module:  # another page has it too
        yield "   :no-index:"
    if first_modules().keys() & set(cls.__bases__):
        yield "   :show-inheritance:"
    members = members_of(cls)
    shown = [member.name for member in members if member.kind in (METHOD, PROPERTY)]
    if shown:
        yield f"   :members: {', '.join(shown)}"
    # Sphinx does not find the docstrings of fixtures.
    for member in members:
        if member.kind == FIXTURE:
            yield f"\n   .. py:attribute:: {member.name}\n      :type: fixture\n"
            yield textwrap.indent(inspect.getdoc(member.value) or "", " " * 6)


@cache
def first_modules() -> dict[object, str]:
    """Return the first module that has each public class."""
    found: dict[object, str] = {}
    for module in (module for group in _GROUPS for module in group.modules):
        for name in names_of(module):
            if name.is_class:
                found.setdefault(name.value, module)
    return found
