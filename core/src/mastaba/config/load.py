"""Loading a catalogue: everything that a configuration names, loaded and checked."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from mastaba.catalogue import Catalogue, LoadedLayer, in_order
from mastaba.config.documents import DocumentReader
from mastaba.config.layers import LayerLoader
from mastaba.config.server import ServerConfig
from mastaba.config.services import ServicesConfig, load_services
from mastaba.config.source import Source
from mastaba.containers.index_cache import IndexCache
from mastaba.containers.reader import TileReader
from mastaba.errors import ConfigurationError, MastabaError, reason_of
from mastaba.model.settings import ServiceSettings, Settings
from mastaba.plugins.manager import Plugins
from mastaba.slab.reader import LevelReader
from mastaba.slab.stored_indices import IndexStore
from mastaba.storage_pool import StoragePool
from mastaba_documents.faults import Faults, FileFaults, UnusableError
from mastaba_storage.environment import Environment
from mastaba_storage.path import ResourcePath


def load_catalogue(
    server: ServerConfig,
    plugins: Plugins,
    environment: Environment,
    faults: Faults,
    previous: Catalogue | None = None,
    source: Source | None = None,
) -> Catalogue:
    """Load services.json, the layer list and all layers.

    A layer with an error stays as in the previous catalogue; if it is not in there, it is left
    out.

    Args:
        faults: gets all problems.
        previous: catalogue published now, None at the start.
        source: gets the documents that were read.

    Raises:
        ConfigurationError: services.json or the layer list cannot be used (server-config.md
            section 3). The layers are checked even then; it contains all errors.
    """
    services, listed = None, None
    files = DocumentReader(StoragePool(plugins.storages, environment), plugins, faults, source)
    with suppress(UnusableError):
        path = ResourcePath("file", "", server.services)
        named_by = f"configurations.services of {server.file}"
        services = load_services(path, plugins, files, named_by)
    known = services or ServicesConfig(Settings(), {})
    is_traced = server.logger.access != "off"
    is_measured = any(plugins.services[name].wants_measurements for name in known.services)
    settings = plugins.storages.settings(server.plugins)
    pool = StoragePool(plugins.storages, environment, settings, measure=is_traced or is_measured)
    reader = DocumentReader(pool, plugins, faults, source)
    virtual = dict(known.virtual)
    for key, (path, at) in _kept("kept_virtual", known.services, plugins, faults).items():
        with suppress(UnusableError):
            virtual[key] = known.virtual_from(key, reader.document(path, at), reader, str(path))
    known = known._replace(virtual=virtual)
    store = _store(server, plugins, faults)
    of_containers = IndexCache(
        sys.maxsize, server.cache_validity, most_bytes=server.container_bytes
    )
    indices = IndexCache(
        server.cache_size, server.cache_validity, store=store, containers=of_containers
    )
    loader = LayerLoader(server, plugins, known, indices, reader)
    with suppress(UnusableError):
        listed = _listed_layers(server, reader)
    named = {**(listed or {}), **_kept("kept_layers", known.services, plugins, faults)}
    loaded: dict[str, LoadedLayer] = {}
    reader.fetch(path for path, _ in named.values())
    documents: dict[str, Any] = {}
    for identifier, (path, named_by) in named.items():
        with suppress(UnusableError):
            documents[identifier] = reader.document(path, named_by)
    reader.fetch(_of_variants(documents, named, plugins))
    for identifier, document in documents.items():
        with suppress(UnusableError):
            loaded[identifier] = loader.load(identifier, document, str(named[identifier][0]))
    reader.fetch(())
    if services is None or listed is None:
        pool.close()
        raise ConfigurationError(faults.errors)
    faulty = frozenset(named.keys() - loaded.keys())
    outdated = {
        name: _as_it_was(previous, name, pool, indices, loader)
        for name in faulty
        if previous is not None and name in previous.layers
    }
    old_layers = [one.layer for one in outdated.values()]
    old_sets = {one.id: one for one in (layer.pyramid.tile_matrix_set for layer in old_layers)}
    old_styles = {style.id: style for layer in old_layers for style in layer.styles}
    return Catalogue(
        settings=services.settings,
        services=MappingProxyType(services.services),
        virtual=virtual,
        virtual_from=services.virtual_from,
        tile_matrix_sets=MappingProxyType(old_sets | dict(loader.tile_matrix_sets.loaded)),
        styles=MappingProxyType(old_styles | dict(loader.styles.loaded)),
        storages=pool,
        indices=indices,
        decoded_tiles_size=server.decoded_tiles_size,
        missing_layers=faulty - outdated.keys(),
        outdated_layers=frozenset(outdated),
        map_limits=server.map_limits,
        reports=MappingProxyType(loader.reports),
        opened=loader.opened,
        **in_order(loaded | outdated),
    )


def _store(server: ServerConfig, plugins: Plugins, faults: Faults) -> IndexStore | None:
    """Return the index store of the first plugin that has one and settings for it."""
    for plugin, settings in server.plugins.items():
        for name in plugins.index_stores.provided_by(plugin):
            try:
                return plugins.index_stores[name].open(settings)
            except (OSError, ValueError) as error:
                reason = f"the index store cannot be used: {reason_of(error)}"
                remedy = "correct the settings; until then the server works without the store"
                faults.warning(server.file, f"$.plugins.{plugin}", reason, remedy)
    return None


def _of_variants(
    documents: Mapping[str, Any],
    named: Mapping[str, tuple[ResourcePath, str]],
    plugins: Plugins,
) -> Iterator[ResourcePath]:
    """Yield the documents that tables of variants will read, by the descriptors of layers."""
    for identifier, document in documents.items():
        if not isinstance(document, dict) or "variants" not in document:
            continue
        for kind in plugins.dimensions.values():
            for path in kind.documents(document, str(named[identifier][0])):
                # The code that reads it reports that it is malformed.
                with suppress(ValueError):
                    yield ResourcePath.parse(path)


def _as_it_was(
    previous: Catalogue, name: str, pool: StoragePool, indices: IndexCache, loader: LayerLoader
) -> LoadedLayer:
    """Return a layer of the previous catalogue that reads from the storages of the new one."""

    def reopened(reader: TileReader) -> TileReader:
        storage = reader.storage
        # If a new connection fails, the open one stays in use.
        with suppress(MastabaError):
            storage = pool.open(storage.name, storage.container)
        is_slab = isinstance(reader, LevelReader)
        return reader.moved(storage, indices if is_slab else indices.containers or indices)

    readers = {level: reopened(reader) for level, reader in previous.readers[name].items()}
    table = previous.variants.get(name)
    moved = table and table.moved(loader.again(pool, indices))
    layer = replace(previous.layers[name], open_variant=None)
    return LoadedLayer(layer, MappingProxyType(readers), moved)


def _listed_layers(
    server: ServerConfig, reader: DocumentReader
) -> dict[str, tuple[ResourcePath, str]]:
    """Return the listed descriptors and the lines that name them, by layer."""
    if server.layers is None:
        return {}
    path = reader.path(server.layers, server.file, "$.configurations.layers")
    faults = FileFaults(reader.faults, str(path))
    paths: dict[str, tuple[ResourcePath, str]] = {}
    # An installation may start without layers and get them later.
    text = reader.text(path, f"configurations.layers of {server.file}", may_be_empty=True)
    for number, line in enumerate(map(str.strip, text.split("\n")), 1):
        at = f"line {number}"
        if not line or line.startswith("#"):
            continue
        with faults.attempt():
            layer_path = reader.path(line, str(path), at)
            other, _ = paths.setdefault(layer_path.stem, (layer_path, f"{at} of {path}"))
            if other is not layer_path:
                reason = f"duplicate layer {layer_path.stem!r}; {other}, listed before, is used"
                faults.error(at, reason, "rename one of the descriptors")
    return paths


def _kept(
    kind: str, services: Mapping[str, ServiceSettings], plugins: Plugins, faults: Faults
) -> dict[str, tuple[ResourcePath, str]]:
    """Return the documents that services keep and what names them, by layer or virtual service.

    These replace listed ones.
    """
    found: dict[str, tuple[ResourcePath, str]] = {}
    for name, settings in services.items():
        try:
            kept = getattr(plugins.services[name], kind)(settings)
        except OSError as error:
            reason = f"what it keeps cannot be read: {reason_of(error)}"
            faults.warning(str(error.filename), "$", reason, "make it readable for the server")
            continue
        named_by = f"the directory of the service {name}"
        for key, path in kept.items():
            found[key] = ResourcePath("file", "", path), named_by
    return found
