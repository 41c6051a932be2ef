"""Tables of wrong plugins, and the test classes that try them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T", bound=type)


class WrongPlugins(dict[T, tuple[str, ...]], Generic[T]):
    """The tests of the kit that must report each plugin."""

    def reported_by(self, *tests: str) -> Callable[[T], T]:
        """Return a decorator that adds a plugin to the table."""

        def add(plugin: T) -> T:
            self[plugin] = tests
            return plugin

        return add

    def test_classes(
        self, right: type, attribute: str, others: Callable[[T], dict[str, Any]]
    ) -> Iterator[tuple[str, type]]:
        """Yield a test class for each plugin. It has only the tests that must report the plugin.

        Args:
            right: test class of the right plugin.
            attribute: class attribute that contains the tested plugin.
            others: returns further class attributes for a plugin.
        """
        kit = {name for name in dir(right) if name.startswith("test")}
        for plugin, tests in self.items():
            assert kit.issuperset(tests)
            # Collecting all tests of each class would take longer than running the few.
            omitted = dict.fromkeys(kit.difference(tests))
            name = f"Test{plugin.__name__}"
            yield name, type(name, (right,), {**omitted, attribute: plugin, **others(plugin)})
