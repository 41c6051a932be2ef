"""Read-only registries of the classes that plugins provide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from mastaba import LazyClass
from mastaba.errors import PluginConflictError, UnknownPluginError

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Named items of one kind, each with the plugin that provides it.

    A name is found only as it is written, but two names must differ in more than the case of their
    letters.

    Args:
        kind: kind of the items, for messages.
        items: name, item, and name of the plugin that provides it.
        load: returns the item for a `LazyClass` from a plugin; called once, on first use.
        declared: attributes of each item that are known without `load`.

    Raises:
        PluginConflictError: two plugins provide the same name; the message names both.
    """

    def __init__(
        self,
        kind: str,
        items: Iterable[tuple[str, T | LazyClass, str]] = (),
        load: Callable[[LazyClass, str], T] | None = None,
        declared: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.kind = kind
        self.declared = declared or {}
        self._items: dict[str, Any] = {}
        self._providers: dict[str, str] = {}
        self._load = load
        spellings: dict[str, str] = {}
        for name, item, provider in items:
            other = spellings.setdefault(name.casefold(), name)
            if other in self._items:
                raise PluginConflictError(
                    f"duplicate {kind} {name!r}: "
                    f"provided by {self._providers[other]} and {provider}"
                )
            self._items[name] = item
            self._providers[name] = provider

    def __getitem__(self, name: str) -> T:
        try:
            item = self._items[name]
        except KeyError:
            known = ", ".join(sorted(self._items)) or "none"
            raise UnknownPluginError(f"no {self.kind} {name!r} (installed: {known})") from None
        if isinstance(item, LazyClass) and self._load is not None:
            item = self._items[name] = self._load(item, self._providers[name])
        return item  # type: ignore[no-any-return]

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def get(self, name: str, default: T | None = None) -> T | None:  # type: ignore[override]
        return self[name] if name in self._items else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def settings(self, by_plugin: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """Return the settings of each item, which are those of its plugin."""
        return {name: by_plugin.get(plugin, {}) for name, plugin in self._providers.items()}

    def provided_by(self, plugin: str) -> list[str]:
        """Return the names that a plugin provides, sorted."""
        return sorted(name for name, provider in self._providers.items() if provider == plugin)
