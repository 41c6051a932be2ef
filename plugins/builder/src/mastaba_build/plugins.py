"""The plugins of a build, which all processes that take part in it load."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from jsonschema_rs import Draft202012Validator

from mastaba.api.storages import Environment
from mastaba_build.errors import PlanError

if TYPE_CHECKING:
    from mastaba.api.tools import Plugins


@dataclass(frozen=True, slots=True)
class PluginSet:
    """Which plugins a build uses.

    It is passed from the command to everything that needs plugins, and with the plan to worker
    processes. A process loads the plugins of a set when it first needs them, and only once.

    Attributes:
        blocked: names of plugins that are not loaded; None for those that the environment names.
        directory: absolute path of a directory of plugins; None for that of the environment, if
            any.
    """

    blocked: frozenset[str] | None = None
    directory: str | None = None

    @classmethod
    def of_command(cls, plugins: Plugins, directory: str | None) -> Self:
        """Return the set that the command line has loaded.

        Args:
            directory: value of ``--plugins``, if given.
        """
        directory = directory or Environment().text("PLUGINS_DIR")
        found = cls(plugins.blocked, os.path.abspath(directory) if directory else None)
        _loaded[found] = plugins
        return found

    def load(self) -> Plugins:
        """Return the plugins.

        Raises:
            PlanError: the directory does not exist on this machine.
            PluginError: a plugin that the environment names cannot be used.
        """
        with _lock:
            if self not in _loaded:
                # Imported here: it loads the server, and most builds need no plugin.
                from mastaba.api.tools import Plugins

                if self.directory is not None and not os.path.isdir(self.directory):
                    raise PlanError(
                        f"cannot read the directory of plugins {self.directory}; it must be shared "
                        "by all workers"
                    )
                # The command has reported the problems; other machines may have fewer plugins.
                is_checked = self.blocked is not None
                _loaded[self] = Plugins(self.blocked, directory=self.directory, tolerant=is_checked)
            return _loaded[self]

    def problems(self, kind: str, document: Any) -> Iterator[tuple[str, str]]:
        """Yield the place and the reason of each violation of a schema of the server.

        Args:
            kind: name of the schema, as ``pyramid``.
        """
        from mastaba.tooling.documents import schema

        for error in Draft202012Validator(schema(kind, self.load())).iter_errors(document):
            yield "/".join(map(str, error.instance_path)), error.message


OF_ENVIRONMENT = PluginSet()
"""The plugins that this process finds itself."""
_loaded: dict[PluginSet, Plugins] = {}
_lock = threading.Lock()
