"""What the authors of a container wrote about it: strangers, for the server.

The form of ``vector_layers`` and ``tilestats`` is that of MBTiles 1.3, TileJSON 3 and PMTiles 3.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any, Final

from mastaba.api.catalogue import Attribute, Table
from mastaba.errors import ContainerFormatError

MAX_METADATA: Final = 16 * 1024 * 1024
"""Bytes of a metadata document."""

_MAX_VALUES: Final = 1_000_000
_MAX_DEPTH: Final = 64
_MAX_TABLES: Final = 1000
_MAX_ATTRIBUTES: Final = 1000
_MAX_LISTED: Final = 100
"""Values of an attribute that are listed."""
_MAX_TEXT: Final = 4096
_MAX_NAME: Final = 255


@dataclass(frozen=True, slots=True)
class VectorTable:
    """A table of vector tiles, and the zooms at which it occurs.

    Attributes:
        table: as a level has it.
        min_zoom, max_zoom: inclusive.
    """

    table: Table
    min_zoom: int = 0
    max_zoom: int = 31


def parsed_metadata(data: bytes) -> dict[str, Any]:
    """Return a metadata document.

    Raises:
        ContainerFormatError: it is too large, nested too deeply, or not an object of JSON.
    """
    try:
        return parsed_object(data, MAX_METADATA, _MAX_VALUES)
    except ValueError as error:
        raise ContainerFormatError(f"its metadata {error}") from error


def parsed_object(
    data: bytes,
    most_bytes: int,
    most_values: int,
    constant: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Return an object of JSON that is nested at most 64 levels deep.

    Args:
        data: the document.
        most_bytes: of the document.
        most_values: at all levels. They are counted before the document is parsed: the bytes
            ``,``, ``[`` and ``{``, also those in texts.
        constant: called with NaN and infinities, which JSON does not have; by default they become
            numbers.

    Raises:
        ValueError: it is something else, or too large; the message says which.
    """
    if len(data) > most_bytes:
        raise ValueError(f"has more than {most_bytes // 1024**2} MiB")
    # Each value but the first of a list or object has a comma before it.
    if sum(map(data.count, (b",", b"[", b"{"))) > most_values:
        raise ValueError(f"has more than {most_values:,} values")
    try:
        document = json.loads(data, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise ValueError("is not valid JSON") from error
    if not isinstance(document, dict):
        raise ValueError("is not an object of JSON")
    level: list[Any] = [document]
    for _ in range(_MAX_DEPTH):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
    if level:
        raise ValueError(f"is nested deeper than {_MAX_DEPTH} levels")
    return document


def plain_text(value: object) -> str:
    """Return text without markup, in one line, at most 4096 characters; empty for other values.

    Tags are removed and character references replaced: an attribution is often a link in HTML.
    The result is text like any other, which every document escapes.
    """
    if not isinstance(value, str):
        return ""
    parser = _TextOnly()
    parser.feed(value[: 4 * _MAX_TEXT])
    parser.close()
    text = "".join(parser.parts)
    text = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(text.split())[:_MAX_TEXT]


def link_of(value: object) -> str:
    """Return the address of the only link in HTML; empty if there are several, or others than HTTP.

    An attribution of several parts with a link each has no address as a whole.
    """
    if not isinstance(value, str):
        return ""
    parser = _TextOnly()
    parser.feed(value[: 4 * _MAX_TEXT])
    parser.close()
    (found, *others) = parser.links or [""]
    is_web = found.lower().startswith(("https://", "http://"))
    is_plain = found.isprintable() and not any(character in found for character in ' <>"')
    return found if is_web and is_plain and not others and len(found) <= _MAX_TEXT else ""


def vector_tables(document: Mapping[str, Any]) -> list[VectorTable]:
    """Return the tables that ``vector_layers`` and ``tilestats`` describe.

    What has another form than the formats say is left out: descriptions are not needed to serve.
    """
    entries = document.get("vector_layers")
    counted = _counted(document)
    found: dict[str, VectorTable] = {}
    for entry in entries[:_MAX_TABLES] if isinstance(entries, list) else ():
        name = _name(entry.get("id")) if isinstance(entry, dict) else ""
        if not name or name in found:
            continue
        stats = counted.get(name, {})
        geometry = entry.get("geometry") or stats.get("geometry")
        fields = entry.get("fields")
        attributes = _attributes(fields if isinstance(fields, dict) else {}, stats)
        table = Table(name, geometry[:64].upper() if isinstance(geometry, str) else "", attributes)
        low, high = _zoom(entry.get("minzoom"), 0), _zoom(entry.get("maxzoom"), 31)
        found[name] = VectorTable(table, low, high) if low <= high else VectorTable(table)
    return list(found.values())


TABLES_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "array",
    "minItems": 1,
    "maxItems": _MAX_TABLES,
    "description": "Tables of vector tiles, instead of those that the metadata describes.",
    "items": {
        "type": "object",
        "required": ["id"],
        "additionalProperties": False,
        "properties": {
            "id": {"type": "string", "minLength": 1},
            "description": {"type": "string"},
            "geometry": {"type": "string", "minLength": 1},
            "fields": {"type": "object", "additionalProperties": {"type": "string"}},
            "minzoom": {"type": "integer", "minimum": 0, "maximum": 31},
            "maxzoom": {"type": "integer", "minimum": 0, "maximum": 31},
        },
    },
}
"""Of the option ``tables``, in the form of ``vector_layers``."""


def with_tables(document: Mapping[str, Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return metadata with the tables of the option ``tables``, if it is given."""
    given = options.get("tables")
    return document if given is None else {**document, "vector_layers": given}


def tables_at(tables: list[VectorTable], zoom: int) -> tuple[Table, ...]:
    """Return the tables that occur at a zoom."""
    return tuple(one.table for one in tables if one.min_zoom <= zoom <= one.max_zoom)


class _TextOnly(HTMLParser):
    """Collects the text of HTML."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.links: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("script", "style")
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]
        if tag in ("br", "p", "div", "li"):
            self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style") and self._hidden > 0

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)


def _counted(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what ``tilestats`` says about each table."""
    stats = document.get("tilestats")
    layers = stats.get("layers") if isinstance(stats, dict) else None
    return {
        entry["layer"]: entry
        for entry in (layers[:_MAX_TABLES] if isinstance(layers, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("layer"), str)
    }


def _attributes(fields: dict[str, Any], stats: dict[str, Any]) -> tuple[Attribute, ...]:
    listed = stats.get("attributes")
    known = {
        entry["attribute"]: entry
        for entry in (listed[:_MAX_ATTRIBUTES] if isinstance(listed, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("attribute"), str)
    }
    attributes = []
    for name, kind in list(fields.items())[:_MAX_ATTRIBUTES]:
        about = known.get(name, {})
        values = about.get("values")
        attributes.append(
            Attribute(
                name=name[:_MAX_NAME],
                type=kind[:_MAX_NAME] if isinstance(kind, str) else "",
                count=_count(about.get("count")),
                values=tuple(
                    _value(value)
                    for value in (values[:_MAX_LISTED] if isinstance(values, list) else ())
                ),
                minimum=_number(about.get("min")),
                maximum=_number(about.get("max")),
            )
        )
    return tuple(attributes)


def _value(value: object) -> str:
    return (value if isinstance(value, str) else json.dumps(value))[:_MAX_NAME]


def _name(value: object) -> str:
    return value if isinstance(value, str) and 0 < len(value) <= _MAX_NAME else ""


def _zoom(value: object, default: int) -> int:
    is_zoom = isinstance(value, int | float) and 0 <= value <= 31
    return int(value) if is_zoom else default  # type: ignore[call-overload]


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
