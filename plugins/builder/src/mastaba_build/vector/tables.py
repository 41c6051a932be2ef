"""Tables: what the layers of vector tiles contain, from metadata or from the tiles themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mastaba_build.errors import SourceError
from mastaba_build.vector.archives import Metadata, Tile
from mastaba_build.vector.payload import Value, layers, vector_tile

_MOST_COUNTED = 1000
"""Distinct values that are counted, as in the tilestats of tippecanoe."""
_MOST_LISTED = 100
_GEOMETRIES = frozenset({"POINT", "LINESTRING", "POLYGON"})


@dataclass(frozen=True, slots=True)
class Table:
    """A layer inside vector tiles.

    Attributes:
        zooms: first and last zoom that contain it.
        document: as in the levels of a pyramid descriptor (pyramid.md 2.5).
    """

    zooms: tuple[int, int]
    document: dict[str, Any]


@dataclass(slots=True)
class _Seen:
    """What the tiles show of one layer."""

    first: int
    last: int
    geometry: str = ""
    values: dict[str, dict[tuple[type, Value], None]] = field(default_factory=dict)

    def add(self, name: str, values: Iterable[Value]) -> None:
        known = self.values.setdefault(name, {})
        for value in values:
            if len(known) < _MOST_COUNTED:
                known[type(value), value] = None


Survey = Mapping[str, _Seen]


def survey(tiles: Iterable[Tile]) -> Survey:
    """Return what tiles contain, by layer.

    Raises:
        SourceError: one is not a vector tile.
    """
    found: dict[str, _Seen] = {}
    for tile in tiles:
        try:
            for layer in layers(vector_tile(tile.data)):
                seen = found.setdefault(layer.name, _Seen(tile.zoom, tile.zoom))
                seen.first, seen.last = min(seen.first, tile.zoom), max(seen.last, tile.zoom)
                seen.geometry = seen.geometry or layer.geometry
                for name, values in layer.attributes.items():
                    seen.add(name, values)
        except ValueError as error:
            raise SourceError(damaged(tile, error)) from None
    return found


def damaged(tile: Tile, error: ValueError) -> str:
    """Return the message for a tile that cannot be used."""
    return f"tile {tile.zoom}/{tile.column}/{tile.row} (zoom/column/row) is damaged: {error}"


def needs_survey(metadata: Metadata) -> bool:
    """Return whether metadata lack the layers or their geometries."""
    found = _described(metadata)
    statistics = _statistics(metadata)
    return not found or any(
        _geometry(statistics.get(str(layer.get("id")), {})) is None for layer in found
    )


def tables_of(
    metadata: Metadata, zooms: tuple[int, int], seen: Survey, *, counted: bool
) -> list[Table]:
    """Return the tables of an archive.

    Args:
        metadata: with ``vector_layers`` and ``tilestats``, if known.
        zooms: first and last zoom of the archive.
        seen: a survey of tiles, which fills gaps.
        counted: whether it is complete, so that its values replace those of ``tilestats``.
    """
    statistics = _statistics(metadata)
    tables = []
    described = _described(metadata)
    names = [str(layer.get("id")) for layer in described]
    described = [*described, *({"id": name} for name in seen if name not in names)]
    for layer in described:
        name = str(layer.get("id"))
        known, shown = statistics.get(name, {}), seen.get(name)
        if shown is not None and (counted or not known):
            attributes = _surveyed(layer.get("fields"), shown, counted=counted)
        else:
            attributes = _listed(layer.get("fields"), known.get("attributes"))
        first, last = (shown.first, zooms[1]) if shown else zooms
        document = {
            "name": name,
            "geometry": _geometry(known) or (shown.geometry if shown else "") or "GEOMETRY",
            "attributes": attributes,
        }
        limits = _zoom(layer.get("minzoom"), first), _zoom(layer.get("maxzoom"), last)
        tables.append(Table(limits, document))
    return tables


def _described(metadata: Metadata) -> list[Mapping[str, Any]]:
    found = metadata.get("vector_layers")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _statistics(metadata: Metadata) -> dict[str, Mapping[str, Any]]:
    """Return the layers of ``tilestats`` by name."""
    document = metadata.get("tilestats")
    found = document.get("layers") if isinstance(document, dict) else None
    return {
        str(one.get("layer")): one
        for one in (found if isinstance(found, list) else ())
        if isinstance(one, dict)
    }


def _geometry(layer: Mapping[str, Any]) -> str | None:
    name = str(layer.get("geometry", "")).upper()
    return name if name in _GEOMETRIES else None


def _zoom(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def _listed(fields: object, statistics: object) -> list[dict[str, Any]]:
    """Return attributes from ``fields`` of a layer, with what ``tilestats`` says of them."""
    known = {
        str(one.get("attribute")): one
        for one in (statistics if isinstance(statistics, list) else ())
        if isinstance(one, dict)
    }
    types = _types(fields)
    attributes = []
    for name in [*types, *(name for name in known if name not in types)]:
        found = known.get(name, {})
        kind = types.get(name) or str(found.get("type", "string")).capitalize()
        count = found.get("count")
        attribute = {"name": name, "type": kind, "count": count if isinstance(count, int) else 0}
        edges = found.get("min"), found.get("max")
        values = found.get("values")
        if all(isinstance(edge, int | float) for edge in edges):
            attribute |= {"min": edges[0], "max": edges[1]}
        elif isinstance(values, list) and len(values) == count and 0 < len(values) <= _MOST_LISTED:
            attribute["values"] = [_text(value) for value in values]
        attributes.append(attribute)
    return attributes


def _surveyed(fields: object, seen: _Seen, *, counted: bool) -> list[dict[str, Any]]:
    """Return attributes from values that were seen; their number only if all were."""
    types = _types(fields)
    attributes = []
    for name in [*types, *(name for name in seen.values if name not in types)]:
        values = [value for _, value in seen.values.get(name, {})]
        kind = types.get(name) or _kind(values)
        attribute: dict[str, Any] = {"name": name, "type": kind, "count": 0}
        if counted:
            attribute["count"] = len(values)
            numbers = [one for one in values if isinstance(one, int | float)]
            if numbers and _kind(values) == "Number":
                attribute |= {"min": min(numbers), "max": max(numbers)}
            elif 0 < len(values) <= _MOST_LISTED:
                attribute["values"] = sorted(map(_text, values))
        attributes.append(attribute)
    return attributes


def _kind(values: Sequence[Value]) -> str:
    if values and all(isinstance(value, bool) for value in values):
        return "Boolean"
    if values and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    ):
        return "Number"
    return "String"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _types(fields: object) -> dict[str, str]:
    """Return the types of attributes by name, from ``fields`` of a layer."""
    if not isinstance(fields, dict):
        return {}
    return {str(name): str(kind) for name, kind in fields.items()}
