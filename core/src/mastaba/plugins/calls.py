"""Calls of hooks: each implementation is watched, so that an error names its plugin."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Generator
from typing import Any, Final, cast

import pluggy

from mastaba.errors import PluginError, PluginLoadError

SLOW = 2.0
"""Seconds; the operator is warned about a plugin whose import or hook takes longer."""

_CULPRIT: Final = "mastaba_plugin"
"""Attribute of an exception: the plugin that has raised it."""

Check = Callable[[str, str, Any, float], Any]
"""Takes the names of hook and plugin, the result and the seconds; returns the result to use."""


class BrokenPluginError(Exception):
    """A plugin breaks a rule; the message continues "the plugin 'x' …".

    Args:
        reason: the message.
        kind: error that the program raises.
    """

    def __init__(self, reason: str, kind: type[PluginError] = PluginLoadError) -> None:
        super().__init__(reason)
        self.kind = kind


def described(error: BaseException) -> str:
    """Return kind and message of an exception in one line."""
    return f"{type(error).__name__}: {': '.join(str(error).strip().splitlines())}"


def culprit(error: BaseException) -> str | None:
    """Return the plugin in which an exception was raised first; None if in no plugin."""
    return getattr(error, _CULPRIT, None)


def blame(plugin: str, error: BaseException) -> None:
    """Record that an exception is that of a plugin, unless it is that of another one."""
    # An error that passes through a wrapper is that of an inner plugin.
    if culprit(error) is None:
        setattr(error, _CULPRIT, plugin)


def watch(hook: str, implementation: pluggy.HookImpl, check: Check) -> None:
    """Watch one implementation of a hook.

    Args:
        hook: name of the hook.
        implementation: its function is replaced by one that calls it.
        check: called with each result; its exceptions are those of the plugin.
    """
    plugin = implementation.plugin_name
    function = cast("Callable[..., Any]", implementation.function)

    def plain(*arguments: Any, **named: Any) -> Any:
        begin = time.perf_counter()
        try:
            result = function(*arguments, **named)
            if inspect.iscoroutine(result):
                result.close()
                raise BrokenPluginError(f"defines {hook} with 'async def'; use 'def'")
            return check(hook, plugin, result, time.perf_counter() - begin)
        except BaseException as error:
            blame(plugin, error)
            raise

    def wrapper(*arguments: Any, **named: Any) -> Generator[Any, Any, Any]:
        try:
            return (yield from function(*arguments, **named))
        except BaseException as error:
            blame(plugin, error)
            raise

    is_wrapper = implementation.wrapper or implementation.hookwrapper
    implementation.function = wrapper if is_wrapper else plain  # type: ignore[misc]
