"""Containers that layer descriptors name instead of pyramid descriptors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

from mastaba.config.documents import DocumentReader
from mastaba.config.resources import LoadedOnce, ResourceLoader
from mastaba.containers.base import Container, Context, OpenedContainer, Source
from mastaba.containers.index_cache import IndexCache
from mastaba.errors import ContainerFormatError, MastabaError
from mastaba.model.tile_matrix_set import TileMatrixSet
from mastaba.plugins.manager import Plugins
from mastaba_documents.faults import Faults, FileFaults, UnusableError
from mastaba_documents.validation import DocumentValidator
from mastaba_storage.path import ResourcePath

_PACKAGES: Final = {
    "mastaba-pmtiles": ("pmtiles",),
    "mastaba-sqlite-tiles": ("mbtiles", "geopackage", "gpkg"),
    "mastaba-cog": ("cog", "mosaic", "tif", "tiff", "gtiff"),
}
"""Names and suffixes of containers by the package that provides them."""


class ContainerKey(NamedTuple):
    """What identifies an opened container.

    Attributes:
        path: of its object.
        name: kind of container.
        options: as JSON.
        is_hybrid: whether the layer has levels from other entries too.
    """

    path: ResourcePath
    name: str
    options: str
    is_hybrid: bool = False


class ContainerLoader(LoadedOnce[ContainerKey, OpenedContainer]):
    """Loader of containers; each is opened once, however many layers use it."""

    def __init__(
        self,
        tile_matrix_sets: ResourceLoader[TileMatrixSet],
        reader: DocumentReader,
        plugins: Plugins,
        indices: IndexCache,
    ) -> None:
        super().__init__()
        self._sets = tile_matrix_sets
        self._reader = reader
        self._containers = plugins.containers
        self._indices = indices.containers or indices

    def key_of(
        self, entry: Mapping[str, Any], path: ResourcePath, at: str, faults: FileFaults
    ) -> ContainerKey | None:
        """Return the key of the container of an entry of a layer; None for a slab pyramid.

        Raises:
            UnusableError: the container is unknown, or its options are invalid.
        """
        file, declared = path.key.lower(), self._containers.declared("suffixes").items()
        by_suffix = (name for name, suffixes in declared if file.endswith(suffixes))
        name = entry.get("container") or next(by_suffix, None)
        suffix = file.rpartition(".")[2]
        if name == "slab" or not (name or any(suffix in names for names in _PACKAGES.values())):
            if "options" in entry:
                faults.refuse(f"{at}.options", "only containers have options", "remove it")
            return None
        if name is None or name not in self._containers:
            wanted = name or suffix
            package = next((key for key, names in _PACKAGES.items() if wanted in names), None)
            known = ", ".join(sorted({"slab", *self._containers}))
            reason = f"nothing installed opens {wanted} (installed: {known})"
            remedy = f"pip install {package}" if package else "correct the name of the container"
            faults.refuse(f"{at}.container" if name else f"{at}.path", reason, remedy)
        options = self._options(entry.get("options", {}), self._containers[name], at, faults)
        return ContainerKey(path, name, json.dumps(options, sort_keys=True))

    def _options(
        self, options: dict[str, Any], container: type[Container], at: str, faults: FileFaults
    ) -> dict[str, Any]:
        properties = dict(container.options_schema)
        schema = {"type": "object", "additionalProperties": False, "properties": properties}
        found = Faults()
        valid = DocumentValidator(schema).validate(options, faults.file, found)
        faults.all.extend(replace(one, path=f"{at}.options{one.path[1:]}") for one in found.all)
        if valid is None:
            raise UnusableError
        return valid

    def _load(self, key: ContainerKey, named_by: str) -> OpenedContainer:
        faults, pool = FileFaults(self._reader.faults, str(key.path)), self._reader.pool
        context = Context(
            self._indices,
            self._named_set,
            self._known_sets,
            lambda reason, remedy: faults.warning("$", reason, remedy),
            pool.open_path,
            key.is_hybrid,
        )
        # Compared from the first look on, by a server that follows its documents.
        self._reader.source.versions.setdefault(key.path, None)
        try:
            source = Source(key.path, pool.open_path(key.path))
            container = self._containers[key.name]
            opened = container.open(source, json.loads(key.options), context)
        except (MastabaError, ValueError) as error:
            remedy = getattr(error, "remedy", "") or "correct the path, or the file"
            faults.refuse("$", f"{error}; it is named by {named_by}", remedy)
        tile_matrix_set = opened.pyramid.tile_matrix_set
        if self._sets.add(tile_matrix_set.id, tile_matrix_set) != tile_matrix_set:
            reason = f"another tile matrix set has the identifier {tile_matrix_set.id!r} too"
            remedy = "give the other set another identifier"
            if "tile_matrix_set_id" in container.options_schema:
                remedy = "name another one in options: tile_matrix_set_id"
            faults.refuse("$", reason, remedy)
        return opened

    def _named_set(self, identifier: str) -> TileMatrixSet:
        try:
            return self._sets.silent(identifier)
        except UnusableError:
            raise ContainerFormatError(
                f"there is no tile matrix set {identifier!r}", "correct the name"
            ) from None

    def _known_sets(self) -> Iterable[TileMatrixSet]:
        for identifier in self._sets.names():
            with suppress(UnusableError):
                yield self._sets.silent(identifier)
