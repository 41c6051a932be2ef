"""The plugins of a process: loaded and checked once, at start."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mastaba import LazyClass
from mastaba.errors import (
    ConfigurationError,
    PluginConflictError,
    PluginError,
    PluginLoadError,
)
from mastaba.plugins import checks
from mastaba.plugins.calls import BrokenPluginError
from mastaba.plugins.containment import FOR_THE_PROGRAM, contained
from mastaba.plugins.discovery import Source, given, in_directory, installed
from mastaba.plugins.hooks import CORE, CORE_SOURCE, Hooks
from mastaba.plugins.registry import Registry
from mastaba_storage.environment import Environment

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

    from mastaba.containers.base import Container
    from mastaba.services.base import Service
    from mastaba.slab.stored_indices import IndexStore
    from mastaba.variants import VariantTable
    from mastaba_render.encoder import Encoder
    from mastaba_server.access.gate import Gate, Identifier, Meter
    from mastaba_storage.base import Storage

_WORDS: Final = (
    ("wsgi_middleware", "middleware"),
    ("access_gate", "access"),
    ("request_meters", "meter"),
    ("generation_changed", "changes"),
)


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """One plugin, as ``mastaba plugins`` shows it.

    Attributes:
        name: name of the plugin.
        distribution: distribution or file that contains it.
        version: version of the distribution; empty if there is none.
        provides: features, such as ``service wmts``.
        blocked: whether the operator has blocked the plugin.
        error: why the plugin cannot be used, and what to do; None if it can.
        warnings: what its author should improve.
    """

    name: str
    distribution: str
    version: str
    provides: tuple[str, ...] = ()
    blocked: bool = False
    error: str | None = None
    warnings: tuple[str, ...] = ()


class Plugins:
    """Everything that the core and the installed plugins provide.

    A plugin with a problem is left out completely, and the others are checked without it. So all
    problems are found at once.

    Args:
        blocked: names of plugins that must not be loaded; None for those in
            ``MASTABA_BLOCKED_PLUGINS``.
        extra: additional plugins by name, for tests and embedding.
        autoload: whether installed plugins are loaded.
        directory: directory of plugins that consist of one file; None for the one in
            ``MASTABA_PLUGINS_DIR``, if any.
        tolerant: whether problems are only recorded, in `problems` and `broken`.

    Raises:
        PluginLoadError: a plugin cannot be used; the message contains all problems.
        PluginConflictError: two plugins provide the same name.
    """

    def __init__(
        self,
        blocked: Iterable[str] | None = None,
        extra: Mapping[str, object] | None = None,
        *,
        autoload: bool = True,
        directory: str | None = None,
        tolerant: bool = False,
    ) -> None:
        environment = Environment()
        if blocked is None:
            blocked = environment.items("BLOCKED_PLUGINS") if autoload else ()
        blocked = list(blocked)
        self.blocked = frozenset(blocked) - {CORE}
        self._tolerant = tolerant
        self._general: list[PluginError] = []
        self._commands: defaultdict[str, list[str]] = defaultdict(list)
        self._hooks = Hooks()
        if autoload:
            self._add_sources(installed())
            directory = directory or environment.text("PLUGINS_DIR")
            if directory:
                self._add_directory(directory)
        self._add_sources(given(name, plugin) for name, plugin in (extra or {}).items())
        self._check_blocked(blocked)
        with contained():
            # pluggy calls those first that are registered last: the core, then by name.
            for name in sorted(self._hooks.sources.keys() - self.blocked - {CORE}, reverse=True):
                self._attempt(self._hooks.sources[name])
            self._hooks.register(CORE_SOURCE)
            self._provide_all()
        self._require_no_problem()

    @property
    def problems(self) -> list[str]:
        """Everything that prevents the use of a plugin, with its remedy."""
        failed = [self._hooks.failed[name] for name in sorted(self._hooks.failed)]
        return [str(error) for error in (*self._general, *failed)]

    @property
    def broken(self) -> dict[str, str]:
        """Why plugins are left out, by name, with the remedy."""
        return {name: str(self._hooks.failed[name]) for name in sorted(self._hooks.failed)}

    def require_choice(self) -> None:
        """Check that the choice of plugins can be followed; broken ones are only left out.

        Raises:
            PluginError: a blocked name is unknown, two plugins have the same name, or the directory
                of plugins cannot be read; contains all such problems.
        """
        if self._general:
            raise type(self._general[0])("; ".join(map(str, self._general)))

    def require_all(self) -> None:
        """Check that no plugin has a problem.

        Raises:
            PluginError: one has; contains all problems.
        """
        errors = [*self._general, *self._hooks.failed.values()]
        if errors:
            raise type(errors[0])("; ".join(self.problems))

    @property
    def warnings(self) -> list[str]:
        """What the authors of plugins should improve."""
        return [
            f"{self._hooks.sources[name]} {text}"
            for name, texts in sorted(self._hooks.warnings.items())
            for text in texts
        ]

    @property
    def settings_schemas(self) -> dict[str, Mapping[str, Any]]:
        """JSON schemas of the settings of plugins in server.json, by plugin and setting."""
        return {
            name: schema
            for name, plugin in sorted(self._hooks.registered())
            if (schema := getattr(plugin, "settings_schema", None))
        }

    @property
    def names(self) -> frozenset[str]:
        """Names of the plugins in use, without the core."""
        return frozenset(name for name, _ in self._hooks.registered()) - {CORE}

    def add_commands(
        self, parser: ArgumentParser, subparsers: _SubParsersAction[ArgumentParser]
    ) -> bool:
        """Let every plugin add its commands.

        Returns:
            False if a plugin has failed and is left out; call again, with new parsers.

        Raises:
            PluginLoadError: a plugin has failed, and problems are not only recorded.
        """
        self._commands.clear()
        known = set(subparsers.choices)

        def check(plugin: str) -> None:
            for name in [name for name in subparsers.choices if name not in known]:
                checks.check_command(name, subparsers.choices[name], known)
                self._commands[plugin].append(name)
                known.add(name)
            # Shows now what argparse would find wrong only when help is printed.
            parser.format_help()

        self._hooks.check_commands = check
        try:
            with contained():
                self._hooks.call("register_commands", subparsers=subparsers)
        except PluginError as error:
            self._hooks.leave_out(error)
            self._provide_all()
            self._require_no_problem()
            return False
        return True

    def middleware(self, site: Any) -> list[Callable[[Any], Any]]:
        """Return the WSGI wrappers of all plugins, the outermost first.

        Raises:
            PluginLoadError: a plugin fails to create its wrapper, now or when it is called.
        """
        results = self._hooks.call("wsgi_middleware", site=site)
        return [self._guarded(plugin, wrapper) for plugin, wrapper in results]

    def gate(self, site: Any) -> Gate | None:
        """Return what decides about access, or None if no plugin does.

        Raises:
            ConfigurationError: its settings, or the files that they name, cannot be used.
            PluginConflictError: two plugins do.
            PluginLoadError: a plugin fails.
        """
        try:
            found = self._hooks.call("access_gate", site=site)
        except PluginError as error:
            if isinstance(error.__cause__, ConfigurationError):
                raise error.__cause__ from None
            raise
        if len(found) > 1:
            names = " and ".join(sorted(plugin for plugin, _ in found))
            raise PluginConflictError(
                f"{names} both control access, but only one plugin may; block the others with "
                "--block, or remove their settings"
            )
        return found[0][1] if found else None

    def meters(self, site: Any) -> list[Meter]:
        """Return what counts requests.

        Raises:
            PluginLoadError: a plugin fails.
        """
        return [meter for _, meter in self._hooks.call("request_meters", site=site)]

    def announcements(self, site: Any, changes: Sequence[Any]) -> dict[str, Callable[[], object]]:
        """Return calls of ``generation_changed``, by plugin."""
        return self._hooks.each("generation_changed", site=site, changes=changes)

    def encoder_extensions(self) -> dict[str, tuple[str, ...]]:
        """Return the file name extensions of each encoder, by media type in lower case.

        The name of an encoder is one of them, as in ``.jpeg``. No class is imported.
        """
        names = self.encoders.declared("name")
        return {
            media_type.lower(): tuple(dict.fromkeys((extension, names[media_type])))
            for media_type, extension in self.encoders.declared("extension").items()
        }

    @property
    def _registries(self) -> tuple[Registry[Any], ...]:
        sources = self.storages, self.containers, self.dimensions, self.index_stores
        return self.services, *sources, self.encoders, self.identifiers

    def load_all(self, broken_rules: Callable[[type], Iterable[str]] | None = None) -> list[str]:
        """Import all classes; return the problems of those that cannot be used.

        Args:
            broken_rules: returns further problems of a class, each as the end of a sentence that
                begins with the plugin.
        """
        problems = []
        for registry in self._registries:
            for name in registry:
                try:
                    found = registry[name]
                except PluginError as error:
                    problems.append(str(error))
                    continue
                for reason in broken_rules(found) if broken_rules else ():
                    broken = self._hooks.error(registry.provider(name), BrokenPluginError(reason))
                    problems.append(str(broken))
        return problems

    def listing(self) -> list[PluginInfo]:
        """Return the core and all plugins, including blocked and broken ones, by name."""
        names = sorted(self._hooks.sources, key=lambda name: (name != CORE, name))
        return [self._info(self._hooks.sources[name]) for name in names]

    def _info(self, source: Source) -> PluginInfo:
        name = source.name
        provides = [
            f"{registry.kind} {item}"
            for registry in self._registries
            for item in registry.provided_by(name)
        ]
        provides += [f"command {command}" for command in self._commands[name]]
        provides += [word for hook, word in _WORDS if name in self._hooks.implementing(hook)]
        error = self._hooks.failed.get(name)
        return PluginInfo(
            name,
            source.distribution,
            source.version,
            tuple(provides),
            name in self.blocked,
            None if error is None else str(error),
            tuple(self._hooks.warnings[name]),
        )

    def _add_sources(self, sources: Iterable[Source]) -> None:
        spellings = {name.casefold(): name for name in self._hooks.sources}
        for source in sources:
            other = spellings.setdefault(source.name.casefold(), source.name)
            first = self._hooks.sources.setdefault(other, source)
            # A distribution may be found twice, on two paths.
            if (source.name, source.place) != (first.name, first.place):
                text = (
                    f"duplicate plugin name {source.name!r}: {first.place} from "
                    f"{first.distribution} and {source.place} from {source.distribution}; "
                    "uninstall one of them"
                )
                self._general.append(PluginConflictError(text))

    def _add_directory(self, directory: str) -> None:
        try:
            self._add_sources(in_directory(directory))
        except OSError as error:
            text = (
                f"cannot read the directory of plugins {directory!r}: {error.strerror}; correct "
                "--plugins or MASTABA_PLUGINS_DIR"
            )
            self._general.append(PluginLoadError(text))

    def _check_blocked(self, blocked: Iterable[str]) -> None:
        known = sorted(self._hooks.sources.keys() - {CORE})
        for name in sorted(set(blocked).difference(known)):
            reason = f"no plugin has this name (installed: {', '.join(known) or 'none'})"
            if name == CORE:
                reason = "the core cannot be blocked, only plugins"
            text = f"cannot block {name!r}: {reason}; correct --block or MASTABA_BLOCKED_PLUGINS"
            self._general.append(PluginLoadError(text))

    def _attempt(self, source: Source) -> None:
        try:
            self._hooks.register(source)
        except Exception as error:  # noqa: BLE001 - pluggy reads any attribute of any object
            self._hooks.leave_out(self._hooks.error(source.name, error, "cannot be registered"))

    def _provide_all(self) -> None:
        """Fill the registries; leave out the plugins that prevent it."""
        while True:
            try:
                self.services: Registry[type[Service]] = self._registry(checks.SERVICES)
                self.storages: Registry[type[Storage]] = self._registry(checks.STORAGES)
                self.containers: Registry[type[Container]] = self._registry(checks.CONTAINERS)
                self.dimensions: Registry[type[VariantTable]] = self._registry(checks.DIMENSIONS)
                self.index_stores: Registry[type[IndexStore]] = self._registry(checks.INDEX_STORES)
                self.identifiers: Registry[type[Identifier]] = self._registry(checks.IDENTIFIERS)
                self.encoders: Registry[type[Encoder]] = self._registry(checks.ENCODERS)
            except PluginError as error:
                self._hooks.leave_out(error)
            else:
                return

    def _registry(self, kind: checks.Kind) -> Registry[Any]:
        taken: dict[tuple[str, str], str] = {}
        items = []
        for plugin, item in self._hooks.call(kind.hook):
            try:
                attributes = checks.attributes_of(kind, item)
            except BrokenPluginError as error:
                raise self._hooks.error(plugin, error) from error
            for label, value, may_repeat in checks.unique_values(kind, attributes):
                other = taken.get((label, value.casefold()))
                if other is not None and not (may_repeat and other == plugin):
                    reason = (
                        f"cannot be used: duplicate {label} {value!r}, provided by {other} and "
                        f"{plugin}"
                    )
                    # The core comes first, unless a plugin asks to be called before it.
                    blamed = other if plugin == CORE else plugin
                    raise self._hooks.error(blamed, BrokenPluginError(reason, PluginConflictError))
                taken[label, value.casefold()] = plugin
            items.append((attributes[kind.identifying[0]], item, plugin))
        return Registry(kind.word, items, functools.partial(self._load, kind), self._hooks.failed)

    def _load(self, kind: checks.Kind, item: LazyClass, plugin: str) -> Any:
        try:
            with contained():
                return checks.load_class(kind, item)
        except BrokenPluginError as error:
            raise self._hooks.error(plugin, error) from error.__cause__

    def _guarded(self, plugin: str, wrapper: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def wrap(application: Any) -> Any:
            try:
                wrapped = wrapper(application)
                if not callable(wrapped):
                    raise BrokenPluginError(
                        f"has a middleware that returns {wrapped!r}; return the wrapped application"
                    )
            except FOR_THE_PROGRAM:
                raise
            except BaseException as error:
                raise self._hooks.error(plugin, error, "fails in its middleware") from error
            return wrapped

        return wrap

    def _require_no_problem(self) -> None:
        if not self._tolerant:
            self.require_all()
