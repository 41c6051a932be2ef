"""Base classes of an index store: indices of slabs that a node keeps, which may be outdated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

from mastaba.slab.index import SlabIndex
from mastaba.slab.layout import SlabLayout
from mastaba_storage.base import ObjectRead, Storage


class LevelSlabs(NamedTuple):
    """The slabs of one level in a remote storage.

    Attributes:
        name: location of the slabs and their size in tiles.
        tile_count: tiles of a slab.
        storage: storage of the slabs.
        layout: keys of the slabs.
        packs: keys of the index packs of the level; None if there are none.
        open_container: opens the container that a symbolic object points to; None if symbolic
            objects are not followed.
    """

    name: str
    tile_count: int
    storage: Storage
    layout: SlabLayout
    packs: SlabLayout | None
    open_container: Callable[[str], Storage] | None


class StoredIndices(ABC):
    """The indices of one level in a store. All methods must be thread-safe, and must not raise."""

    @abstractmethod
    def get(self, slab_col: int, slab_row: int) -> SlabIndex | None:
        """Return the index of a slab, perhaps of an earlier version; None if it is unknown."""

    @abstractmethod
    def put(
        self, slab_col: int, slab_row: int, read: ObjectRead, link: ObjectRead | None = None
    ) -> None:
        """Store an index.

        Args:
            read: header and index of the slab.
            link: the symbolic object that leads to the slab, if there is one.
        """


class IndexStore(ABC):
    """A store of the indices of all levels, shared by the processes of a node.

    A plugin registers a subclass with the hook ``register_index_stores``. The store is opened if
    the plugin has a section in server.json.

    Attributes:
        name: name of the store.
    """

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def open(cls, settings: Mapping[str, Any]) -> Self:
        """Open the store with the settings of its plugin.

        Raises:
            OSError, ValueError: it cannot be used.
        """

    @abstractmethod
    def level(self, slabs: LevelSlabs) -> StoredIndices:
        """Return the indices of a level."""
