"""Finding, loading and listing plugins."""

from __future__ import annotations

import argparse
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pluggy

from mastaba.errors import PluginConflictError, PluginError, PluginLoadError
from mastaba.plugins import builtin, hookspecs
from mastaba.plugins.registry import Registry
from mastaba.render.encoding.base import Encoder
from mastaba.services.base import Service
from mastaba.storage.base import Storage

ENTRY_POINT_GROUP = "mastaba"
BUILT_IN = "core"


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """One installed plugin.

    Attributes:
        name: name of the entry point.
        distribution: distribution that contains the plugin.
        version: version of the distribution.
        provides: features, such as ``service wmts``.
        blocked: whether the operator has blocked the plugin.
        error: why the plugin could not be loaded, or None.
    """

    name: str
    distribution: str
    version: str
    provides: tuple[str, ...] = ()
    blocked: bool = False
    error: str | None = None


class Plugins:
    """Everything that the core and the installed plugins provide.

    Args:
        blocked: names of entry points that must not be loaded.
        extra: additional plugins by name, for tests and embedding.
        autoload: whether the entry points of installed distributions are loaded.

    Raises:
        PluginLoadError: a plugin cannot be imported, or implements an unknown hook.
        PluginConflictError: two plugins provide the same name.
    """

    def __init__(
        self,
        blocked: Iterable[str] = (),
        extra: dict[str, object] | None = None,
        *,
        autoload: bool = True,
    ) -> None:
        self.blocked = frozenset(blocked)
        self._manager = pluggy.PluginManager("mastaba")
        self._manager.add_hookspecs(hookspecs)
        self._register(BUILT_IN, builtin)
        self._entry_points = _installed() if autoload else {}
        for name, entry_point in self._entry_points.items():
            if name not in self.blocked:
                self._register(name, _load(entry_point))
        for name, plugin in (extra or {}).items():
            if name not in self.blocked:
                self._register(name, plugin)

        self.services: Registry[type[Service]] = self._registry(
            "service", "register_services", Service, "name", "title"
        )
        self.storages: Registry[type[Storage]] = self._registry(
            "storage driver", "register_storages", Storage, "name", "container_field"
        )
        self.encoders: Registry[type[Encoder]] = self._registry(
            "encoder", "register_encoders", Encoder, "media_type", "name", "extension"
        )

    def register_commands(self, subparsers: Any) -> None:
        """Let every plugin add its commands.

        Raises:
            PluginLoadError: a plugin fails, for example because the command already exists.
        """
        for _ in self._call_each("register_commands", subparsers=subparsers):
            pass

    def middleware(self, site: Any) -> list[Callable[[Any], Any]]:
        """Return the WSGI wrappers of all plugins, the outermost first.

        Raises:
            PluginLoadError: a plugin fails to create its wrapper.
        """
        return [wrapper for _, wrapper in self._call_each("wsgi_middleware", site=site) if wrapper]

    def listing(self) -> list[PluginInfo]:
        """Return the core and all installed plugins, including blocked ones, by name."""
        infos = [self._info(BUILT_IN, "mastaba")]
        for name, entry_point in self._entry_points.items():
            distribution = entry_point.dist.name if entry_point.dist else "?"
            infos.append(self._info(name, distribution, entry_point.dist))
        return infos

    def _info(
        self, name: str, distribution: str, found: importlib.metadata.Distribution | None = None
    ) -> PluginInfo:
        version = found.version if found else importlib.metadata.version(distribution)
        if name in self.blocked:
            return PluginInfo(name, distribution, version, blocked=True)
        provides = [
            f"{registry.kind} {item}"
            for registry in (self.services, self.storages, self.encoders)
            for item in registry.provided_by(name)
        ]
        for hook, word in (("register_commands", "commands"), ("wsgi_middleware", "middleware")):
            if name in self._implementers(hook):
                provides.append(word)
        return PluginInfo(name, distribution, version, tuple(provides))

    def _register(self, name: str, plugin: object) -> None:
        try:
            self._manager.register(plugin, name)
            # Checked after each plugin, so that the message can name it.
            self._manager.check_pending()
        except (ValueError, pluggy.PluginValidationError) as error:
            raise PluginLoadError(f"the plugin {name!r} cannot be used: {error}") from error

    def _implementers(self, hook: str) -> list[str]:
        """Return the names of the plugins that implement a hook, the core first."""
        found = getattr(self._manager.hook, hook).get_hookimpls()
        return sorted(
            {implementation.plugin_name for implementation in found},
            key=lambda name: (name != BUILT_IN, name),
        )

    def _call_each(self, hook: str, **arguments: Any) -> Iterator[tuple[str, Any]]:
        """Yield the name and the result of each plugin that implements a hook.

        Raises:
            PluginLoadError: a plugin fails; the message names it.
        """
        for name in self._implementers(hook):
            others = [plugin for other, plugin in self._manager.list_name_plugin() if other != name]
            call = self._manager.subset_hook_caller(hook, others)
            try:
                results = call(**arguments)
            except Exception as error:
                raise PluginLoadError(
                    f"the plugin {name!r} fails in {hook}: {type(error).__name__}: {error}"
                ) from error
            for result in results:
                yield name, result

    def _registry(self, kind: str, hook: str, base: type, *attributes: str) -> Registry[Any]:
        """Return the classes that plugins provide, by the value of their first attribute.

        Args:
            kind: kind of the classes, for messages.
            hook: name of the hook.
            base: required base class.
            attributes: names of required class attributes.
        """
        items: list[tuple[str, Any, str]] = []
        for plugin, result in self._call_each(hook):
            try:
                found = list(result)
            except Exception as error:
                raise PluginLoadError(
                    f"the plugin {plugin!r} fails in {hook}: {type(error).__name__}: {error}"
                ) from error
            for item in found:
                if not (isinstance(item, type) and issubclass(item, base)):
                    raise PluginLoadError(
                        f"the plugin {plugin!r} returns {item!r} from {hook}, "
                        f"which is not a subclass of {base.__name__}"
                    )
                missing = [name for name in attributes if not hasattr(item, name)]
                if missing:
                    raise PluginLoadError(
                        f"the plugin {plugin!r} returns the class {item.__name__} from {hook}, "
                        f"which does not define {', '.join(missing)}"
                    )
                items.append((getattr(item, attributes[0]), item, plugin))
        return Registry(kind, items)


def diagnose(blocked: Sequence[str] = ()) -> list[PluginInfo]:
    """Return the listing of installed plugins, some of which may be broken.

    A plugin that cannot be loaded is listed with its error. Conflicts are found by loading the
    plugins one by one.

    Raises:
        PluginConflictError: two distributions have entry points with the same name.
    """
    broken: dict[str, str] = {}
    names = [name for name in _installed() if name not in blocked]
    excluded = [*blocked, *names]
    plugins = Plugins(excluded)
    for name in names:
        excluded.remove(name)
        try:
            plugins = Plugins(excluded)
            plugins.register_commands(argparse.ArgumentParser().add_subparsers())
        except PluginError as error:
            broken[name] = str(error)
            excluded.append(name)
    infos = []
    for info in plugins.listing():
        if info.name in broken:
            info = PluginInfo(info.name, info.distribution, info.version, error=broken[info.name])
        infos.append(info)
    return infos


def _installed() -> dict[str, importlib.metadata.EntryPoint]:
    found: dict[str, importlib.metadata.EntryPoint] = {}
    for entry_point in sorted(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)):
        other = found.get(entry_point.name)
        if other is not None and other.value != entry_point.value:
            raise PluginConflictError(
                f"duplicate plugin name {entry_point.name!r}: "
                f"{_described(other)} and {_described(entry_point)}"
            )
        found[entry_point.name] = entry_point
    return found


def _described(entry_point: importlib.metadata.EntryPoint) -> str:
    distribution = f" from {entry_point.dist.name}" if entry_point.dist else ""
    return f"{entry_point.value}{distribution}"


def _load(entry_point: importlib.metadata.EntryPoint) -> ModuleType:
    distribution = f" from {entry_point.dist.name}" if entry_point.dist else ""
    try:
        plugin: ModuleType = entry_point.load()
    except (Exception, SystemExit) as error:
        raise PluginLoadError(
            f"the plugin {entry_point.name!r}{distribution} cannot be imported "
            f"({entry_point.value}): {type(error).__name__}: {error}"
        ) from error
    return plugin
