"""Calls of hooks: pluggy makes them; here each implementation is watched, to name a culprit."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    import pluggy

SLOW = 2.0
"""Seconds; the operator is warned about a plugin whose import or hook takes longer."""

_CULPRIT: Final = "mastaba_plugin"
"""Attribute of an exception: the plugin that has raised it."""

Check = Callable[[str, str, Any], Any]
"""Takes the names of hook and plugin and the result; returns the result to use."""


class WrongResultError(Exception):
    """A hook returns what it must not; the message continues "the plugin 'x' …"."""


def watch(
    hook: str,
    implementation: pluggy.HookImpl,
    check: Check,
    on_slow: Callable[[str, str, float], None],
) -> None:
    """Watch one implementation of a hook.

    Args:
        hook: name of the hook.
        implementation: its function is replaced by one that calls it.
        check: called with each result; its exceptions are those of the plugin.
        on_slow: called with the plugin, the hook and the seconds of a call that takes long.
    """
    plugin = implementation.plugin_name
    function = cast("Callable[..., Any]", implementation.function)

    def plain(*arguments: Any, **named: Any) -> Any:
        begin = time.perf_counter()
        try:
            result = function(*arguments, **named)
            if inspect.iscoroutine(result):
                result.close()
                raise WrongResultError(f"defines {hook} with 'async def'; use 'def'")
            return check(hook, plugin, result)
        except BaseException as error:
            _blame(plugin, error)
            raise
        finally:
            seconds = time.perf_counter() - begin
            if seconds > SLOW:
                on_slow(plugin, hook, seconds)

    def wrapper(*arguments: Any, **named: Any) -> Generator[Any, Any, Any]:
        try:
            return (yield from function(*arguments, **named))
        except BaseException as error:
            _blame(plugin, error)
            raise

    is_wrapper = implementation.wrapper or implementation.hookwrapper
    implementation.function = wrapper if is_wrapper else plain  # type: ignore[misc]


def culprit(error: BaseException) -> str | None:
    """Return the plugin in which an exception was raised first; None if in no plugin."""
    return getattr(error, _CULPRIT, None)


def _blame(plugin: str, error: BaseException) -> None:
    # An error that passes through a wrapper is that of an inner plugin.
    if culprit(error) is None:
        setattr(error, _CULPRIT, plugin)
