"""The command ``mastaba``."""

from __future__ import annotations

import argparse
import gc
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from mastaba import __version__
from mastaba.commands import plugins
from mastaba.commands.output import USAGE, failed, print_json
from mastaba.config import SCHEMA_NAMES
from mastaba.errors import PluginError, reason_of
from mastaba.plugins.manager import Plugins
from mastaba_storage.environment import Environment

_DEFAULT_FILE = "../config/server.json"
_INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """Parser that prints the usage, then the error after the name of the command."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    # Python has no stream for a descriptor that was closed before the start.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - stays open
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as above
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names in files may contain characters that the terminal cannot show.
            stream.reconfigure(errors="backslashreplace")
    # What is loaded now stays: to search it for garbage would only delay the start.
    gc.disable()
    try:
        status = _run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("\nmastaba: interrupted\n")
        return _INTERRUPTED
    except OSError as error:
        # The disk is full, or the reader, such as ``head``, has exited. Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            failed(": ".join(filter(None, (error.filename, reason_of(error)))))
        return 1
    finally:
        gc.enable()
    return status


def _run(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _before_command(arguments)
    early = _early_parser().parse_known_args(options)[0]
    blocked = [*Environment().items("BLOCKED_PLUGINS"), *early.block]
    installed = Plugins(blocked, directory=early.plugins_directory, tolerant=True)
    # A server needs none of the commands of plugins. The help lists them.
    is_serving = options == arguments and not {"-h", "--help", "--version"} & {*options}
    parser = _parser(installed, with_commands=not is_serving)
    try:
        parsed = parser.parse_args(arguments)
    except SystemExit:
        # After the help, the version or an unknown command.
        failed(*installed.problems)
        raise
    run = getattr(parsed, "run", None)
    try:
        _require_plugins(installed, parsed)
    except PluginError:
        return failed(*installed.problems)
    if run is None:
        if parsed.command is not None:
            parser.error(f"{parsed.command} needs a command of its own, see --help")
        # Imported here, like the other commands, because listing plugins must be quick.
        if sys.platform == "linux":
            from mastaba.commands import serve

            run = serve.run
        else:
            from mastaba.commands import development

            run = development.run
    else:
        gc.enable()
    try:
        return int(run(parsed))
    except PluginError as error:
        return failed(error)


def _require_plugins(installed: Plugins, parsed: argparse.Namespace) -> None:
    """Check the plugins, if the command needs them.

    Raises:
        PluginError: they have a problem that prevents it.
    """
    # It shows which plugin is broken.
    if parsed.command == "plugins":
        return
    installed.require_choice()
    # A server goes on without a broken plugin, and so does what examines one.
    if parsed.command is not None and not getattr(parsed, "without_broken_plugins", False):
        installed.require_all()


def _print_schema(arguments: argparse.Namespace) -> int:
    from mastaba.config.schema import schema

    print_json(schema(arguments.name, arguments.plugins))
    return 0


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


def _before_command(arguments: list[str]) -> list[str]:
    """Return the options before the command, where those are that decide which commands exist."""
    end = 0
    while end < len(arguments) and arguments[end].startswith("-"):
        end += 2 if arguments[end] in ("--block", "--plugins", "--http", "-f") else 1
    return arguments[:end]


def _early_parser(*, add_help: bool = False) -> argparse.ArgumentParser:
    """Return a parser of the options that decide which plugins are loaded."""
    parser = _Parser(
        prog="mastaba",
        description="Serves maps from slab pyramids. Without a command: FastCGI on the port of "
        "server.json, or HTTP with --http.",
        allow_abbrev=False,
        add_help=add_help,
    )
    parser.add_argument(
        "--block",
        action="append",
        default=[],
        metavar="PLUGIN",
        help="do not load this plugin (also: MASTABA_BLOCKED_PLUGINS)",
    )
    parser.add_argument(
        "--plugins",
        dest="plugins_directory",
        metavar="DIRECTORY",
        help="load the plugins in this directory, a file each (also: MASTABA_PLUGINS_DIR)",
    )
    return parser


def _parser(installed: Plugins, *, with_commands: bool) -> argparse.ArgumentParser:
    """Return the parser, also with the commands of all usable plugins if they are wanted."""
    while True:
        parser = _early_parser(add_help=True)
        add_server_json(parser, _DEFAULT_FILE)
        parser.add_argument(
            "--http", type=http_address, metavar="HOST:PORT", help="serve HTTP instead of FastCGI"
        )
        parser.add_argument("--version", action="version", version=f"mastaba {__version__}")
        parser.set_defaults(plugins=installed)
        commands = parser.add_subparsers(metavar="COMMAND", dest="command")
        plugins.add_parser(commands)
        printing = commands.add_parser("schema", help="print the JSON schema of a file")
        printing.add_argument("name", choices=SCHEMA_NAMES)
        printing.set_defaults(run=_print_schema)
        if not with_commands or installed.add_commands(parser, commands):
            return parser
