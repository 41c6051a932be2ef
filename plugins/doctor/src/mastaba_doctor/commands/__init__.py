"""Commands of this plugin, one module each, which is imported when the command runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final

from mastaba.api.commands import add_server_json

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

DEFAULT_SAMPLES: Final = 2
_MAX_DIGITS: Final = 10


def add_parsers(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``check``, ``tile``, ``slab`` and ``convert-services``."""
    _add_check(subparsers)
    _add_tile(subparsers)
    _add_slab(subparsers)
    _add_convert_services(subparsers)


def _add_check(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    parser = subparsers.add_parser("check", help="report all problems of a configuration")
    add_server_json(parser)
    parser.add_argument(
        "--deep",
        action="store_true",
        help="also open storages, decode some tiles, send requests to the port and the public "
        "addresses",
    )
    parser.add_argument(
        "--samples",
        type=int,
        metavar="N",
        help=f"with --deep: slabs of each level ({DEFAULT_SAMPLES} by default)",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.set_defaults(run=_run_of("check"), without_broken_plugins=True)


def _add_tile(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "tile",
        help="show where a tile is stored, or why it is missing",
        description="Shows where a tile is stored, or why it is missing. The command reads the "
        "files: a running server may have older indices and limits.",
    )
    add_server_json(parser)
    parser.add_argument("layer", metavar="LAYER")
    parser.add_argument("set", metavar="SET", help="tile matrix set of the layer")
    parser.add_argument("matrix", metavar="MATRIX", help="level")
    parser.add_argument("row", metavar="ROW", type=_tile_index, help="0 is the northernmost")
    parser.add_argument("col", metavar="COL", type=_tile_index, help="0 is the westernmost")
    parser.set_defaults(run=_run_of("tile"))


def _add_slab(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    parser = subparsers.add_parser("slab", help="show the contents of a slab")
    parser.add_argument("slab", metavar="FILE", help="path of a slab, or s3://bucket/name")
    parser.add_argument("--list", action="store_true", help="list the tiles")
    parser.add_argument("--tile", type=int, metavar="N", help="decode this tile")
    parser.add_argument(
        "--out",
        metavar="PATH",
        help="write the tile: an image (.png, .jpg, .tif, .webp), or the bytes as stored",
    )
    parser.set_defaults(run=_run_of("slab"))


def _add_convert_services(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "convert-services", help="convert a services.json of ROK4 version 6 to version 7"
    )
    parser.add_argument("old", metavar="OLD", help="services.json of version 6")
    parser.add_argument(
        "new", metavar="NEW", nargs="?", help="file to write; standard output by default"
    )
    parser.set_defaults(run=_run_of("convert_services"))


def _tile_index(text: str) -> int:
    """Return a tile row or column.

    Raises:
        argparse.ArgumentTypeError: it is not a non-negative integer.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 on")
    return int(text)


def _run_of(module: str) -> Callable[[argparse.Namespace], int]:
    def run(arguments: argparse.Namespace) -> int:
        status: int = import_module(f"{__name__}.{module}").run(arguments)
        return status

    return run
