"""The command line in a tool's process, and its addresses."""

from __future__ import annotations

import argparse
from pathlib import Path

from mastaba.commands.main import http_address, main
from mastaba_server.transport.listener import require_free

__all__ = ["http_address", "main", "require_free", "serve"]


def serve(server_json: Path, arguments: argparse.Namespace) -> int:
    """Serve an installation that a command has written until a stop signal; return the status.

    Args:
        arguments: of the command, with its ``http`` and the choice of plugins.
    """
    blocked = [word for name in arguments.block for word in ("--block", name)]
    directory = arguments.plugins_directory
    files = [] if directory is None else ["--plugins", directory]
    return main(["-f", str(server_json), "--http", arguments.http, *blocked, *files])
