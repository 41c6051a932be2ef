"""Base class of containers: archives whose tiles are published like those of slab pyramids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mastaba.containers.index_cache import IndexCache
from mastaba.containers.reader import TileReader
from mastaba.model.pyramid import Level, Pyramid
from mastaba.model.tile_matrix_set import TileMatrixSet
from mastaba_storage.base import Storage
from mastaba_storage.file import FileStorage
from mastaba_storage.path import ResourcePath

MakeReader = Callable[[Level], TileReader]
"""Makes the reader of a level, whose limits a layer may have narrowed."""


@dataclass(frozen=True, slots=True)
class Source:
    """The object that a container is opened from.

    Attributes:
        path: as in the layer descriptor.
        storage: open storage of the object.
    """

    path: ResourcePath
    storage: Storage

    def __str__(self) -> str:
        return str(self.path)

    @property
    def key(self) -> str:
        """Key of the object in the storage."""
        return self.path.key

    @property
    def local_path(self) -> str | None:
        """Path in the file system; None if the object is in another storage."""
        return self.key if self.path.storage == FileStorage.name else None


@dataclass(frozen=True, slots=True)
class Context:
    """What a container may use while it is opened, and its readers afterwards.

    Attributes:
        indices: cache of indices, limited by bytes (`cache.container_bytes`), shared by all
            containers.
        named_set: returns a configured tile matrix set by identifier; raises
            `ContainerFormatError` if it is unknown.
        known_sets: returns the configured tile matrix sets that can be found.
        warning: records a reason and a remedy; the container is used all the same.
        open_path: returns the open storage of another object; None if there are no others.
        is_hybrid: whether the layer has levels from other entries too.
    """

    indices: IndexCache
    named_set: Callable[[str], TileMatrixSet]
    known_sets: Callable[[], Iterable[TileMatrixSet]]
    warning: Callable[[str, str], None]
    open_path: Callable[[ResourcePath], Storage] | None = None
    is_hybrid: bool = False


@dataclass(frozen=True, slots=True)
class OpenedContainer:
    """What a container publishes.

    Attributes:
        pyramid: its levels; its format is the one in which tiles are delivered.
        readers: what makes the reader of each level, by tile matrix identifier.
        title, abstract, attribution: plain texts, used if the layer has none.
        attribution_url: link of the attribution, HTTP or HTTPS, or empty.
        report: lines for ``mastaba check``: what was found, and how each level is delivered.
    """

    pyramid: Pyramid
    readers: Mapping[str, MakeReader]
    title: str = ""
    abstract: str = ""
    attribution: str = ""
    attribution_url: str = ""
    report: tuple[str, ...] = ()


class Container(ABC):
    """A kind of container; the hook ``register_containers`` provides subclasses.

    Attributes:
        name: value of ``container`` in layer descriptors.
        suffixes: of paths that need no ``container``, in lower case, such as ``.pmtiles``.
        signatures: what its objects begin with.
        reads: ``ranges`` (any storage), or ``local`` if it needs a path of the file system.
        options_schema: JSON schemas of ``options`` by key, as `Service.settings_schema`.
        cannot: abilities that are missing: ``versions``, ``batch``, ``symbolic``, ``history``,
            ``remote``, ``vector``, ``float``, ``own_grid``, ``maps``.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    signatures: ClassVar[tuple[bytes, ...]] = ()
    reads: ClassVar[str] = "ranges"
    options_schema: ClassVar[Mapping[str, Any]] = {}
    cannot: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    @abstractmethod
    def open(cls, source: Source, options: Mapping[str, Any], context: Context) -> OpenedContainer:
        """Open a container, with at most four reads, before the server forks.

        Args:
            options: as in the layer descriptor, valid by `options_schema`.

        Raises:
            ContainerFormatError: it cannot be published.
            StorageError: it cannot be read.
        """
