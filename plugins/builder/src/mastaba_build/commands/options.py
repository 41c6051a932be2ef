"""The options of ``mastaba build`` that configuration files also have, made from their schema."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from mastaba_build.config.schema import build_schema, source_properties

_SCALARS = {"string": str, "integer": int, "number": float}
_SOURCE = "source."
"""Start of the names of options of sources in parsed arguments: both kinds have ``nodata``."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a build, and those of all sources of the command line."""
    properties = build_schema()["properties"]
    for key, schema in properties.items():
        if key != "sources" and schema.get("type") != "object":
            _add(parser, key, key, schema)
    group = parser.add_argument_group("sources")
    for key, schema in source_properties().items():
        if key != "path":
            _add(group, key, _SOURCE + key, schema)


def add_some(parser: argparse.ArgumentParser, keys: Iterable[str]) -> None:
    """Add the options of some keys of a configuration file."""
    for key in keys:
        _add(parser, key, key, build_schema()["properties"][key])


def given_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the part of a configuration file that the options represent.

    Args:
        arguments: with ``sources``, the paths; without the options that are not given.
    """
    given = vars(arguments)
    document = {
        key: given[key] for key in build_schema()["properties"] if key in given and key != "sources"
    }
    options = {key: given[_SOURCE + key] for key in source_properties() if _SOURCE + key in given}
    if arguments.sources:
        document["sources"] = [{"path": path, **options} for path in arguments.sources]
    return document


def _add(
    parser: argparse._ActionsContainer, key: str, destination: str, schema: Mapping[str, Any]
) -> None:
    default = f"--{key.replace('_', '-')} {'|'.join(schema.get('enum', [key.upper()]))}"
    flag, placeholder = schema.get("x-option", default).split(" ")
    kind = schema.get("type", "string")
    is_negated = schema.get("x-negation", False)
    action: Any = argparse.BooleanOptionalAction if is_negated else "store_true"
    value: dict[str, Any] = {"action": action}
    if kind == "array":
        value = {"type": partial(_numbers, placeholder), "metavar": placeholder}
        if "array" in schema["items"]["type"]:
            value["action"] = "append"
    elif kind != "boolean":
        value = {"type": _SCALARS[kind], "metavar": placeholder}
    parser.add_argument(
        flag, dest=destination, default=argparse.SUPPRESS, help=_help(schema, value), **value
    )


def _help(schema: Mapping[str, Any], value: Mapping[str, Any]) -> str:
    """Return the description of a property as the help of an option."""
    text = str(schema["description"]).removesuffix(".")
    if not text[:2].isupper():
        text = text[0].lower() + text[1:]
    if "default" in schema:
        default = schema["default"]
        text += (
            f" (default: {'x'.join(map(str, default)) if isinstance(default, list) else default})"
        )
    if value.get("action") == "append":
        text += "; may be repeated"
    return text.replace("%", "%%")


def _numbers(form: str, text: str) -> list[float]:
    """Return the numbers in a value.

    Args:
        form: how they are written, as ``LOW,HIGH`` or ``WIDTHxHEIGHT``.
    """
    separator = "x" if "x" in form else ","
    try:
        values = [float(part) for part in text.split(separator)]
        if not all(map(math.isfinite, values)):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of numbers of the form {form}"
        ) from None
    return [int(value) if value.is_integer() else value for value in values]
