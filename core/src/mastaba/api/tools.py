"""A whole installation in one process, for tools and tests that open one."""

from mastaba.errors import escaped
from mastaba.plugins.manager import PluginInfo, Plugins
from mastaba.site.allocator import keep_freed_memory
from mastaba.site.application import Application
from mastaba.wsgi import create_application

__all__ = [
    "Application",
    "PluginInfo",
    "Plugins",
    "create_application",
    "escaped",
    "keep_freed_memory",
]
