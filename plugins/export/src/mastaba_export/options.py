"""The options of ``mastaba export`` that are inputs of exports, made from their schema."""

from __future__ import annotations

import argparse
import json
import math
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mastaba_export.request import export_schema, format_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_LARGEST_AREA: Final = 16 * 1024 * 1024
"""Bytes of a GeoJSON file."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each input but the layer."""
    for key, schema in export_schema()["properties"].items():
        if key != "layer":
            _add(parser, key, schema)


def given_inputs(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the inputs that the options stand for, without the layer."""
    given = vars(arguments)
    keys = export_schema()["properties"]
    return {key: given[key] for key in keys if key in given and key != "layer"}


def command_of(inputs: Mapping[str, Any], out: str) -> str:
    """Return the command that does what the inputs of an export say.

    The configuration is ``server.json``; polygons are in a file ``area.geojson``.

    Args:
        inputs: as `ExportRequest.to_inputs` returns them.
        out: the output.
    """
    words = ["mastaba", "export", inputs["layer"], out, "-f", "server.json"]
    for key, schema in export_schema()["properties"].items():
        is_known = key == "layer" or (key == "format" and inputs.get(key) == format_of(out))
        if is_known or key not in inputs:
            continue
        flag, placeholder = _option(key, schema)
        value = inputs[key]
        if schema.get("type") == "boolean":
            words.append(flag)
        elif schema.get("type") == "object":
            words.append(f"{flag}=area.geojson")
        elif schema.get("type") == "array" and schema["items"]["type"] == "string":
            words += [f"{flag}={one}" for one in value]
        elif schema.get("type") == "array":
            separator = _separator(placeholder)
            words.append(f"{flag}={separator.join(f'{one:.15g}' for one in value)}")
        else:
            words.append(f"{flag}={value}")
    return shlex.join(words)


def _option(key: str, schema: Mapping[str, Any]) -> list[str]:
    """Return the name of an option and the placeholder of its value."""
    values = "|".join(schema.get("enum", [key.upper()]))
    option: str = schema.get("x-option", f"--{key.replace('_', '-')} {values}")
    return option.split(" ")


def _separator(placeholder: str) -> str:
    """Return what separates the numbers of a list."""
    return "-" if "-" in placeholder else ","


def _add(parser: argparse.ArgumentParser, key: str, schema: Mapping[str, Any]) -> None:
    flag, placeholder = _option(key, schema)
    value: dict[str, Any] = {"metavar": placeholder}
    kind = schema.get("type")
    if kind == "boolean":
        value = {"action": "store_true"}
    elif "enum" in schema:
        value["choices"] = schema["enum"]
    elif kind == "object":
        value["type"] = _document
    elif kind == "array" and schema["items"]["type"] == "string":
        value["action"] = "append"
    elif kind == "array":
        separator = _separator(placeholder)
        kind_of_numbers = int if schema["items"]["type"] == "integer" else float
        value["type"] = partial(_numbers, placeholder, separator, kind_of_numbers)
    text = str(schema["description"]).removesuffix(".")
    if not text[:2].isupper():
        text = text[0].lower() + text[1:]
    if schema.get("default"):
        text += f" (default: {schema['default']})"
    help_text = text.replace("%", "%%")
    parser.add_argument(flag, dest=key, default=argparse.SUPPRESS, help=help_text, **value)


def _numbers(form: str, separator: str, kind: type[int] | type[float], text: str) -> list[Any]:
    parts = text.split(separator)
    if separator == "-" and len(parts) == 1:
        parts *= 2
    try:
        values = [kind(part) for part in parts]
        if not all(map(math.isfinite, values)):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form {form}") from None
    return values


def _document(path: str) -> Any:
    try:
        file = Path(path)
        if file.stat().st_size > _LARGEST_AREA:
            raise argparse.ArgumentTypeError(f"{path} is larger than 16 MiB")
        return json.loads(file.read_text("utf-8-sig"))
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{path} is not JSON: {error}") from None
