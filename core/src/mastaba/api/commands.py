"""What subcommands of ``mastaba`` share."""

from mastaba.api._deprecated import moved_names
from mastaba.commands.main import add_server_json
from mastaba.commands.output import USAGE, failed, print_json

__all__ = ["USAGE", "add_server_json", "failed", "print_json"]

__getattr__ = moved_names(__name__, {"mastaba.tooling.commands": "http_address main require_free"})
