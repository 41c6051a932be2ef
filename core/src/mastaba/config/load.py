"""From server.json to a catalogue: everything a configuration names, loaded and checked."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mastaba.catalogue import Catalogue
from mastaba.config.documents import DocumentReader
from mastaba.config.faults import Faults
from mastaba.config.kept_layers import kept_layers
from mastaba.config.layer_books import open_layer_books
from mastaba.config.layers import LayerLoader, LoadedLayer, read_layer_list
from mastaba.config.server import ServerConfig
from mastaba.config.services import ServicesConfig, load_services
from mastaba.environment import Environment
from mastaba.model.settings import ServiceSettings, Settings
from mastaba.plugins import Plugins
from mastaba.slab.index_cache import IndexCache, MeasuredIndexCache
from mastaba.storage.path import ResourcePath
from mastaba.storage.pool import StoragePool


def load_catalogue(
    server: ServerConfig, plugins: Plugins, environment: Environment, faults: Faults
) -> Catalogue | None:
    """Load services.json, the layer list and all layers.

    Every fault is noted. A layer with an error is left out; None is returned only when
    services.json or the layer list cannot be used (server-config.md section 3), and even then
    the layers are looked at, so that all faults are told at once.
    """
    pool = StoragePool(plugins.storages, environment)
    reader = DocumentReader(pool, faults)
    services = load_services(ResourcePath("file", "", server.services), plugins, reader, faults)
    known = services or ServicesConfig(Settings(), {})
    is_traced = server.logger.access != "off"
    if is_traced or any(plugins.services[name].wants_measurements for name in known.services):
        pool.measure()
    kind = MeasuredIndexCache if is_traced else IndexCache
    indices = kind(server.cache_size, server.cache_validity)
    books = open_layer_books(server, plugins, known.settings, pool, indices, faults)
    kept = _kept_layers(known.services, plugins, faults)
    found = _load_layers(server.layers, kept, books.layers, reader, faults)
    if services is None or found is None:
        pool.close()
        return None
    layers, configured = found
    return Catalogue(
        settings=services.settings,
        services=MappingProxyType(services.services),
        layers=MappingProxyType({layer.id: layer for layer, _ in layers}),
        readers=MappingProxyType({layer.id: readers for layer, readers in layers}),
        tile_matrix_sets=books.tile_matrix_sets.loaded,
        styles=books.styles.loaded,
        storages=pool,
        indices=indices,
        decoded_tiles_size=server.decoded_tiles_size,
        map_limits=server.map_limits,
        configured_layers=configured,
    )


def _load_layers(
    path: str | None,
    kept: Mapping[str, ResourcePath],
    loader: LayerLoader,
    reader: DocumentReader,
    faults: Faults,
) -> tuple[list[LoadedLayer], int] | None:
    """Return the layers of the list, and those that services keep; how many there should be.

    Args:
        path: of the list, None for none.
        kept: paths of descriptors by layer, which count instead of the listed ones.
    """
    paths = {}
    if path is not None:
        try:
            list_path = ResourcePath.parse(path)
        except ValueError as error:
            faults.error(path, "$", str(error), "correct configurations.layers of server.json")
            return None
        listed = read_layer_list(list_path, reader, faults)
        if listed is None:
            return None
        paths = {layer_path.stem: layer_path for layer_path in listed}
    loaded: list[LoadedLayer] = []
    paths |= kept
    for identifier, layer_path in paths.items():
        document = reader.document(layer_path)
        if document is not None:
            layer = loader.load(identifier, document, str(layer_path))
            if layer is not None:
                loaded.append(layer)
    return sorted(loaded, key=lambda pair: pair[0].id.encode()), len(paths)


def _kept_layers(
    services: Mapping[str, ServiceSettings], plugins: Plugins, faults: Faults
) -> dict[str, ResourcePath]:
    """Return the descriptors in the directories of services, by layer."""
    found: dict[str, ResourcePath] = {}
    for name, settings in services.items():
        directory = plugins.services[name].layer_directory(settings)
        if directory is not None:
            found.update(kept_layers(directory, faults))
    return found
