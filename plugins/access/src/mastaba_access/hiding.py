"""What a layer does not show of data that a view hides: statistics, and versions of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from mastaba.api.catalogue import Attribute, Layer, Table
from mastaba_server.threads.recent import Recent

MOST_VERSIONS: Final = 64
"""Versions of layers with limited times that are kept for a view."""


def without_statistics(layer: Layer) -> Layer:
    """Return a layer whose tables do not say which values the features have."""
    if not layer.is_vector:
        return layer
    levels = {
        key: replace(level, tables=tuple(map(_without_values, level.tables)))
        for key, level in layer.pyramid.levels.items()
    }
    return replace(layer, pyramid=replace(layer.pyramid, levels=MappingProxyType(levels)))


def _without_values(table: Table) -> Table:
    return replace(
        table, attributes=tuple(Attribute(one.name, one.type) for one in table.attributes)
    )


def version_within(
    tables: Mapping[str, Any],
    kept: Recent[tuple[Layer, Layer]],
    find: Callable[[Layer, Mapping[str, str], str, Mapping[str, str]], Layer],
    layer: Layer,
    values: Mapping[str, str],
    token: str,
    asked: Mapping[str, str],
) -> Layer:
    """Return a version of a layer, or of the value of a layer with limited times.

    A token without a value is one of the default within the limits.

    Args:
        tables: of the layers with limited times, by identifier: `VariantTable` within the limits.
        kept: versions as they were found, and as they are shown, by key.
        find: finds a version of any value; an entry of `Catalogue.at_token`.
        layer: as the whole site shows it.
        values: of dimensions, in the name of the layer.
        token: of the version.
        asked: parameters beside the name.

    Raises:
        MissingDimensionError, InvalidDimensionError, NoSuchValueError: there is no such value.
        UnknownNameError, GoneError, MovedError: as ``find``.
    """
    table = tables.get(layer.id)
    if table is None:
        return find(layer, values, token, asked)
    version = find(layer, table.resolve({**asked, **values}).layer.at, token, {})
    known = kept.get(version.key)
    if known is None or known[0] is not version:
        # Its limits are those of all values, also of those that are hidden.
        shown = replace(version, tile_limits=table.layer.tile_limits)
        known = kept.add(version.key, (version, shown))
    return known[1]
