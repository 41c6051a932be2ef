"""Slippy map tiles for Mastaba: the service ``slippy`` and the command ``slippy-tile``."""

import math
from argparse import ArgumentParser, Namespace, _SubParsersAction

from mastaba import LazyClass, hookimpl


@hookimpl
def register_services() -> list[LazyClass]:
    return [LazyClass("mastaba_slippy_tiles.service:SlippyTiles", name="slippy")]


@hookimpl
def register_commands(subparsers: "_SubParsersAction[ArgumentParser]") -> None:
    parser = subparsers.add_parser("slippy-tile", help="print the z/x/y of a place")
    for name, kind in (("lon", float), ("lat", float), ("zoom", int)):
        parser.add_argument(name, type=kind)
    parser.set_defaults(run=_print_tile)


def _print_tile(arguments: Namespace) -> int:
    tiles = 2**arguments.zoom
    north = math.asinh(math.tan(math.radians(arguments.lat))) / math.pi
    x, y = math.floor((arguments.lon / 360 + 0.5) * tiles), math.floor((1 - north) / 2 * tiles)
    print(f"{arguments.zoom}/{x}/{y}")
    return 0
