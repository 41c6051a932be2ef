"""The plugins of this process: those of the command line, or else those of the environment."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mastaba.api.tools import Plugins

_given: list[Plugins] = []


def use(plugins: Plugins, directory: str | None = None) -> None:
    """Use the plugins that the command line has loaded, here and in worker processes.

    Args:
        directory: from which it has loaded plugins, if any.
    """
    _given[:] = [plugins]
    os.environ["MASTABA_BLOCKED_PLUGINS"] = ",".join(sorted(plugins.blocked))
    if directory is not None:
        os.environ["MASTABA_PLUGINS_DIR"] = os.path.abspath(directory)


def installed() -> Plugins:
    """Return the plugins of this process."""
    return _given[0] if _given else _from_environment()


@cache
def _from_environment() -> Plugins:
    # Imported here, because it loads the server; the command line gives its plugins.
    from mastaba.api.tools import Plugins

    return Plugins()
