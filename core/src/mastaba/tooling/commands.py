"""The command line in a tool's process, and its addresses."""

from mastaba.commands.main import http_address, main
from mastaba_server.transport.listener import require_free

__all__ = ["http_address", "main", "require_free"]
