"""From server.json to a catalogue: everything a configuration names, loaded and checked."""

from __future__ import annotations

from types import MappingProxyType

from mastaba.catalogue import Catalogue, Settings
from mastaba.config.book import Book
from mastaba.config.documents import DocumentReader
from mastaba.config.faults import Faults
from mastaba.config.layers import LayerLoader, LoadedLayer, read_layer_list
from mastaba.config.pyramids import PyramidLoader
from mastaba.config.schema import SchemaValidator
from mastaba.config.server import ServerConfig
from mastaba.config.services import ServicesConfig, load_services
from mastaba.config.styles import make_style
from mastaba.config.tile_matrix_sets import make_tile_matrix_set
from mastaba.environment import Environment
from mastaba.plugins import Plugins
from mastaba.slab.index_cache import IndexCache
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
    indices = IndexCache(server.cache_size, server.cache_validity)
    tile_matrix_sets = Book(
        server.tile_matrix_sets,
        "tile matrix set",
        SchemaValidator("tile_matrix_set", plugins),
        make_tile_matrix_set,
        reader,
        faults,
    )
    styles = Book(
        server.styles, "style", SchemaValidator("style", plugins), make_style, reader, faults
    )
    known = services or ServicesConfig(Settings(), {})
    layer_loader = LayerLoader(
        known.settings,
        known.default_style,
        PyramidLoader(tile_matrix_sets, SchemaValidator("pyramid", plugins), reader, pool, faults),
        styles,
        tile_matrix_sets,
        SchemaValidator("layer", plugins),
        indices,
        faults,
    )
    layers = _load_layers(server.layers, layer_loader, reader, faults)
    if services is None or layers is None:
        pool.close()
        return None
    return Catalogue(
        settings=services.settings,
        services=MappingProxyType(services.services),
        layers=MappingProxyType({layer.id: layer for layer, _ in layers}),
        readers=MappingProxyType({layer.id: readers for layer, readers in layers}),
        tile_matrix_sets=tile_matrix_sets.loaded,
        styles=styles.loaded,
        storages=pool,
        indices=indices,
        decoded_tiles_size=server.decoded_tiles_size,
    )


def _load_layers(
    path: str | None, loader: LayerLoader, reader: DocumentReader, faults: Faults
) -> list[LoadedLayer] | None:
    if path is None:
        return []
    try:
        list_path = ResourcePath.parse(path)
    except ValueError as error:
        faults.error(path, "$", str(error), "correct configurations.layers of server.json")
        return None
    paths = read_layer_list(list_path, reader, faults)
    if paths is None:
        return None
    loaded: list[LoadedLayer] = []
    for layer_path in paths:
        document = reader.document(layer_path)
        if document is not None:
            layer = loader.load(layer_path.stem, document, str(layer_path))
            if layer is not None:
                loaded.append(layer)
    return sorted(loaded, key=lambda pair: pair[0].id.encode())
