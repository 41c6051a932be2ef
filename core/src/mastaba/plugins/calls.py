"""Calls of hooks: pluggy makes them; here each implementation is watched, to name a culprit."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import pluggy

SLOW = 2.0
"""Seconds; the operator is warned about a plugin whose import or hook takes longer."""

Check = Callable[[str, str, Any], Any]
"""Takes the names of hook and plugin and the result; returns the result to use."""


class WrongResultError(Exception):
    """A hook returns what it must not; the message continues "the plugin 'x' …"."""


class Watch:
    """Watches every hook implementation of the registered plugins."""

    def __init__(self, on_slow: Callable[[str, str, float], None]) -> None:
        self._on_slow = on_slow
        self._failed: list[tuple[BaseException, str]] = []

    def add(self, hook: str, implementation: pluggy.HookImpl, check: Check) -> None:
        """Watch one implementation of a hook.

        Args:
            hook: name of the hook.
            implementation: its function is replaced by one that calls it.
            check: called with each result; its exceptions are those of the plugin.
        """
        plugin, function = (
            implementation.plugin_name,
            cast("Callable[..., Any]", implementation.function),
        )

        def plain(*arguments: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            try:
                result = function(*arguments, **named)
                if inspect.iscoroutine(result):
                    result.close()
                    raise WrongResultError(f"defines {hook} with 'async def'; use 'def'")
                return check(hook, plugin, result)
            except BaseException as error:
                self._failed.append((error, plugin))
                raise
            finally:
                seconds = time.perf_counter() - begin
                if seconds > SLOW:
                    self._on_slow(plugin, hook, seconds)

        def wrapper(*arguments: Any, **named: Any) -> Generator[Any, Any, Any]:
            try:
                return (yield from function(*arguments, **named))
            except BaseException as error:
                # An error that passes through is that of an inner plugin.
                if self.culprit(error) is None:
                    self._failed.append((error, plugin))
                raise

        is_wrapper = implementation.wrapper or implementation.hookwrapper
        implementation.function = wrapper if is_wrapper else plain  # type: ignore[misc]

    def culprit(self, error: BaseException) -> str | None:
        """Return the plugin in which an exception was raised first; None if in no plugin."""
        return next((plugin for failed, plugin in self._failed if failed is error), None)

    def forget(self) -> None:
        """Forget past failures."""
        self._failed.clear()
