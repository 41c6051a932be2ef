"""Loading a catalogue: everything that a configuration names, loaded and checked."""

from __future__ import annotations

import contextlib
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
from mastaba.errors import MastabaError
from mastaba.model.settings import ServiceSettings, Settings
from mastaba.plugins.manager import Plugins
from mastaba.slab.index_cache import IndexCache, MeasuredIndexCache
from mastaba.slab.reader import LevelReader
from mastaba.storage.path import ResourcePath
from mastaba.storage.pool import StoragePool


def load_catalogue(
    server: ServerConfig,
    plugins: Plugins,
    environment: Environment,
    faults: Faults,
    previous: Catalogue | None = None,
) -> Catalogue | None:
    """Load services.json, the layer list and all layers.

    All problems are recorded. A layer with an error stays as in the previous catalogue; if it is
    not in there, it is left out. None is returned only if services.json or the layer list cannot
    be used (server-config.md section 3). Even then the layers are checked, so that all problems
    are reported at once.

    Args:
        previous: catalogue published now, None at the start.
    """
    pool = StoragePool(plugins.storages, environment)
    reader = DocumentReader(pool, faults)
    services = load_services(
        ResourcePath("file", "", server.services),
        plugins,
        reader,
        faults,
        f"configurations.services of {server.file}",
    )
    known = services or ServicesConfig(Settings(), {})
    is_traced = server.logger.access != "off"
    if is_traced or any(plugins.services[name].wants_measurements for name in known.services):
        pool.measure()
    kind = MeasuredIndexCache if is_traced else IndexCache
    indices = kind(server.cache_size, server.cache_validity)
    books = open_layer_books(server, plugins, known.settings, pool, indices, faults)
    kept = _kept_layers(known.services, plugins, faults)
    layers = _load_layers(server, kept, books.layers, reader, faults)
    if services is None or layers is None:
        pool.close()
        return None
    faulty = frozenset(name for name, layer in layers.items() if layer is None)
    outdated = faulty & previous.layers.keys() if previous is not None else frozenset()
    loaded = {name: layer for name, layer in layers.items() if layer is not None}
    if previous is not None:
        loaded |= {name: _as_it_was(previous, name, pool, indices) for name in outdated}
    ordered = sorted(loaded.items(), key=lambda item: item[0].encode())
    kept_layers = [loaded[name][0] for name in outdated]
    return Catalogue(
        settings=services.settings,
        services=MappingProxyType(services.services),
        layers=MappingProxyType({name: layer for name, (layer, _) in ordered}),
        readers=MappingProxyType({name: readers for name, (_, readers) in ordered}),
        tile_matrix_sets=MappingProxyType(
            {
                layer.pyramid.tile_matrix_set.id: layer.pyramid.tile_matrix_set
                for layer in kept_layers
            }
            | dict(books.tile_matrix_sets.loaded)
        ),
        styles=MappingProxyType(
            {style.id: style for layer in kept_layers for style in layer.styles}
            | dict(books.styles.loaded)
        ),
        storages=pool,
        indices=indices,
        decoded_tiles_size=server.decoded_tiles_size,
        missing_layers=faulty - outdated,
        outdated_layers=outdated,
        map_limits=server.map_limits,
    )


def _as_it_was(
    previous: Catalogue, name: str, pool: StoragePool, indices: IndexCache
) -> LoadedLayer:
    """Return a layer of the previous catalogue that reads from the storages of the new one."""

    def reopened(reader: LevelReader) -> LevelReader:
        storage = reader.storage
        # If a new connection fails, the open one stays in use.
        with contextlib.suppress(MastabaError):
            storage = pool.open(storage.name, storage.container)
        return reader.moved(storage, indices)

    readers = {level: reopened(reader) for level, reader in previous.readers[name].items()}
    return previous.layers[name], MappingProxyType(readers)


def _load_layers(
    server: ServerConfig,
    kept: Mapping[str, tuple[ResourcePath, str]],
    loader: LayerLoader,
    reader: DocumentReader,
    faults: Faults,
) -> dict[str, LoadedLayer | None] | None:
    """Return the listed layers and those that services keep, by identifier.

    A layer with an error is None. The result is None if the list cannot be read.

    Args:
        kept: path of each descriptor and what names it; these replace listed ones.
    """
    paths: dict[str, tuple[ResourcePath, str]] = {}
    if server.layers is not None:
        try:
            list_path = ResourcePath.parse(server.layers)
        except ValueError as error:
            faults.error(server.file, "$.configurations.layers", str(error), "correct the path")
            return None
        named_by = f"configurations.layers of {server.file}"
        listed = read_layer_list(list_path, reader, faults, named_by)
        if listed is None:
            return None
        paths = listed
    loaded: dict[str, LoadedLayer | None] = {}
    for identifier, (layer_path, named_by) in {**paths, **kept}.items():
        document = reader.document(layer_path, named_by)
        loaded[identifier] = (
            None if document is None else loader.load(identifier, document, str(layer_path))
        )
    return loaded


def _kept_layers(
    services: Mapping[str, ServiceSettings], plugins: Plugins, faults: Faults
) -> dict[str, tuple[ResourcePath, str]]:
    """Return the descriptors in service directories and what names them, by layer."""
    found: dict[str, tuple[ResourcePath, str]] = {}
    for name, settings in services.items():
        directory = plugins.services[name].layer_directory(settings)
        if directory is not None:
            named_by = f"the directory of the service {name}"
            layers = kept_layers(directory, faults)
            found |= {layer: (path, named_by) for layer, path in layers.items()}
    return found
