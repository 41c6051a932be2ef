"""JSON schemas of the configuration files, and validation against them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from mastaba.config.faults import Faults

if TYPE_CHECKING:
    from mastaba.plugins.manager import Plugins

SCHEMA_NAMES: Final = ("server", "services", "layer", "pyramid", "tile_matrix_set", "style")

_TYPE_NAMES: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_SHOWN: Final = 60

_MAX_INTEGER: Final = 2**53
"""JSON numbers may be floats, which do not represent larger integers exactly."""


@cache
def _load(name: str) -> dict[str, Any]:
    text = files("mastaba.config").joinpath("schemas", f"{name}.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def schema(name: str, plugins: Plugins) -> dict[str, Any]:
    """Return one of `SCHEMA_NAMES`, with the sections of the installed services.

    Raises:
        KeyError: unknown schema.
    """
    if name not in SCHEMA_NAMES:
        raise KeyError(name)
    document = copy.deepcopy(_load(name))
    if name == "services":
        for service_name, service in sorted(plugins.services.items()):
            if service.is_fallback:
                continue
            section = copy.deepcopy(_load("service"))
            section["description"] = f"The service {service.title}."
            section["properties"].update(copy.deepcopy(dict(service.settings_schema)))
            document["properties"][service_name] = section
        formats = document["properties"]["global"]["properties"]["map"]["properties"]["formats"]
        known = formats["items"]["enum"]
        known.extend(sorted(set(plugins.encoders).difference(known)))
    elif name == "layer":
        switch = document["properties"]["wms"]
        for service_name, service in sorted(plugins.services.items()):
            if service_name != "root" and not service.always_on:
                own = copy.deepcopy(switch)
                own["description"] = f"Publication in {service.title}."
                document["properties"].setdefault(service_name, own)
    return document


def _pattern(
    _validator: object, pattern: str, instance: object, _schema: object
) -> Iterator[ValidationError]:
    # In JSON Schema, $ matches only the end. In Python, it also matches before a final line
    # feed, which could end up in an HTTP header.
    if isinstance(instance, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


_Validator: Final[Any] = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {"pattern": _pattern}
)


class SchemaValidator:
    """Validator of documents of one kind.

    An unknown key is a warning. A known key with an invalid value is an error, or a warning if
    the schema says ``"x-on-fault": "default"``: the value is then removed and the default
    applies. The mark on an object does not apply to its members.
    """

    def __init__(self, name: str, plugins: Plugins) -> None:
        self._schema = _bounded(schema(name, plugins))
        # jsonschema takes milliseconds for each descriptor: too slow for thousands of layers.
        # It runs only if jsonschema_rs, which is a hundred times faster, finds a problem.
        self._validator = _Validator(self._schema)
        self._quick = jsonschema_rs.Draft202012Validator(self._schema)

    def validate(self, document: Any, file: str, faults: Faults) -> dict[str, Any] | None:
        """Return the document, or None if it has an error; all problems are recorded."""
        if self._quick.is_valid(document):
            checked: dict[str, Any] = document
            return checked
        usable = True
        for error in self._errors(document):
            if error.validator == "additionalProperties":
                known = error.schema.get("properties", {})
                for key in error.instance:
                    if key not in known:
                        faults.warning(
                            file,
                            f"{json_path(error.absolute_path)}.{key}",
                            "unknown key, it is ignored",
                            did_you_mean(key, known) or "remove it, or correct its spelling",
                        )
            elif self._has_default(error):
                _remove(document, list(error.absolute_path))
                faults.warning(
                    file,
                    json_path(error.absolute_path),
                    f"{_reason(error)}; the default is used",
                    _remedy(error),
                )
            else:
                usable = False
                faults.error(file, _fault_path(error), _reason(error), _remedy(error))
        return document if usable else None

    def _errors(self, document: Any) -> list[Any]:
        """Return the errors in the order of their paths, only one for a value of the wrong type."""
        errors = list(self._validator.iter_errors(document))
        mistyped = {tuple(error.absolute_path) for error in errors if error.validator == "type"}
        return sorted(
            (
                error
                for error in errors
                if error.validator == "type" or tuple(error.absolute_path) not in mistyped
            ),
            key=lambda error: [str(part) for part in error.absolute_path],
        )

    def _has_default(self, error: Any) -> bool:
        *steps, keyword = error.absolute_schema_path
        node: Any = self._schema
        for step in steps:
            node = node[step]
        return bool(keyword != "required" and node.get("x-on-fault") == "default")


def _bounded(node: Any) -> Any:
    """Return a schema with bounds for all integers."""
    if isinstance(node, list):
        return [_bounded(item) for item in node]
    if not isinstance(node, dict):
        return node
    bounds = {"minimum": -_MAX_INTEGER, "maximum": _MAX_INTEGER}
    return {
        **(bounds if node.get("type") == "integer" else {}),
        **{key: _bounded(value) for key, value in node.items()},
    }


def json_path(parts: Any) -> str:
    """Return ``$.levels[3].id`` for the parts ``"levels", 3, "id"``."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _fault_path(error: Any) -> str:
    path = json_path(error.absolute_path)
    return f"{path}.{_missing_key(error)}" if error.validator == "required" else path


def _missing_key(error: Any) -> str:
    # jsonschema reports each missing key separately, and its message starts with the key.
    return str(next(key for key in error.validator_value if error.message.startswith(repr(key))))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that suggests the most similar name; empty if none is similar."""
    spellings = {other.lower(): other for other in known}
    similar = get_close_matches(name.lower(), spellings, n=1)
    return f"did you mean {spellings[similar[0]]!r}?" if similar else ""


def _remove(document: Any, path: list[Any]) -> None:
    for step in path[:-1]:
        document = document[step]
    document.pop(path[-1], None)


def _reason(error: Any) -> str:
    shown = json.dumps(error.instance, ensure_ascii=False, default=str)
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
    match error.validator:
        case "required":
            return "is missing"
        case "type":
            return f"must be {_type_name(error.validator_value)}, not {shown}"
        case "enum":
            return f"cannot be {shown}"
        case "minLength":
            return "must not be empty"
        case "minItems":
            return f"must have at least {error.validator_value} elements"
        case "maxItems":
            return f"must have at most {error.validator_value} elements"
        case "minimum" | "exclusiveMinimum":
            return f"{shown} is too small"
        case "maximum":
            return f"{shown} is too large"
        case _:
            return f"{shown} is not allowed here"


def _remedy(error: Any) -> str:
    match error.validator:
        case "required":
            return f"add the key {_missing_key(error)!r}"
        case "enum":
            return f"use one of {', '.join(map(str, error.validator_value))}"
        case "minimum":
            return f"use {error.validator_value} or more"
        case "exclusiveMinimum":
            return f"use more than {error.validator_value}"
        case "maximum":
            return f"use {error.validator_value} or less"
        case "type":
            return f"write {_type_name(error.validator_value)}"
        case _:
            return str(error.schema.get("description", "see the schema of this file"))


def _type_name(value: Any) -> str:
    names = value if isinstance(value, list) else [value]
    return " or ".join(_TYPE_NAMES[name] for name in names)
