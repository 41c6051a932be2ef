"""The command ``mastaba serve``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

_ADDRESS = "127.0.0.1:8080"
_NAME = "mastaba serve"


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the parser of the command."""
    parser = subparsers.add_parser(
        "serve",
        help="serve files on a map at once, without a configuration",
        description="Serve a layer of each file over HTTP, by all services that are installed, "
        "until Ctrl+C. Nothing is written beside the files.",
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="pyramid descriptor or archive: a path, or an address such as s3://bucket/a.pmtiles; "
        "or a folder of COGs, or a table of them",
    )
    from mastaba.tooling.commands import http_address

    parser.add_argument(
        "--http",
        type=http_address,
        default=_ADDRESS,
        metavar="HOST:PORT",
        help=f"address to serve on (default: {_ADDRESS})",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve the files.

    Returns:
        the exit status: 0 after a graceful stop, 1 if a file cannot be opened or the address is
        not available.
    """
    from mastaba.api.commands import failed
    from mastaba.errors import ListenError, MastabaError
    from mastaba.tooling.commands import require_free, serve
    from mastaba_serve.installation import InvalidFileError, check, write

    with tempfile.TemporaryDirectory(prefix="mastaba-serve-") as folder:
        try:
            require_free(arguments.http)
            server_json = write(Path(folder), arguments.files, f"http://{arguments.http}")
            check(server_json, arguments.plugins, arguments.files)
        except ListenError as error:
            return failed(f"{error}; choose another address with --http", name=_NAME)
        except InvalidFileError as error:
            return failed(error, name=_NAME)
        except (MastabaError, OSError) as error:
            return failed(f"the files cannot be served: {error}", name=_NAME)
        sys.stdout.write(
            f"Open http://{arguments.http}/viewer in a browser. Press Ctrl+C to stop.\n"
        )
        sys.stdout.flush()
        return serve(server_json, arguments)
