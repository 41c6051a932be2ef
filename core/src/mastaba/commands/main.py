"""The command ``mastaba``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from mastaba import __version__
from mastaba.commands import plugins, schema, serve
from mastaba.commands.output import USAGE
from mastaba.config.schema import SCHEMA_NAMES
from mastaba.environment import Environment
from mastaba.errors import PluginError
from mastaba.plugins.manager import Plugins

_DEFAULT_FILE = "../config/server.json"
_INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """Parser that prints the usage, then the error after the name of the command."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names in files may contain characters that the terminal cannot show.
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("\nmastaba: interrupted\n")
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader, such as ``head``, has exited. Python flushes once more at exit.
        with open(os.devnull, "w", encoding="utf-8") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())
        return 1
    return status


def _run(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    blocked = Environment().items("BLOCKED_PLUGINS")
    blocked += _parser(None).parse_known_args(_before_command(arguments))[0].block
    try:
        parser = _parser(Plugins(blocked))
    except PluginError as error:
        # ``mastaba plugins`` must run: it shows which plugin is broken.
        if "plugins" not in arguments:
            sys.stderr.write(f"mastaba: {error}\n")
            return 1
        parser = _parser(None)
    parsed = parser.parse_args(arguments)
    parsed.block = blocked
    status: int = parsed.run(parsed)
    return status


def http_address(text: str) -> str:
    """Return the value of the option ``--http``: HOST:PORT, or the path of a Unix socket.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    # A plain word more likely lacks a port than names a socket in the working directory.
    if ":" not in text and "/" not in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form HOST:PORT")
    return text


def add_server_json(parser: argparse.ArgumentParser, default: str = argparse.SUPPRESS) -> None:
    """Add the option ``-f SERVER_JSON``.

    Args:
        default: suppressed in the parser of a command, where it would replace a value that is
            given before the command.
    """
    parser.add_argument(
        "-f",
        dest="file",
        default=default,
        metavar="SERVER_JSON",
        help=f"configuration, {_DEFAULT_FILE} by default",
    )


def require_free(address: str) -> None:
    """Check that a server can listen on an address now.

    Raises:
        ListenError: it cannot.
    """
    # Imported here: commands that do not serve need no transport.
    from mastaba.server.listener import open_listener

    open_listener(address).close()


def _before_command(arguments: list[str]) -> list[str]:
    """Return the options ``--block NAME``, which decide which commands exist."""
    return [
        word
        for position, word in enumerate(arguments)
        if word == "--block"
        or word.startswith("--block=")
        or (position and arguments[position - 1] == "--block")
    ]


def _parser(installed: Plugins | None) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mastaba",
        description="Serves maps from slab pyramids. Without a command: FastCGI on the port of "
        "server.json, or HTTP with --http.",
        allow_abbrev=False,
    )
    add_server_json(parser, _DEFAULT_FILE)
    parser.add_argument(
        "--http", type=http_address, metavar="HOST:PORT", help="serve HTTP instead of FastCGI"
    )
    parser.add_argument(
        "--block",
        action="append",
        default=[],
        metavar="PLUGIN",
        help="do not load this plugin (also: MASTABA_BLOCKED_PLUGINS)",
    )
    parser.add_argument("--version", action="version", version=f"mastaba {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")

    listing = commands.add_parser("plugins", help="list what is installed")
    listing.set_defaults(run=plugins.run)
    if installed is None:
        return parser

    parser.set_defaults(plugins=installed, run=serve.run)
    printing = commands.add_parser("schema", help="print the JSON schema of a file")
    printing.add_argument("name", choices=SCHEMA_NAMES)
    printing.set_defaults(run=schema.run)
    installed.register_commands(commands)
    return parser
