"""Read-only registries of the items that plugins provide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from mastaba.errors import PluginConflictError, UnknownPluginError

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Named items of one kind, each with the plugin that provides it.

    Args:
        kind: kind of the items, for messages.
        items: name, item, and name of the plugin that provides it.

    Raises:
        PluginConflictError: two plugins provide the same name; the message names both.
    """

    def __init__(self, kind: str, items: Iterable[tuple[str, T, str]] = ()) -> None:
        self.kind = kind
        self._items: dict[str, T] = {}
        self._providers: dict[str, str] = {}
        for name, item, provider in items:
            if name in self._items:
                raise PluginConflictError(
                    f"duplicate {kind} {name!r}: provided by {self._providers[name]} and {provider}"
                )
            self._items[name] = item
            self._providers[name] = provider

    def __getitem__(self, name: str) -> T:
        try:
            return self._items[name]
        except KeyError:
            known = ", ".join(sorted(self._items)) or "none"
            raise UnknownPluginError(f"no {self.kind} {name!r} (installed: {known})") from None

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def get(self, name: str, default: T | None = None) -> T | None:  # type: ignore[override]
        return self._items.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def provided_by(self, plugin: str) -> list[str]:
        """Return the names that a plugin provides, sorted."""
        return sorted(name for name, provider in self._providers.items() if provider == plugin)
