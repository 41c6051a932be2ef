"""Variants of layers: the seam between names and values in requests and the layers they mean."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

from mastaba.containers.index_cache import IndexCache
from mastaba.errors import MastabaError, OverloadedError
from mastaba.model.dimension import Dimension, DimensionValues, Note
from mastaba.model.layer import Layer
from mastaba.model.tile_matrix_set import TileLimits
from mastaba.storage.pool import StoragePool

logger = logging.getLogger("mastaba")

_WAIT: Final = 2.0
"""Seconds for which a request waits until all processes know a replaced variant."""
_REST: Final = 5.0
"""Seconds for which a variant that cannot be opened is not tried again."""
_SILENCE: Final = 60.0
"""Seconds between two log lines about such variants."""

T = TypeVar("T")


class Recent(Generic[T]):
    """The values that were used last, by key; for threads.

    Args:
        most: number of values.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Any, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any) -> T | None:
        """Return a value, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def add(self, key: Any, value: T) -> T:
        """Keep a value; forget the one whose use is longest ago if there are too many."""
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value

    def values(self) -> list[T]:
        """Return all values."""
        with self._lock:
            return list(self._kept.values())


@dataclass(frozen=True, slots=True)
class Variant:
    """A layer at one combination of values, not opened yet.

    Attributes:
        key: qualified name, ``ORTHO;time=1950``.
        at: text of the value of each dimension.
        pyramids: entries, as ``pyramids`` of a layer descriptor.
        stamp: what the pyramids must have when they are opened; see `VariantSource.stamp`.
        changes: attributes in which the layer differs from the default, such as ``title``.
        interval: first and last instant of the time.
    """

    key: str
    at: Mapping[str, str]
    pyramids: Sequence[Mapping[str, Any]]
    stamp: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    interval: tuple[str, str] | None = None


class Choice(NamedTuple):
    """What the values of a request mean.

    Attributes:
        variants: newest first; empty for the default of the layer.
        notes: values that were not named exactly.
        is_lasting: whether the same values mean the same later. Otherwise the clock decides, or a
            nearest value was taken.
        ranges: of dimensions of pixels, by name: lowest and highest values that are shown.
    """

    variants: Sequence[Variant]
    notes: tuple[Note, ...] = ()
    is_lasting: bool = True
    ranges: Mapping[str, Sequence[tuple[float, float]]] = {}


class VariantOpener(Protocol):
    """What opens the variants of a layer."""

    def __call__(self, variant: Variant) -> Layer:
        """Open a variant.

        Raises:
            ReplacedError: its pyramids are not those that were listed.
            MastabaError: it cannot be opened.
        """

    def moved(self, pool: StoragePool, indices: IndexCache) -> VariantOpener:
        """Return an opener that reads from other storages."""


@dataclass(frozen=True, slots=True)
class VariantSource:
    """What a table is made from.

    Attributes:
        layer: the default.
        document: the descriptor, valid by `VariantTable.layer_schema`.
        file: of the descriptor, or what messages call it.
        text: returns the text of the document at a path, which a second text names.
        stamp: returns the stamp of pyramids: entries as in a descriptor. One that has a
            generation may have that instead.
        refuse: records why the layer cannot be used, and raises: key, reason, remedy.
        warning: records a reason and a remedy.
        listing: of an earlier table, which must be used instead of reading it; None for none.
    """

    layer: Layer
    document: Mapping[str, Any]
    file: str
    text: Callable[[str, str], str]
    stamp: Callable[[Sequence[Mapping[str, Any]]], str]
    refuse: Callable[[str, str, str], Any]
    warning: Callable[[str, str, str], None]
    listing: Any = None


class VariantTable(ABC):
    """The variants of one layer; the hook ``register_dimensions`` provides subclasses.

    Attributes:
        name: of the kind of table.
        layer_schema: JSON schemas of the keys of layer descriptors that it reads.
        dimensions: of the layer.
        digest: of all values, pyramids and stamps.
        listing: values, paths and stamps as JSON, for `VariantSource.listing`.
        limits: tile limits of all variants together, by tile matrix identifier, if known.
        at, interval: of the default.
        layer_id, layer_digest: identifier, and digest of what all variants share; these and the
            following ones are set by the core.
        open_variant: opens a variant.
        descriptor, file: the descriptor as it was read, and its path or another name for it.
    """

    name: ClassVar[str]
    layer_schema: ClassVar[Mapping[str, Any]] = {}
    dimensions: tuple[Dimension, ...]
    digest: str
    listing: Any
    limits: Mapping[str, TileLimits]
    at: Mapping[str, str]
    interval: tuple[str, str] | None
    layer_id: str
    layer_digest: str
    open_variant: VariantOpener
    descriptor: Any
    file: str

    @classmethod
    @abstractmethod
    def open(cls, source: VariantSource) -> VariantTable | None:
        """Return the table of a layer; None if its descriptor has no dimensions."""

    @abstractmethod
    def resolve(self, values: Mapping[str, str], most: int = 1) -> Choice:
        """Return what the values of a request mean (time.md sections 1.4 and 1.5).

        Args:
            values: texts by names of dimensions; other names are ignored.
            most: number of variants.

        Raises:
            MissingDimensionError, InvalidDimensionError, NoSuchValueError: as their names say.
        """

    @abstractmethod
    def values(self, limit: int = 500) -> Sequence[DimensionValues]:
        """Return the values of each dimension, as documents show them.

        Args:
            limit: number of texts; beyond it, runs or a range stand for them.
        """

    @abstractmethod
    def variants(self) -> Sequence[Variant]:
        """Return all variants."""

    @abstractmethod
    def find(self, key: str) -> Variant | None:
        """Return the variant with a key."""

    def named(self, name: str) -> Mapping[str, str] | None:
        """Return the values that a further layer name means, or None."""
        return None

    def further_names(self) -> Sequence[tuple[str, Variant]]:
        """Return further layer names that documents list."""
        return ()


class VersionTable(NamedTuple):
    """Stands for a table when a version of a layer is opened; see its attributes."""

    layer_id: str
    layer_digest: str
    open_variant: VariantOpener


class ReplacedError(Exception):
    """The pyramids of a variant are not those that were listed."""


class OpenVariants:
    """The variants that a process has opened: those used last.

    Args:
        most: number of variants.

    Attributes:
        tables: of the catalogue that is served now, by layer.
        refresh: loads a layer again in all processes; None if nothing can.
        versions: returns the version of a layer that a token means, to be opened; None without a
            service that knows versions. It raises `RequestError`.
        opens: number of variants opened so far.
    """

    def __init__(self, most: int = 512) -> None:
        self.most = most
        self.tables: Mapping[str, VariantTable] = {}
        self.refresh: Callable[[str], None] | None = None
        self.versions: Callable[[Layer, str], Variant] | None = None
        self.opens = 0
        self._recent: Recent[Layer] = Recent(most)
        self._failed: Recent[float] = Recent(most)
        self._lock = threading.Lock()
        self._opening: dict[Any, threading.Lock] = {}
        self._refreshing: dict[str, threading.Thread] = {}
        self._logged = -_SILENCE

    def __len__(self) -> int:
        return len(self._recent.values())

    @property
    def levels(self) -> int:
        """Number of levels of the open variants."""
        return sum(len(layer.pyramid.levels) for layer in self._recent.values())

    def get(self, table: VariantTable | VersionTable, variant: Variant) -> Layer:
        """Return an open variant.

        Raises:
            OverloadedError: it cannot be opened at the moment.
        """
        key = variant.key, variant.stamp, table.layer_digest
        found = self._recent.get(key)
        if found is not None:
            return found
        with self._lock:
            opening = self._opening.setdefault(key, threading.Lock())
        with opening:
            try:
                return self._recent.get(key) or self._recent.add(key, self._open(table, variant))
            except ReplacedError:
                pass
            finally:
                self._opening.pop(key, None)
        return self._opened_again(table, variant)

    def _open(self, table: VariantTable | VersionTable, variant: Variant) -> Layer:
        failed = self._failed.get((variant.key, variant.stamp))
        if failed is not None and time.monotonic() - failed < _REST:
            raise _unavailable()
        try:
            layer = table.open_variant(variant)
        except MastabaError as error:
            now = time.monotonic()
            self._failed.add((variant.key, variant.stamp), now)
            if now - self._logged >= _SILENCE:
                self._logged = now
                logger.error("%s cannot be opened: %s", variant.key, error)
            raise _unavailable() from error
        self.opens += 1
        return layer

    def _opened_again(self, table: VariantTable | VersionTable, variant: Variant) -> Layer:
        """Return a variant that was replaced, when all processes know the new one."""
        name = table.layer_id
        with self._lock:
            running = self._refreshing.get(name)
            # Another request may have refreshed the layer meanwhile.
            if running is None and self.tables.get(name) is table and self.refresh is not None:
                running = threading.Thread(target=self._refresh, args=(table,), daemon=True)
                self._refreshing[name] = running
                running.start()
        if running is not None:
            running.join(_WAIT)
        now = self.tables.get(name)
        found = None if now is None or now is table else now.find(variant.key)
        if now is None or found is None:
            raise _unavailable()
        try:
            return self._open(now, found)
        except ReplacedError:
            raise _unavailable() from None

    def _refresh(self, table: VariantTable | VersionTable) -> None:
        try:
            assert self.refresh is not None
            self.refresh(table.layer_id)
        except Exception as error:  # noqa: BLE001 - the requests that wait for it get 503
            logger.error("the layer %s cannot be refreshed: %s", table.layer_id, error)
        finally:
            self._refreshing.pop(table.layer_id, None)


def _unavailable() -> OverloadedError:
    return OverloadedError("this value of the layer cannot be read at the moment", retry_after=1)
