"""Catalogues with one change (admin.md section 3).

Everything else is shared with the previous catalogue: open storages, the index cache, the tile
matrix sets and styles loaded so far, all other layers. Pyramids are reloaded with the layer that
names them, so replacing a layer applies a changed descriptor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from mastaba.catalogue import Catalogue
from mastaba.config.faults import Faults
from mastaba.config.layer_books import open_layer_books
from mastaba.config.layers import LoadedLayer
from mastaba.config.server import ServerConfig
from mastaba.plugins.manager import Plugins


def with_layer(
    catalogue: Catalogue,
    server: ServerConfig,
    plugins: Plugins,
    identifier: str,
    document: Any,
    faults: Faults,
) -> Catalogue | None:
    """Return the catalogue with a layer added or replaced.

    Loading of styles and tile matrix sets that failed before is tried again.

    Args:
        server: location of styles and tile matrix sets.
        document: the layer descriptor, without nulls; it may be modified.

    Returns:
        None after recording the problems of the layer in ``faults``.
    """
    books = open_layer_books(
        server,
        plugins,
        catalogue.settings,
        catalogue.storages,
        catalogue.indices,
        faults,
        tile_matrix_sets=catalogue.tile_matrix_sets,
        styles=catalogue.styles,
    )
    loaded = books.layers.load(identifier, document, f"layer {identifier}")
    if loaded is None:
        return None
    others = _without(catalogue, identifier)
    return replace(
        _with_layers(catalogue, {**others, identifier: loaded}, identifier),
        tile_matrix_sets=books.tile_matrix_sets.loaded,
        styles=books.styles.loaded,
    )


def without_layer(catalogue: Catalogue, identifier: str) -> Catalogue:
    """Return the catalogue without a layer, which need not exist."""
    return _with_layers(catalogue, _without(catalogue, identifier), identifier)


def with_services(catalogue: Catalogue, *, enabled: bool) -> Catalogue:
    """Return the catalogue with the services turned on or off."""
    return replace(catalogue, settings=replace(catalogue.settings, enabled=enabled))


def _without(catalogue: Catalogue, identifier: str) -> dict[str, LoadedLayer]:
    return {
        key: (layer, catalogue.readers[key])
        for key, layer in catalogue.layers.items()
        if key != identifier
    }


def _with_layers(
    catalogue: Catalogue, loaded: Mapping[str, LoadedLayer], changed: str
) -> Catalogue:
    ordered = sorted(loaded.items(), key=lambda item: item[0].encode())
    return replace(
        catalogue,
        layers=MappingProxyType({key: layer for key, (layer, _) in ordered}),
        readers=MappingProxyType({key: readers for key, (_, readers) in ordered}),
        missing_layers=catalogue.missing_layers - {changed},
        outdated_layers=catalogue.outdated_layers - {changed},
    )
