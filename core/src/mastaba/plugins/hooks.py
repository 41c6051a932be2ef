"""Plugins registered with pluggy, and calls of their hooks that name the plugin at fault."""

from __future__ import annotations

import functools
import inspect
import itertools
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import pluggy

from mastaba import __version__
from mastaba.errors import PluginError, PluginLoadError, escaped
from mastaba.plugins import builtin, calls, checks, hookspecs
from mastaba.plugins.calls import BrokenPluginError, blame, culprit, described
from mastaba.plugins.containment import FOR_THE_PROGRAM, threads_reported
from mastaba.plugins.discovery import Source, unmet_requirement

CORE: Final = "core"
CORE_SOURCE: Final = Source(CORE, "mastaba", __version__, "the core", lambda: builtin)
_IMPORT_LATER: Final = "import libraries on first use"


class Hooks:
    """The hooks of registered plugins.

    Attributes:
        sources: where plugins come from, by name, also of those that are not registered.
        failed: why plugins cannot be used, by name.
        warnings: what the authors of plugins should improve, by name.
        check_commands: called with the plugin that has added commands.
    """

    def __init__(self) -> None:
        self.sources = {CORE: CORE_SOURCE}
        self.failed: dict[str, PluginError] = {}
        self.warnings: defaultdict[str, list[str]] = defaultdict(list)
        self.check_commands: Callable[[str], None] = lambda _plugin: None
        self._offered: list[tuple[Any, str]] = []
        self._manager = pluggy.PluginManager("mastaba")
        self._manager.add_hookspecs(hookspecs)

    def registered(self) -> list[tuple[str, Any]]:
        """Return the names and objects of the plugins that are registered."""
        return self._manager.list_name_plugin()

    def implementing(self, hook: str) -> list[str]:
        """Return the names of the plugins that implement a hook."""
        return [one.plugin_name for one in getattr(self._manager.hook, hook).get_hookimpls()]

    def each(self, hook: str, **arguments: Any) -> dict[str, Callable[[], object]]:
        """Return calls of the implementations of a hook, by plugin."""
        return {
            name: functools.partial(
                self._manager.subset_hook_caller(
                    hook, [plugin for other, plugin in self.registered() if other != name]
                ),
                **arguments,
            )
            for name in self.implementing(hook)
        }

    def register(self, source: Source) -> None:
        """Import, check and register a plugin.

        Raises:
            BrokenPluginError: it cannot be used.
        """
        name = source.name
        if checks.PLUGIN_NAME.fullmatch(name) is None:
            raise BrokenPluginError("has an invalid name; use letters, digits and . _ -")
        if reason := unmet_requirement(source.requires):
            raise BrokenPluginError(f"does not fit: {reason}; install a version that fits")
        begin = time.perf_counter()
        try:
            with threads_reported(self.warnings[name].append):
                plugin = source.load()
        except (*FOR_THE_PROGRAM, BrokenPluginError):
            raise
        except BaseException as error:
            reason = f"cannot be imported from {source.place}: {described(error)}"
            raise BrokenPluginError(reason) from error
        seconds = time.perf_counter() - begin
        if seconds > calls.SLOW:
            self.warnings[name].append(f"takes {seconds:.1f} s to import; {_IMPORT_LATER}")
        if isinstance(plugin, type) or inspect.isroutine(plugin) or not hasattr(plugin, "__dict__"):
            reason = f"is {plugin!r}, but must be a module, or an object whose methods are hooks"
            raise BrokenPluginError(reason)
        if other := self._manager.get_name(plugin):
            reason = f"is also the plugin {other!r}; remove one of the two entry points"
            raise BrokenPluginError(reason)
        if reason := checks.invalid_schema(getattr(plugin, "settings_schema", {})):
            raise BrokenPluginError(f"defines settings_schema, which {reason}")
        self._register_hooks(name, plugin)

    def _register_hooks(self, name: str, plugin: object) -> None:
        for hook in hookspecs.hook_names():
            marked = self._manager.parse_hookimpl_opts(plugin, hook) is not None
            if not marked and callable(getattr(plugin, hook, None)):
                raise BrokenPluginError(f"defines {hook} without @mastaba.hookimpl; add it")
        with warnings.catch_warnings(record=True) as deprecated:
            warnings.simplefilter("always")
            self._manager.register(plugin, name)
        # Checked after each plugin, so that the message can name it.
        self._manager.check_pending()
        if name != CORE:
            self.warnings[name] += [escaped(str(warning.message)) for warning in deprecated]
        callers = self._manager.get_hookcallers(plugin) or []
        if not callers:
            self.warnings[name].append("implements no hook; mark its hooks with @mastaba.hookimpl")
        for caller in callers:
            for implementation in caller.get_hookimpls():
                if implementation.plugin_name == name:
                    calls.watch(caller.name, implementation, self._checked)

    def _checked(self, hook: str, plugin: str, result: Any, seconds: float) -> Any:
        """Return the result of a hook that a plugin implements, checked."""
        if seconds > calls.SLOW:
            self.warnings[plugin].append(f"takes {seconds:.1f} s in {hook}; {_IMPORT_LATER}")
        if hook == "register_commands":
            self.check_commands(plugin)
        if hook in ("register_commands", "generation_changed"):
            return None
        items = checks.items_of(hook, result)
        self._offered += [(item, plugin) for item in items]
        return items if hook.startswith("register_") else result

    def call(self, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Call a hook; return the plugin and the result of each implementation, in order.

        Raises:
            PluginError: a plugin fails.
        """
        caller = getattr(self._manager.hook, hook)
        wrappers = [one for one in caller.get_hookimpls() if one.wrapper or one.hookwrapper]
        # What no plugin has offered comes from a wrapper.
        outer = wrappers[-1].plugin_name if wrappers else CORE
        self._offered.clear()
        try:
            results = caller(**arguments)
            if not isinstance(results, list):
                raise BrokenPluginError(
                    f"returns {results!r} from its wrapper of {hook}, not a list"
                )
            items = itertools.chain.from_iterable(checks.items_of(hook, one) for one in results)
            return [(self._owner(item, outer), item) for item in items]
        except BaseException as error:
            plugin = culprit(error) or outer
            if plugin == CORE or isinstance(error, FOR_THE_PROGRAM):
                raise
            raise self.error(plugin, error, f"fails in {hook}") from error

    def _owner(self, item: object, outer: str) -> str:
        for position, (offered, plugin) in enumerate(self._offered):
            if offered is item:
                del self._offered[position]
                return plugin
        return outer

    def error(self, plugin: str, error: BaseException, doing: str = "") -> PluginError:
        """Return the error to raise, with the name of the plugin and the remedy.

        Args:
            doing: what the plugin did when it raised an exception.
        """
        kind: type[PluginError] = PluginLoadError
        reason = f"{doing}: {described(error)}"
        if isinstance(error, BrokenPluginError):
            kind, reason = error.kind, str(error)
        source = self.sources[plugin]
        remedy = "" if source is CORE_SOURCE else f". To start without it: --block {source.name}"
        found = kind(escaped(f"{source} {reason}{remedy}"))
        blame(plugin, found)
        return found

    def leave_out(self, error: PluginError) -> None:
        """Unregister the plugin that has raised an error of this class."""
        plugin = culprit(error)
        assert plugin is not None
        if self._manager.has_plugin(plugin):
            self._manager.unregister(name=plugin)
        self.failed[plugin] = error
