"""Pages on the configuration files, generated from their JSON schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mastaba.config import SCHEMA_NAMES
from mastaba.config.schema import schema
from mastaba.plugins.manager import Plugins

_TITLES = {
    "server": "server.json",
    "services": "services.json",
    "layer": "Layer descriptor",
    "pyramid": "Pyramid descriptor",
    "tile_matrix_set": "Tile matrix set",
    "style": "Style",
}
_TYPES = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "object",
    "null": "null",
}


def reference_pages(repository: Path) -> dict[str, str]:
    """Return a page for each kind of file, with the sections of the installed services."""
    plugins = Plugins()
    return {
        f"configuration/{name}.md": _page(name, schema(name, plugins), repository / "config")
        for name in SCHEMA_NAMES
    }


def _page(name: str, document: dict[str, Any], samples: Path) -> str:
    parts = [f"# {_TITLES[name]}\n", _introduction(name)]
    for path, node in _objects("", document):
        if path:
            parts.append(f"## `{path}`\n")
            if "description" in node:
                parts.append(f"{_sentence(node['description'])}\n")
        parts.append(_table(path, node))
    sample = samples / f"{name}.sample.yaml"
    if sample.exists():
        text = sample.read_text("utf-8")
        parts.append(f"## Sample\n\n```yaml\n{text.strip()}\n```\n")
    return "\n".join(parts)


def _introduction(name: str) -> str:
    return (
        f"`mastaba schema {name}` prints the JSON schema of this page. A key that is not listed is "
        "ignored with a warning; `null` counts as absent. JSON may be written as YAML.\n"
    )


def _objects(path: str, node: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object that has members, with its path; list items as ``levels[]``."""
    if "properties" not in node:
        return
    yield path, node
    for key, member in node["properties"].items():
        inner = f"{path}.{key}" if path else key
        yield from _objects(inner, member)
        items = member.get("items")
        if isinstance(items, dict):
            yield from _objects(f"{inner}[]", items)


def _table(path: str, node: dict[str, Any]) -> str:
    rows = ["| Key | Type | Default | Meaning |", "|---|---|---|---|"]
    required = node.get("required", ())
    for key, member in node["properties"].items():
        default = "**required**" if key in required else _default(member)
        rows.append(f"| `{key}` | {_type(member)} | {default} | {_meaning(path, key, member)} |")
    return "\n".join(rows) + "\n"


def _type(node: dict[str, Any]) -> str:
    if "enum" in node and "type" not in node:
        return "string"
    names = node.get("type", "string")
    names = names if isinstance(names, list) else [names]
    items = node.get("items", {})
    text = " or ".join(_TYPES[name] for name in names)
    if names == ["array"] and isinstance(items, dict) and "type" in items:
        text += f" ({_type(items)})"
    return text


def _default(node: dict[str, Any]) -> str:
    if "default" not in node:
        return "–"
    shown = json.dumps(node["default"], ensure_ascii=False)
    return f"`{_escaped(shown)}`"


def _meaning(path: str, key: str, node: dict[str, Any]) -> str:
    parts = [_sentence(node["description"])] if "description" in node else []
    values = node.get("enum") or node.get("items", {}).get("enum")
    if values:
        parts.append("One of " + ", ".join(f"`{value}`" for value in values) + ".")
    bounds = [
        text.format(node[word])
        for word, text in (
            ("minimum", "at least {}"),
            ("exclusiveMinimum", "more than {}"),
            ("maximum", "at most {}"),
            ("minItems", "at least {} elements"),
            ("maxItems", "at most {} elements"),
        )
        if word in node
    ]
    if bounds:
        parts.append(", ".join(bounds).capitalize() + ".")
    if "properties" in node or "properties" in node.get("items", {}):
        inner = f"{path}.{key}" if path else key
        suffix = "[]" if "items" in node else ""
        parts.append(f"See `{inner}{suffix}` below.")
    return _escaped(" ".join(parts)) or "–"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
