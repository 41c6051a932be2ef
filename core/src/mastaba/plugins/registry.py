"""Read-only registries of the classes that plugins provide."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from mastaba import LazyClass
from mastaba.errors import UnknownPluginError

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Named items of one kind, each with the plugin that provides it.

    Args:
        kind: kind of the items, for messages.
        items: name, item, and name of the plugin that provides it.
        load: returns the item for a `LazyClass` from a plugin; called once, on first use.
        broken: names of the plugins that are left out, for messages.
    """

    def __init__(
        self,
        kind: str,
        items: Sequence[tuple[str, T | LazyClass, str]] = (),
        load: Callable[[LazyClass, str], T] | None = None,
        broken: Collection[str] = (),
    ) -> None:
        self.kind = kind
        self.broken = broken
        self._items: dict[str, Any] = {name: item for name, item, _ in items}
        self._providers = {name: provider for name, _, provider in items}
        self._load = load

    def __getitem__(self, name: str) -> T:
        try:
            item = self._items[name]
        except KeyError:
            known = ", ".join(sorted(self._items)) or "none"
            text = f"no {self.kind} {name!r} (installed: {known}){self.left_out}"
            raise UnknownPluginError(text) from None
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

    @property
    def left_out(self) -> str:
        """The broken plugins, which may provide what is missing: the end of a message, or empty."""
        names = ", ".join(sorted(self.broken))
        return f"; broken plugins are left out: {names}" if names else ""

    def settings(self, by_plugin: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """Return the settings of each item, which are those of its plugin."""
        return {name: by_plugin.get(plugin, {}) for name, plugin in self._providers.items()}

    def declared(self, attribute: str) -> dict[str, Any]:
        """Return an attribute of each item by name, None without it; no class is imported."""
        return {
            name: item.attributes.get(attribute)
            if isinstance(item, LazyClass)
            else getattr(item, attribute, None)
            for name, item in self._items.items()
        }

    def provider(self, name: str) -> str:
        """Return the plugin that provides an item."""
        return self._providers[name]

    def provided_by(self, plugin: str) -> list[str]:
        """Return the names that a plugin provides, sorted."""
        return sorted(name for name, provider in self._providers.items() if provider == plugin)
