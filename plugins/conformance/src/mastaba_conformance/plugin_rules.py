"""Rules for the attributes of classes that plugins provide: ``mastaba plugins --check``.

A server starts with classes that break them; clients, paths or configuration files would show it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

import jsonschema

from mastaba.api.services import Service
from mastaba.api.slabs import IndexStore
from mastaba.api.storages import Storage

_PART: Final = r"[A-Za-z0-9!#$&^_.+-]+"
_MEDIA_TYPE: Final = re.compile(rf"\A{_PART}/{_PART}( *; *{_PART}={_PART})*")
_ROOT_PATH: Final = re.compile(r"\A/|\A/?[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*/?")
_NAME: Final = (re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}"), "use letters, digits and . _ -")

# attribute: rule, what to write
_RULES: Final[dict[Any, dict[str, tuple[re.Pattern[str], str]]]] = {
    Service: {
        "name": _NAME,
        "default_root_path": (_ROOT_PATH, "write a path of letters, digits and . _ ~ -"),
        "title": (re.compile(r"\A\s*\S.*"), "write one line of text"),
        # Tuples, of which each member must follow the rule.
        "allowed_methods": (re.compile(r"\A[A-Z]+"), "write a tuple of methods in upper case"),
        "operations": (re.compile(r"\A[a-z][a-z0-9_]*"), "write a tuple of words in lower case"),
    },
    Storage: {
        # Paths and descriptors are compared with it in lower case.
        "name": (
            re.compile(r"\A[a-z][a-z0-9._+-]{0,63}"),
            "use lower-case letters, digits and . _ + -, a letter first",
        ),
        "container_field": (_NAME[0], f"{_NAME[1]}, or None"),
    },
    IndexStore: {"name": _NAME},
}
with suppress(ModuleNotFoundError):
    # An installation with encoders has their base class.
    _RULES[import_module("mastaba_render.api.encoders").Encoder] = {
        "name": _NAME,
        "media_type": (_MEDIA_TYPE, "write a media type, such as 'image/png'"),
        "extension": (re.compile(r"\A[A-Za-z0-9]{1,16}"), "use letters and digits, without a dot"),
    }
_TUPLES: Final = frozenset(("allowed_methods", "operations"))
_OPTIONAL: Final = frozenset(("default_root_path", "container_field"))
_SCHEMAS: Final = ("settings_schema", "layer_schema")


def broken_rules(found: type) -> Iterator[str]:
    """Yield the rules that a class breaks, each as the end of a sentence about its plugin.

    Args:
        found: a service, storage driver, index store or encoder that the core can use.
    """
    for base, rules in _RULES.items():
        if issubclass(found, base):
            for name, (rule, remedy) in rules.items():
                value = getattr(found, name)
                if not (value is None and name in _OPTIONAL) and not _follows(value, name, rule):
                    yield f"defines {name} of {found.__name__} as {_shown(value)}; {remedy}"
    for name in _SCHEMAS:
        for key, schema in json.loads(json.dumps(getattr(found, name, {}))).items():
            if "default" in schema and not _is_valid(schema):
                yield (
                    f"defines {name} of {found.__name__}, which has a default for {key!r} that its "
                    "own schema does not allow"
                )


def _follows(value: Any, name: str, rule: re.Pattern[str]) -> bool:
    members = value if name in _TUPLES else (value,)
    return isinstance(members, tuple | list) and all(
        isinstance(member, str) and rule.fullmatch(member) for member in members
    )


def _is_valid(schema: dict[str, Any]) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(schema["default"]))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"
