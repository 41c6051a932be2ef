"""Variants of layers: the seam between the values in requests and the layers they mean.

What the values mean, and when variants are opened, is decided by a `VariantTable` of a plugin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from mastaba.model.layer import Layer
from mastaba_server.threads.recent import Recent

NO_VALUE: Final = ("", "default", "undefined", "null")
"""What clients write instead of a value, in lower case."""
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Resolved(NamedTuple):
    """The layers that a name and values mean.

    Attributes:
        layers: at least one; newest first.
        notes: values that the request did not name exactly, `mastaba_ows.dimensions.Note`.
        is_lasting: whether the same request means the same later. Otherwise the clock decides, or
            a nearest value was taken.
        ranges: of dimensions of pixels, by name: lowest and highest values that are shown.
    """

    layers: tuple[Layer, ...]
    notes: tuple[Any, ...] = ()
    is_lasting: bool = True
    ranges: Mapping[str, Sequence[tuple[float, float]]] = NOTHING

    @property
    def layer(self) -> Layer:
        """The newest of them."""
        return self.layers[0]


@dataclass(frozen=True, slots=True)
class VariantSource:
    """What a table is made from.

    Attributes:
        layer: the default.
        document: the descriptor, valid by `VariantTable.layer_schema`.
        file: of the descriptor, or what messages call it.
        reader: reads documents, a `mastaba.config.documents.DocumentReader`.
        loader: what opens variants, a `mastaba.config.layers.LayerLoader`.
        opened: all open variants of the process.
        listing: `VariantTable.listing` of another process, to be used instead of reading; or None.
        refuse: records why the layer cannot be used, and raises: key, reason, remedy.
        warning: records a key, a reason and a remedy.
    """

    layer: Layer
    document: Mapping[str, Any]
    file: str
    reader: Any
    loader: Any
    opened: Recent[Layer]
    listing: Any
    refuse: Callable[[str, str, str], Any]
    warning: Callable[[str, str, str], None]


class VariantTable(ABC):
    """The variants of one layer; the hook ``register_dimensions`` provides subclasses.

    Attributes:
        name: of the kind of table.
        layer_schema: JSON schemas of the keys of layer descriptors that it reads.
        layer: the default, with its dimensions.
        listing: what was read, as JSON.
        descriptor, file: of the layer, as read; set by the core.
        refresh: loads the layer again in all processes, and returns its new table; set by the core
            where that is possible.
        tile_publisher: makes what serves stored tiles, with the arguments of a
            `mastaba.api.tiles.TilePublisher` and ``service``, their `mastaba.api.tiles.Tiles`; None
            for the usual one.
    """

    name: ClassVar[str]
    layer_schema: ClassVar[Mapping[str, Any]] = {}
    layer: Layer
    listing: Any
    descriptor: Any = None
    file: str = ""
    refresh: Callable[[str], VariantTable | None] | None = None
    tile_publisher: Callable[..., Any] | None = None

    @classmethod
    def documents(cls, descriptor: Any, file: str) -> Iterable[str]:
        """Return the paths of the documents that `open` will read, which are read in parallel.

        Args:
            descriptor: of a layer, as read and not validated.
            file: where it was read.
        """
        return ()

    @classmethod
    @abstractmethod
    def open(cls, source: VariantSource) -> VariantTable | None:
        """Return the table of a layer; None if its descriptor has no dimensions."""

    @abstractmethod
    def resolve(self, values: Mapping[str, str], most: int = 1) -> Resolved:
        """Return what values mean; see `Catalogue.resolve`."""

    @abstractmethod
    def values(self, limit: int = 500) -> Sequence[Any]:
        """Return the values of each dimension, as documents show them.

        Returns:
            `mastaba_ows.dimensions.DimensionValues`; with more values than the limit, their texts
            are runs or a range.
        """

    @property
    def is_watched(self) -> bool:
        """Whether `is_outdated` is asked, each second in one process."""
        return False

    def is_outdated(self) -> bool:
        """Return whether the layer should be loaded again.

        Raises:
            MastabaError: what lists the variants cannot be read.
        """
        return False

    @property
    def is_faulty(self) -> bool:
        """Whether the variants are those of an earlier list, because the present one has errors."""
        return False

    def previous(self, layer: Layer) -> Iterable[Layer]:
        """Yield the variants whose tiles answer for those that a variant does not have."""
        return ()

    @abstractmethod
    def named(self, name: str) -> Mapping[str, str] | None:
        """Return the values that a further layer name means, or None."""

    @abstractmethod
    def changes(self, before: VariantTable) -> Iterable[tuple[Any, ...]] | None:
        """Return what differs from an earlier table; None if the whole layer may differ.

        Returns:
            of each variant: version before, version after, area, key; as in `LayerChange`.
        """

    @abstractmethod
    def opened(self) -> Iterable[tuple[str, Layer | str]]:
        """Open all variants; yield the key of each with the layer, or why it cannot be opened."""

    def states(self) -> Mapping[str, str]:
        """Return what each variant is in this process, by its key: known, open or faulty."""
        return {}

    @abstractmethod
    def moved(self, loader: Any) -> VariantTable:
        """Return a table that opens variants with another loader."""
