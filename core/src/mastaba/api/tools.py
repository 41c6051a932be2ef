"""A whole installation in one process, for tests of plugins."""

from mastaba.api._deprecated import former_names
from mastaba.plugins.manager import Plugins
from mastaba.site.application import Application
from mastaba.wsgi import create_application

__all__ = ["Application", "Plugins", "create_application"]

__getattr__ = former_names(
    __name__,
    {
        "PluginInfo": ("mastaba.plugins.manager.PluginInfo", "2.0"),
        "escaped": ("mastaba.errors.escaped", "2.0"),
        "keep_freed_memory": ("mastaba.tooling.memory.keep_freed_memory", "2.0"),
    },
)
