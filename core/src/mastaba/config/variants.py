"""Variants of layers: what their tables are made from, and how they are opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from typing import Any, Protocol

from mastaba.config.documents import DocumentReader
from mastaba.config.faults import FileFaults, UnusableError
from mastaba.config.source import version_of
from mastaba.containers.index_cache import IndexCache
from mastaba.containers.reader import TileReader
from mastaba.errors import ConfigurationError
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import geographic_bbox
from mastaba.model.digest import digest_of
from mastaba.model.layer import Layer
from mastaba.model.pyramid import Pyramid
from mastaba.model.surrogate_keys import layer_keys
from mastaba.model.tile_matrix_set import TileLimits
from mastaba.storage.path import ResourcePath
from mastaba.storage.pool import StoragePool
from mastaba.variants import ReplacedError, Variant, VariantSource, VariantTable

Entries = Sequence[Mapping[str, Any]]


class Loader(Protocol):
    """What a `mastaba.config.layers.LayerLoader` does for variants."""

    reader: DocumentReader

    @property
    def dimensions(self) -> Mapping[str, type[VariantTable]]: ...

    def again(self) -> Loader: ...

    def moved(self, pool: StoragePool, indices: IndexCache) -> Loader: ...

    def part(
        self, layer: Layer, entries: Entries, bbox: dict[str, float] | None, file: str
    ) -> tuple[Pyramid, BoundingBox, BoundingBox, Mapping[str, TileReader]]: ...


class VariantOpener:
    """Opener of the variants of one layer.

    Args:
        loader: of the layer.
        bbox: as in its descriptor.
        file: its descriptor.

    Attributes:
        bbox: as given.
        layer: the default, whose attributes the variants have.
    """

    def __init__(self, loader: Loader, bbox: dict[str, float] | None, file: str) -> None:
        self._loader = loader
        self.bbox = bbox
        self._file = file
        self.layer: Layer
        self._has_limits = False

    def table(
        self, layer: Layer, document: dict[str, Any], faults: FileFaults, listing: Any
    ) -> tuple[Layer, VariantTable | None]:
        """Return the layer with its dimensions, and the table of its variants."""
        reader = self._loader.reader
        source = VariantSource(
            layer,
            document,
            self._file,
            lambda path, named_by: reader.text(reader.path(path, self._file, "$"), named_by),
            lambda entries: stamp_of(reader.silent(), entries),
            faults.refuse,
            faults.warning,
            listing,
        )
        kinds = self._loader.dimensions.values()
        table = next((found for kind in kinds if (found := kind.open(source))), None)
        if table is None:
            return layer, None
        self._has_limits = bool(table.limits)
        digest = digest_of(layer.generation, table.limits)
        layer = replace(
            layer,
            dimensions=table.dimensions,
            at=table.at,
            interval=table.interval,
            generation=digest_of(layer.generation, table.digest),
        )
        self.layer = self._widened(layer, table.limits) if table.limits else layer
        table.layer_id, table.layer_digest, table.open_variant = layer.id, digest, self
        return self.layer, table

    def _widened(self, layer: Layer, limits: Mapping[str, TileLimits]) -> Layer:
        """Return a layer whose documents show the extent of all variants."""
        pyramid = layer.pyramid
        known = pyramid.tile_matrix_set.matrices
        own = {name: level.limits for name, level in pyramid.levels.items()}
        found: dict[str, TileLimits] = {}
        for name in sorted({*own, *limits} & known.keys(), key=lambda one: -known[one].cell_size):
            parts = [of[name] for of in (own, limits) if name in of]
            whole = reduce(TileLimits.union, parts)
            if self.bbox is not None:
                within = known[name].limits_of(layer.native_bbox)
                clipped = None if within is None else whole.intersection(within)
                if clipped is None:
                    continue
                whole = clipped
            found[name] = whole
        layer = replace(layer, tile_limits=MappingProxyType(found))
        if self.bbox is not None:
            return layer
        boxes = (known[name].bbox_of(one) for name, one in found.items())
        native = reduce(BoundingBox.union, boxes, layer.native_bbox)
        geographic = geographic_bbox(native, pyramid.tile_matrix_set.crs)
        return replace(layer, native_bbox=native, geographic_bbox=geographic)

    def moved(self, pool: StoragePool, indices: IndexCache) -> VariantOpener:
        """Return an opener that reads from other storages."""
        other = copy(self)
        other._loader = self._loader.moved(pool, indices)
        return other

    def __call__(self, variant: Variant) -> Layer:
        """Open a variant.

        Raises:
            ReplacedError: its pyramids are not those that were listed.
            ConfigurationError: it cannot be used.
            MastabaError: a storage does not answer.
        """
        base, loader = self.layer, self._loader.again()
        reader = loader.reader
        try:
            pyramid, native, geographic, readers = loader.part(
                base, variant.pyramids, self.bbox, f"{self._file} ({variant.key})"
            )
        except UnusableError:
            raise ConfigurationError(reader.faults.errors) from None
        if variant.stamp not in (pyramid.generation, stamp_of(reader, variant.pyramids)):
            raise ReplacedError
        if self._has_limits:
            native, geographic = base.native_bbox, base.geographic_bbox
        keys = base.surrogate_keys and layer_keys(base.id, pyramid, variant.key)
        return replace(
            base,
            key=variant.key,
            at=variant.at,
            interval=variant.interval,
            pyramid=pyramid,
            native_bbox=native,
            geographic_bbox=geographic,
            headers=base.headers and (("Mastaba-Pyramid", pyramid.generation),),
            generation=digest_of(base.id, variant.key, variant.stamp, pyramid.generation),
            readers=readers,
            **{"surrogate_keys": keys, **variant.changes},
        )


def stamp_of(reader: DocumentReader, entries: Entries) -> str:
    """Return a digest of the versions of pyramids: those that were read, or else the present ones.

    Raises:
        MastabaError: a storage does not answer.
    """
    paths = [ResourcePath.parse(entry["path"]) for entry in entries]
    seen = reader.source.versions
    return digest_of(
        [seen[path] if path in seen else version_of(reader.pool, path) for path in paths]
    )
