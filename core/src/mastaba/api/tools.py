"""A whole installation in one process, for tests of plugins."""

from mastaba.api._deprecated import moved_names
from mastaba.plugins.manager import Plugins
from mastaba.site.application import Application
from mastaba.wsgi import create_application

__all__ = ["Application", "Plugins", "create_application"]

__getattr__ = moved_names(
    __name__,
    {
        "mastaba.plugins.manager": "PluginInfo",
        "mastaba.errors": "escaped",
        "mastaba.tooling.memory": "keep_freed_memory",
    },
)
