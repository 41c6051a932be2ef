"""The command line in a tool's process, and its addresses."""

from mastaba.commands.main import http_address, main, require_free

__all__ = ["http_address", "main", "require_free"]
