"""Telling valid documents from others, fast.

jsonschema takes milliseconds for a pyramid descriptor, which is seconds for a thousand layers.
It is asked only for documents that do not pass here: it is the one that words the faults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Check = Callable[[Any], bool]

_MAX_INTEGER: Final = 2**53
"""Whole numbers beyond this are not exact as floats, which JSON numbers may be."""

# Keywords that do not limit a value by themselves.
_NOTES: Final = frozenset(
    ("$schema", "title", "description", "default", "examples", "x-on-fault", "then", "else")
)
_OBJECT: Final = frozenset(("properties", "required", "additionalProperties"))


class _UnknownKeywordError(Exception):
    """The schema says something that this module does not understand."""


def compile_check(schema: Mapping[str, Any]) -> Check | None:
    """Return a function that tells whether a document is valid; None when that is not certain.

    Args:
        schema: with the common keywords of JSON Schema.
    """
    try:
        return _compile(schema)
    except _UnknownKeywordError:
        return None


def is_integer(value: object) -> bool:
    """Tell whether a value is a whole number; ``4.0`` is one, ``true`` and ``1e300`` are not."""
    return (
        not isinstance(value, bool)
        and isinstance(value, int | float)
        and abs(value) <= _MAX_INTEGER
        and value == int(value)
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Final[Mapping[str, Check]] = {
    "string": lambda value: isinstance(value, str),
    "integer": is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _compile(schema: Mapping[str, Any]) -> Check:
    checks = [
        _make(keyword, value, schema)
        for keyword, value in schema.items()
        if keyword not in _NOTES and keyword not in _OBJECT
    ]
    if _OBJECT & schema.keys():
        checks.append(_object_check(schema))
    if len(checks) == 1:
        return checks[0]
    return lambda value: all(check(value) for check in checks)


def _make(keyword: str, limit: Any, schema: Mapping[str, Any]) -> Check:
    match keyword:
        case "type":
            return _type_check(limit)
        case "enum" | "const":
            known = frozenset(limit if keyword == "enum" else [limit])
            if not all(isinstance(item, str) for item in known):
                raise _UnknownKeywordError(keyword)  # 1, 1.0 and true are not alike there
            return lambda value: isinstance(value, str) and value in known
        case "minimum":
            return lambda value: not _is_number(value) or value >= limit
        case "maximum":
            return lambda value: not _is_number(value) or value <= limit
        case "exclusiveMinimum":
            return lambda value: not _is_number(value) or value > limit
        case "minLength":
            return lambda value: not isinstance(value, str) or len(value) >= limit
        case "minItems":
            return lambda value: not isinstance(value, list) or len(value) >= limit
        case "maxItems":
            return lambda value: not isinstance(value, list) or len(value) <= limit
        case "pattern":
            search = re.compile(limit).search
            return lambda value: not isinstance(value, str) or search(value) is not None
        case "items":
            item_check = _compile(limit)
            return lambda value: not isinstance(value, list) or all(map(item_check, value))
        case "if":
            condition = _compile(limit)
            then, otherwise = (_compile(schema.get(word, {})) for word in ("then", "else"))
            return lambda value: then(value) if condition(value) else otherwise(value)
    raise _UnknownKeywordError(keyword)


def _type_check(names: Any) -> Check:
    listed = names if isinstance(names, list) else [names]
    if not _TYPES.keys() >= set(listed):
        raise _UnknownKeywordError("type")
    checks = [_TYPES[name] for name in listed]
    return checks[0] if len(checks) == 1 else lambda value: any(check(value) for check in checks)


def _object_check(schema: Mapping[str, Any]) -> Check:
    properties = {name: _compile(node) for name, node in schema.get("properties", {}).items()}
    required = frozenset(schema.get("required", ()))
    others_allowed = schema.get("additionalProperties", True)
    if not isinstance(others_allowed, bool):
        raise _UnknownKeywordError("additionalProperties")

    def check(value: Any) -> bool:
        if not isinstance(value, dict):
            return True
        if not required <= value.keys():
            return False
        for name, item in value.items():
            known = properties.get(name)
            if known is None:
                if not others_allowed:
                    return False
            elif not known(item):
                return False
        return True

    return check
