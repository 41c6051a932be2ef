"""Everything that one configuration publishes: an immutable snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from mastaba.containers.index_cache import IndexCache
from mastaba.containers.reader import TileReader
from mastaba.model.digest import digest_of
from mastaba.model.layer import Layer
from mastaba.model.settings import MapLimits, ServiceSettings, Settings, VirtualSettings
from mastaba.model.style import Style
from mastaba.model.tile_matrix_set import TileMatrixSet
from mastaba.storage_pool import StoragePool

LoadedLayer = tuple[Layer, Mapping[str, TileReader]]
"""A layer, and the reader of each of its levels by tile matrix identifier."""


@dataclass(frozen=True)
class Catalogue:
    """What is published, complete and validated; never changed once built.

    Attributes:
        settings: of all services.
        services: settings of each enabled service by name.
        layers: by identifier, in byte order of identifiers.
        readers: for each layer, the reader of each level by tile matrix identifier.
        tile_matrix_sets: those loaded so far, by identifier.
        styles: those loaded so far, by file id.
        storages: open containers.
        indices: cache of slab indices.
        decoded_tiles_size: bytes of decoded tiles that all processes may cache together for maps.
        missing_layers: configured, but left out because of an error.
        outdated_layers: published in their previous version, because the new one has an error.
        map_limits: limits for all maps of a process together.
        virtual: virtual services by name.
        mark: part of the addresses of services that is no part of what is published.
        virtual_from: makes another virtual service from its section (`ServicesConfig`).
        reports: what was found in each container, lines by path; for operators.
    """

    settings: Settings
    services: Mapping[str, ServiceSettings]
    layers: Mapping[str, Layer]
    readers: Mapping[str, Mapping[str, TileReader]]
    tile_matrix_sets: Mapping[str, TileMatrixSet]
    styles: Mapping[str, Style]
    storages: StoragePool
    indices: IndexCache
    decoded_tiles_size: int = 64 * 1024**2
    missing_layers: frozenset[str] = frozenset()
    outdated_layers: frozenset[str] = frozenset()
    map_limits: MapLimits = field(default_factory=MapLimits)
    virtual: Mapping[str, VirtualSettings] = field(default_factory=dict)
    mark: str = ""
    virtual_from: Callable[..., VirtualSettings] = VirtualSettings
    reports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def generation(self) -> str:
        """12 hexadecimal digits that change with everything that is published.

        Equal on all nodes that read equal files.
        """
        services = {
            name: replace(
                one,
                own=_shown(one.own),
                endpoint_uri=one.endpoint_uri.removesuffix(self.mark),
            )
            for name, one in self.services.items()
        }
        layers = {name: layer.generation for name, layer in self.layers.items()}
        return digest_of(self.settings, services, layers)

    def filtered(
        self,
        layers: Mapping[str, Layer],
        readers: Mapping[str, Mapping[str, TileReader]],
        settings: Settings,
        services: Mapping[str, ServiceSettings],
    ) -> Catalogue:
        """Return a view: a catalogue in which only some of this one exists.

        Args:
            layers: those that exist in it, perhaps changed, in any order.
            readers: of each of them, by tile matrix identifier.
            settings: of all its services.
            services: those that exist in it, by name.
        """
        shown = in_order({name: (layer, readers[name]) for name, layer in layers.items()})
        sets = {
            one.id
            for layer in layers.values()
            for one in (layer.pyramid.tile_matrix_set, *layer.extra_tile_matrix_sets)
        }
        styles = {style.id for layer in layers.values() for style in layer.styles}
        return replace(
            self,
            settings=settings,
            services=MappingProxyType(dict(services)),
            tile_matrix_sets={
                key: one for key, one in self.tile_matrix_sets.items() if key in sets
            },
            styles={key: one for key, one in self.styles.items() if key in styles},
            missing_layers=frozenset(),
            outdated_layers=frozenset(),
            virtual={},
            **shown,
        )


def _shown(own: Mapping[str, Any]) -> dict[str, Any]:
    # A generation is public, and nodes may have different secrets.
    return {key: value for key, value in own.items() if key != "secret"}


def in_order(loaded: Mapping[str, LoadedLayer]) -> dict[str, Any]:
    """Return the attributes ``layers`` and ``readers`` of a catalogue."""
    ordered = sorted(loaded.items(), key=lambda item: item[0].encode())
    return {
        "layers": MappingProxyType({key: layer for key, (layer, _) in ordered}),
        "readers": MappingProxyType({key: readers for key, (_, readers) in ordered}),
    }
