"""Validation of documents against JSON schemas, with a remedy for each problem."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from difflib import get_close_matches
from functools import reduce
from operator import getitem
from typing import Any, Final, NoReturn

from jsonschema_rs import Draft202012Validator, ValidationError

from mastaba_documents.faults import Faults

_TYPE_NAMES: Final = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_SHOWN: Final = 60
_COMPARED: Final = 100  # unknown keys of an object for which similar ones are sought

# Reason and remedy for each keyword of JSON Schema. Without a remedy, the description of the
# value is the remedy.
_MESSAGES: Final = {
    "required": ("is missing", "add the key {key!r}"),
    "type": ("must be {types}, not {shown}", "write {types}"),
    "enum": ("cannot be {shown}", "use one of {listed}"),
    "minLength": ("must not be empty", ""),
    "minItems": ("must have at least {limit} elements", ""),
    "maxItems": ("must have at most {limit} elements", ""),
    "minimum": ("{shown} is too small", "use {limit} or more"),
    "exclusiveMinimum": ("{shown} is too small", "use more than {limit}"),
    "maximum": ("{shown} is too large", "use {limit} or less"),
}
_OTHER: Final = ("{shown} is not allowed here", "")

# JSON numbers may be floats, which do not represent larger integers exactly.
_INTEGER_BOUNDS: Final = {"minimum": -(2**53), "maximum": 2**53}


def problem_of_schema(schema: object) -> str | None:
    """Return why a value cannot be used as a JSON schema, or None if it can."""
    try:
        Draft202012Validator(json.loads(json.dumps(schema)), retriever=_no_document)
    except (TypeError, ValueError) as error:
        return str(error).splitlines()[0]
    return None


def _no_document(address: str) -> NoReturn:
    """Refuse a reference to another document: a schema never makes a request."""
    raise ValueError(f"the reference to {address}: only references within the schema are allowed")


class DocumentValidator:
    """Validator of documents with one schema.

    An unknown key is removed with a warning. A known key with an invalid value is an error, or a
    warning if the schema says ``"x-on-fault": "default"``: the value is then removed and the
    default applies. The mark on an object does not apply to its members. ``x-if-unknown`` is the
    remedy for unknown keys of an object.

    Args:
        schema: of JSON Schema; an object.
        is_strict: whether an unknown key is an error.
    """

    def __init__(self, schema: dict[str, Any], *, is_strict: bool = False) -> None:
        self._is_strict = is_strict
        self._use(schema)

    def _use(self, schema: dict[str, Any]) -> None:
        self._schema = _bounded(schema)
        self._validator = Draft202012Validator(self._schema, retriever=_no_document)

    def validate(self, document: Any, file: str, faults: Faults) -> dict[str, Any] | None:
        """Return the document, or None if it has an error; all problems are recorded."""
        usable = True
        for error in self._errors(document):
            # The attributes of a kind depend on its keyword.
            kind: Any = error.kind
            keyword, path = kind.name, list(error.instance_path)
            node = reduce(getitem, error.schema_path[:-1], self._schema)
            if keyword == "additionalProperties":
                known = node.get("properties", {})
                usable = usable and not self._is_strict
                remedy = node.get("x-if-unknown", "remove it, or correct its spelling")
                for number, key in enumerate(kind.unexpected):
                    at = [*path, key]
                    advice = did_you_mean(key, known if number < _COMPARED else ()) or remedy
                    if self._is_strict:
                        faults.error(file, json_path(at), "unknown key", advice)
                    else:
                        _remove(document, at)
                        faults.warning(file, json_path(at), "unknown key, it is ignored", advice)
                continue
            reason, remedy = _message(error, node)
            if keyword == "required":
                path.append(kind.property)
            elif node.get("x-on-fault") == "default":
                _remove(document, path)
                faults.warning(file, json_path(path), f"{reason}; the default is used", remedy)
                continue
            usable = False
            faults.error(file, json_path(path), reason, remedy)
        return document if usable else None

    def complete(self, document: dict[str, Any]) -> None:
        """Fill in the defaults of a valid document, and turn floats such as 1.0 into integers.

        Members of lists stay as they are.
        """
        _complete(document, self._schema)

    def _errors(self, document: Any) -> list[ValidationError]:
        """Return the errors in the order of their paths, only one for a value of the wrong type."""
        errors = list(self._validator.iter_errors(document))
        errors.sort(key=lambda error: [str(part) for part in error.instance_path])
        mistyped = {tuple(error.instance_path) for error in errors if error.kind.name == "type"}
        return [
            error
            for error in errors
            if error.kind.name == "type" or tuple(error.instance_path) not in mistyped
        ]


def _bounded(node: Any) -> Any:
    """Return a schema with bounds for all integers."""
    if isinstance(node, list):
        return [_bounded(item) for item in node]
    if not isinstance(node, dict):
        return node
    bounds = _INTEGER_BOUNDS if node.get("type") == "integer" else {}
    return {**bounds, **{key: _bounded(value) for key, value in node.items()}}


def _complete(document: dict[str, Any], node: dict[str, Any]) -> None:
    for key, member in node.get("properties", {}).items():
        if key not in document:
            if "default" not in member:
                continue
            document[key] = copy.copy(member["default"])
        value = document[key]
        if isinstance(value, dict):
            _complete(value, member)
        elif isinstance(value, float) and member.get("type") == "integer":
            document[key] = int(value)


def json_path(parts: Iterable[str | int]) -> str:
    """Return ``$.levels[3].id`` for the parts ``"levels", 3, "id"``."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that suggests the most similar name; empty if none is similar."""
    spellings = {other.lower(): other for other in known}
    similar = get_close_matches(name.lower(), spellings, n=1)
    return f"did you mean {spellings[similar[0]]!r}?" if similar else ""


def _remove(document: Any, path: list[str | int]) -> None:
    *steps, last = path
    reduce(getitem, steps, document).pop(last, None)


def _message(error: ValidationError, node: dict[str, Any]) -> tuple[str, str]:
    """Return the reason and the remedy for an error."""
    limit = node.get(error.kind.name)
    shown = json.dumps(error.instance, ensure_ascii=False, default=str)
    words = {
        "shown": shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…",
        "limit": limit,
        "key": getattr(error.kind, "property", ""),
        "types": " or ".join(_TYPE_NAMES[name] for name in getattr(error.kind, "types", ())),
        "listed": ", ".join(map(str, limit)) if isinstance(limit, list) else "",
    }
    reason, remedy = (text.format_map(words) for text in _MESSAGES.get(error.kind.name, _OTHER))
    return reason, remedy or node.get("description", "see the schema of this file")
