"""What subcommands of ``mastaba`` share."""

from mastaba.commands.main import add_server_json, http_address, main, require_free
from mastaba.commands.output import USAGE, print_json

__all__ = ["USAGE", "add_server_json", "http_address", "main", "print_json", "require_free"]
