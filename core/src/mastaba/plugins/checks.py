"""Rules for the classes that plugins provide, without which the core cannot use them.

A broken rule is a `BrokenPluginError`. ``mastaba plugins --check`` finds what else is wrong, with
mastaba-conformance.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import mastaba
from mastaba import LazyClass
from mastaba.plugins.calls import BrokenPluginError, described
from mastaba.plugins.containment import FOR_THE_PROGRAM

_SUFFIX: Final = re.compile(r"\.[a-z0-9]+")
PLUGIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of classes that plugins provide.

    Attributes:
        word: what messages call it.
        hook: hook that returns the classes.
        base: reference to the required base class.
        identifying: attributes that identify a class; the first one is its key.
        optional: further ones, which may be None.
        required: attributes of the class that a reference does not repeat.
        opened_by: method that creates an instance; empty for the class itself.
        arguments: how many the core passes to it.
    """

    word: str
    hook: str
    base: str
    identifying: tuple[str, ...]
    optional: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    opened_by: str = ""
    arguments: int = 0


SERVICES: Final = Kind(
    "service",
    "register_services",
    "mastaba.services.base:Service",
    identifying=("name",),
    optional=("default_root_path",),
    required=("title",),
    arguments=2,
)
STORAGES: Final = Kind(
    "storage driver",
    "register_storages",
    "mastaba_storage.base:Storage",
    identifying=("name",),
    optional=("container_field",),
    opened_by="open",
    arguments=2,
)
CONTAINERS: Final = Kind(
    "container",
    "register_containers",
    "mastaba.containers.base:Container",
    identifying=("name", "suffixes"),
    opened_by="open",
    arguments=3,
)
DIMENSIONS: Final = Kind(
    "table of variants",
    "register_dimensions",
    "mastaba.variants:VariantTable",
    identifying=("name",),
    opened_by="open",
    arguments=1,
)
INDEX_STORES: Final = Kind(
    "index store",
    "register_index_stores",
    "mastaba.slab.stored_indices:IndexStore",
    identifying=("name",),
    opened_by="open",
    arguments=1,
)
IDENTIFIERS: Final = Kind(
    "identifier",
    "register_identifiers",
    "mastaba_server.access.gate:Identifier",
    identifying=("name",),
    required=("forms",),
    arguments=2,
)
ENCODERS: Final = Kind(
    "encoder",
    "register_encoders",
    "mastaba_render.encoder:Encoder",
    identifying=("media_type", "name", "extension"),
)

# Hooks that return one object or None, and what its methods are.
_OBJECTS: Final[Mapping[str, tuple[str, ...]]] = {
    "access_gate": ("grant", "catalogue", "client_address", "challenges"),
    "request_meters": ("tile", "request"),
}

# Keys of the object "storage" in pyramids that the core reads.
_STORAGE_KEYS: Final = frozenset(
    ("type", "image_directory", "image_prefix", "mask_directory", "mask_prefix", "path_depth")
)


def attributes_of(kind: Kind, item: object) -> dict[str, Any]:
    """Return the identifying attributes of a class or `LazyClass`, checked."""
    names = (*kind.identifying, *kind.optional)
    if isinstance(item, LazyClass):
        owner, found = item.reference, dict[str, Any](item.attributes)
        unknown = ", ".join(sorted(found.keys() - names))
        if unknown:
            raise BrokenPluginError(f"declares {unknown} of {owner}; only the class defines it")
        if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", owner):
            raise BrokenPluginError(f"refers to {owner!r}; write 'package.module:Class'")
        missing = ", ".join(name for name in kind.identifying if name not in found)
        if missing:
            raise BrokenPluginError(f"does not define {missing} of {owner}")
    elif isinstance(item, type):
        _check_class(kind, item)
        owner, found = item.__name__, {name: getattr(item, name) for name in names}
    else:
        raise BrokenPluginError(
            f"returns {_shown(item)} from {kind.hook}, which is not a class; "
            "return classes, or LazyClass references"
        )
    for name in names:
        if found.setdefault(name, None) is not None or name in kind.identifying:
            _check_value(kind, owner, name, found[name])
    return found


def load_class(kind: Kind, item: LazyClass) -> type:
    """Import a class, and check it."""
    module, _, name = item.reference.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (*FOR_THE_PROGRAM, BrokenPluginError):
        raise
    except BaseException as error:
        raise BrokenPluginError(f"cannot import {item.reference}: {described(error)}") from error
    declared, actual = attributes_of(kind, item), attributes_of(kind, found)
    for attribute, value in actual.items():
        if value != declared[attribute]:
            raise BrokenPluginError(
                f"declares {attribute} {declared[attribute]!r} of {item.reference}, "
                f"but the class has {value!r}"
            )
    return found  # type: ignore[no-any-return]


def unique_values(kind: Kind, attributes: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Return what only one class may have: label, value, whether one plugin may repeat it."""
    name = attributes["name"]
    if kind is SERVICES:
        path = (attributes["default_root_path"] or name).strip("/")
        # The service at "/" gives way to others.
        return [("service", name, False)] + ([("root path", f"/{path}", False)] if path else [])
    if kind is CONTAINERS:
        suffixes = [("suffix of containers", one, False) for one in attributes["suffixes"]]
        return [(kind.word, name, False), *suffixes]
    if kind is not ENCODERS:
        return [(kind.word, name, False)]
    media_type = attributes["media_type"].replace(" ", "")
    return [
        ("encoder", media_type, False),
        ("encoder name", name, False),
        ("file extension", attributes["extension"], True),
    ]


def items_of(hook: str, result: Any) -> list[Any]:
    """Return what a hook provides: classes, or one object at most."""
    if hook == "wsgi_middleware":
        if result is not None and not callable(result):
            raise BrokenPluginError(
                f"returns {_shown(result)} from wsgi_middleware; return a function that takes the "
                "application, or None"
            )
        return [] if result is None else [result]
    if hook in _OBJECTS:
        missing = [name for name in _OBJECTS[hook] if not callable(getattr(result, name, None))]
        if result is not None and missing:
            raise BrokenPluginError(
                f"returns {_shown(result)} from {hook}, which has no method {missing[0]}"
            )
        return [] if result is None else [result]
    if result is None:
        raise BrokenPluginError(f"returns nothing from {hook}; return a list of classes")
    if isinstance(result, type | str | LazyClass) or not hasattr(result, "__iter__"):
        raise BrokenPluginError(f"returns {_shown(result)} from {hook}; return a list of classes")
    return list(result)


def check_command(name: str, parser: ArgumentParser, known: Iterable[str]) -> None:
    """Check a new command."""
    if PLUGIN_NAME.fullmatch(name) is None:
        raise BrokenPluginError(
            f"adds the command {name!r}; use letters, digits and . _ - for its name"
        )
    if name.casefold() in map(str.casefold, known):
        raise BrokenPluginError(f"adds the command {name!r}, which exists in another spelling")
    run = parser.get_default("run")
    # A command may leave it to commands of its own.
    if not callable(run) and (run is not None or parser._subparsers is None):
        raise BrokenPluginError(
            f"adds the command {name!r}, which does nothing; call set_defaults(run=function)"
        )
    parser.format_help()


def invalid_schema(schema: object, core_keys: frozenset[str] = frozenset()) -> str | None:
    """Return why the JSON schemas of settings cannot be used, or None if they can.

    Args:
        schema: schemas by the name of the setting.
        core_keys: names that are already taken.
    """
    if not isinstance(schema, Mapping):
        return f"is {_shown(schema)}, not an object of JSON schemas by name"
    taken = sorted(key for key in schema if str(key).casefold() in core_keys)
    if taken:
        return f"redefines {', '.join(taken)}, which the core defines; use another name"
    for key, member in schema.items():
        if not isinstance(key, str) or not isinstance(member, Mapping):
            return f"has the member {key!r}, which is not a JSON schema; write {{name: schema}}"
    if not schema:
        return None
    # Loaded here: most classes have no settings.
    from mastaba_documents.validation import problem_of_schema

    problem = problem_of_schema({"type": "object", "properties": dict(schema)})
    return problem and f"is not a valid JSON schema: {problem}"


def _check_value(kind: Kind, owner: str, name: str, value: Any) -> None:
    if name == "suffixes":
        if not isinstance(value, tuple) or not all(map(_SUFFIX.fullmatch, map(str, value))):
            raise BrokenPluginError(
                f"defines suffixes of {owner} as {_shown(value)}; write a tuple such as ('.abc',)"
            )
        return
    if not isinstance(value, str) or not value:
        raise BrokenPluginError(f"defines {name} of {owner} as {_shown(value)}; write text")
    taken: frozenset[str] = _STORAGE_KEYS if name == "container_field" else frozenset()
    if (kind, name) == (SERVICES, "name"):
        taken = _properties("services") | _properties("layer")
    if taken and value.casefold() in taken:
        raise BrokenPluginError(
            f"defines {name} of {owner} as {value!r}, which is a key of the core; use another name"
        )


def _check_class(kind: Kind, item: type) -> None:
    module, _, name = kind.base.partition(":")
    # The module that defines a subclass has imported the base class.
    base = getattr(sys.modules.get(module), name, None)
    if base is None or not issubclass(item, base):
        raise BrokenPluginError(
            f"returns {item.__name__} from {kind.hook}, which is not a subclass of {name}"
        )
    if inspect.isabstract(item):
        methods = ", ".join(sorted(item.__abstractmethods__))  # type: ignore[attr-defined]
        raise BrokenPluginError(f"returns {item.__name__}, which does not implement {methods}")
    names = (*kind.identifying, *kind.optional, *kind.required)
    missing = ", ".join(name for name in names if not hasattr(item, name))
    if missing:
        raise BrokenPluginError(
            f"returns {item.__name__} from {kind.hook}, which does not define {missing}"
        )
    if kind is SERVICES:
        for attribute, file in (("settings_schema", "service"), ("layer_schema", "layer")):
            reason = invalid_schema(getattr(item, attribute), _properties(file))
            if reason is not None:
                raise BrokenPluginError(f"defines {attribute} of {item.__name__}, which {reason}")
    opened = getattr(item, kind.opened_by) if kind.opened_by else item
    try:
        inspect.signature(opened).bind(*[None] * kind.arguments)
    except TypeError as error:
        raise BrokenPluginError(
            f"defines {'.'.join(filter(None, (item.__name__, kind.opened_by)))}, which the core "
            f"cannot call with {kind.arguments} arguments: {error}"
        ) from error


@cache
def _properties(name: str) -> frozenset[str]:
    """Return the keys that the core defines in a kind of file, without the switches of services."""
    path = Path(mastaba.__file__).with_name("config") / "schemas" / f"{name}.json"
    properties = json.loads(path.read_text("utf-8"))["properties"]
    return frozenset(
        key
        for key, member in properties.items()
        if member.get("properties", {}).keys() != {"enabled"}
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"
