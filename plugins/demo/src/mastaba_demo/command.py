"""The command ``mastaba demo``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

_ADDRESS = "127.0.0.1:8080"


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the parser of the command."""
    parser = subparsers.add_parser(
        "demo",
        help="generate a synthetic world and serve it",
        description="Generate a synthetic world, unless it exists, and serve it over HTTP. "
        "Files of the configuration that you have edited stay as they are.",
    )
    parser.add_argument(
        "directory",
        nargs="?",
        type=Path,
        default=Path("demo-data"),
        metavar="DIRECTORY",
        help="directory of the world (default: ./demo-data)",
    )
    from mastaba.tooling.commands import http_address

    parser.add_argument(
        "--http",
        type=http_address,
        default=_ADDRESS,
        metavar="HOST:PORT",
        help=f"address to serve on (default: {_ADDRESS})",
    )
    parser.add_argument("--no-serve", action="store_true", help="generate only")
    parser.add_argument(
        "--archives",
        action="store_true",
        help="add layers from archives of the world: PMTiles, MBTiles, COG, and slabs above a COG",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Generate the world, unless it exists, and serve it.

    Returns:
        the exit status: 0 after a graceful stop, 1 if the files cannot be written or the address
        is not available, 130 if the generation is interrupted.
    """
    # Imported here because every command of the command line would load the generator otherwise.
    from mastaba.errors import ListenError
    from mastaba.tooling.commands import require_free, serve
    from mastaba_demo.archives import write_archives
    from mastaba_demo.generation import generate
    from mastaba_demo.installation import PYRAMIDS, write_demo_installation
    from mastaba_demo.settings import Settings
    from mastaba_writer.progress import ProgressBar

    directory: Path = arguments.directory
    try:
        if not arguments.no_serve:
            # Generating takes a minute: check first.
            require_free(arguments.http)
        directory.mkdir(parents=True, exist_ok=True)
        generate(directory / PYRAMIDS, Settings(), ProgressBar("Generating the world", sys.stderr))
        address = f"http://{arguments.http}"
        server_json = write_demo_installation(directory, address, _report_kept)
        if arguments.archives:
            for problem in write_archives(directory, server_json):
                sys.stderr.write(f"mastaba demo: {problem}\n")
            server_json = write_demo_installation(directory, address, _report_kept)
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted: temporary files were removed.\n")
        return 130
    except ListenError as error:
        sys.stderr.write(f"mastaba demo: {error}; choose another address with --http\n")
        return 1
    except OSError as error:
        reason = f"cannot write {directory}: {error.strerror or error}"
        sys.stderr.write(f"mastaba demo: {reason}; choose another directory\n")
        return 1
    if arguments.no_serve:
        sys.stdout.write(f"{server_json}\n")
        return 0
    sys.stdout.write(f"Open http://{arguments.http}/viewer in a browser. Press Ctrl+C to stop.\n")
    sys.stdout.flush()
    return serve(server_json, arguments)


def _report_kept(path: Path) -> None:
    sys.stderr.write(f"Kept as edited: {path} (delete it to have it written again)\n")
