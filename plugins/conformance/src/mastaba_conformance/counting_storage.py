"""A storage that records its calls, for tests that count reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from mastaba.api.storages import ByteRange, ObjectRead, ObjectStat, Storage

if TYPE_CHECKING:
    from mastaba.api.catalogue import Catalogue
    from mastaba.api.storages import Environment

__all__ = [
    "Call",
    "CountingStorage",
    "count_calls",
]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a storage.

    Attributes:
        method: ``read``, ``read_ranges``, ``stat`` or ``exists``.
        key: name of the object.
        byte_ranges: requested ranges; empty for a whole object.
        version: required version, or None.
    """

    method: str
    key: str
    byte_ranges: tuple[ByteRange, ...] = ()
    version: str | None = None


class CountingStorage(Storage):
    """Wrapper of a storage that records all calls. Thread-safe.

    Args:
        storage: the wrapped storage.

    Attributes:
        calls: calls in the order in which they started; `clear` empties the list.
    """

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage.container)
        # Drivers define these as class attributes.
        vars(self).update(
            name=storage.name,
            container_field=storage.container_field,
            is_remote=storage.is_remote,
        )
        self._storage = storage
        self.calls: list[Call] = []

    @property
    def full_name(self) -> str:
        return self._storage.full_name

    @property
    def reads(self) -> list[Call]:
        """The calls that read bytes; for a remote storage, each is a round trip."""
        return [call for call in self.calls if call.method in ("read", "read_ranges")]

    def clear(self) -> None:
        """Discard the recorded calls."""
        self.calls.clear()

    @classmethod
    def open(cls, container: str, environment: Environment) -> NoReturn:
        raise TypeError("a CountingStorage wraps an open storage")

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        wanted = () if byte_range is None else (byte_range,)
        self.calls.append(Call("read", key, wanted, version))
        return self._storage.read(key, byte_range, version)

    def read_ranges(
        self, key: str, byte_ranges: Sequence[ByteRange], version: str | None = None
    ) -> list[ObjectRead]:
        self.calls.append(Call("read_ranges", key, tuple(byte_ranges), version))
        return self._storage.read_ranges(key, byte_ranges, version)

    def stat(self, key: str) -> ObjectStat:
        self.calls.append(Call("stat", key))
        return self._storage.stat(key)

    def exists(self, key: str) -> bool:
        self.calls.append(Call("exists", key))
        return self._storage.exists(key)

    def close(self) -> None:
        self._storage.close()


def count_calls(catalogue: Catalogue, layer: str) -> CountingStorage:
    """Insert one counting storage below all levels of a layer, and return it.

    Raises:
        ValueError: the levels of the layer are in more than one container.
    """
    readers = catalogue.readers[layer].values()
    storages = {id(reader.storage): reader.storage for reader in readers}
    if len(storages) != 1:
        raise ValueError(f"the levels of {layer} are in {len(storages)} containers")
    counting = CountingStorage(next(iter(storages.values())))
    for reader in readers:
        reader.storage = counting
    return counting
