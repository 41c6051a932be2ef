"""The command ``mastaba tms``: documents of tile matrix sets."""

from __future__ import annotations

import argparse
import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

_DESCRIPTION = """Write the document of a tile matrix set to standard output, or to a directory.

The levels are those of --cells, or --levels levels that double --cell. The set reaches to the lower
right corner of the area of use of its CRS. Exit status: 0 done, 2 the options do not fit."""


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the parser of the command."""
    parser = subparsers.add_parser("tms", help="make a tile matrix set, or print a packaged one")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    make = actions.add_parser(
        "make",
        help="make a set",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    make.add_argument("--name", help="identifier (default: by the CRS and the finest cell)")
    make.add_argument("--crs", metavar="CODE", help="such as EPSG:2154")
    make.add_argument(
        "--like", type=Path, metavar="FILE", help="CRS and grid of the pixels of a raster"
    )
    cells = make.add_mutually_exclusive_group()
    cells.add_argument("--cell", type=_size, help="size of the finest pixels, CRS units")
    cells.add_argument(
        "--cells", type=_sizes, metavar="CELL,…", help="sizes of the pixels of all levels"
    )
    make.add_argument("--levels", type=int, metavar="COUNT", help="levels of --cell")
    make.add_argument(
        "--origin",
        type=_place,
        metavar="X,Y",
        help="upper left corner of the tiles, CRS units",
    )
    make.add_argument(
        "--posts",
        action="store_true",
        help="shift each level by half of its pixel, so that --origin is the centre of a pixel",
    )
    show = actions.add_parser(
        "show", help="print a packaged set", description="Print a packaged set."
    )
    show.add_argument("name", metavar="NAME", help="as in mastaba build --tms")
    for one in (make, show):
        one.add_argument("--output", type=Path, metavar="DIRECTORY", help="write NAME.json there")
    make.set_defaults(run=_run, act=_made)
    show.set_defaults(run=_run, act=_shown)


def _run(arguments: argparse.Namespace) -> int:
    from mastaba.api.commands import failed
    from mastaba_build.errors import BuildError
    from mastaba_storage.replacing import write_whole

    try:
        document = arguments.act(arguments)
        text = json.dumps(document, indent=2) + "\n"
        if arguments.output is None:
            sys.stdout.write(text)
        else:
            path = arguments.output / f"{document['id']}.json"
            arguments.output.mkdir(parents=True, exist_ok=True)
            write_whole(str(path), text.encode())
            print(path)
    except (BuildError, OSError) as error:
        return failed(
            *str(error).splitlines(), status=getattr(error, "status", 1), name="mastaba tms"
        )
    return 0


def _shown(arguments: argparse.Namespace) -> dict[str, Any]:
    from mastaba_build.plugins import PluginSet
    from mastaba_build.sources.sets import load_set

    return load_set(arguments.name, None, PluginSet())[1]


def _made(arguments: argparse.Namespace) -> dict[str, Any]:
    from mastaba_build.errors import PlanError
    from mastaba_build.sources.grid_sets import Grid, set_of_cells, set_of_grid
    from mastaba_build.sources.sets import known_crs, made_set

    if arguments.like is not None:
        given = (arguments.crs, arguments.cell, arguments.cells, arguments.levels, arguments.origin)
        if arguments.posts or any(one is not None for one in given):
            raise PlanError("--like gives the CRS and the grid; leave out the other options")
        document = _like(arguments)
    elif arguments.crs is None or arguments.cell is arguments.cells is None:
        raise PlanError("state --crs, and --cell or --cells; or --like FILE")
    else:
        crs = known_crs(arguments.crs)
        finest = arguments.cell or arguments.cells[-1]
        x, y = arguments.origin or (Fraction(0), Fraction(0))
        half = finest / 2 if arguments.posts else 0
        grid = Grid.through(crs, finest, x - half, y + half)
        name = arguments.name or grid.name(is_post=arguments.posts)
        if arguments.cells is None and arguments.levels is None and arguments.origin is None:
            document = set_of_grid(grid, name)
        else:
            if arguments.origin is None:
                raise PlanError("state --origin with --levels and --cells")
            count = arguments.levels or 1
            cells = arguments.cells or [finest * 2**level for level in reversed(range(count))]
            origins = [
                (x - cell / 2, y + cell / 2) if arguments.posts else (x, y) for cell in cells
            ]
            document = set_of_cells(name, crs, cells, origins)
    return made_set(document["id"], document)[1]


def _like(arguments: argparse.Namespace) -> dict[str, Any]:
    from mastaba_build.config.access import Access
    from mastaba_build.sources.grid_sets import set_of_grid
    from mastaba_build.sources.native_set import are_posts, grid_of, native_set, rasters_of

    sources = rasters_of(str(arguments.like), Access())
    if arguments.name is not None:
        return set_of_grid(grid_of(sources), arguments.name)
    return native_set(sources, None, is_post=are_posts(sources))[1]


def _size(text: str) -> Fraction:
    try:
        size = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < size < 10**8:
        raise argparse.ArgumentTypeError(f"{text} is not a size")
    return size


def _sizes(text: str) -> list[Fraction]:
    return sorted(map(_size, text.split(",")), reverse=True)


def _place(text: str) -> tuple[Fraction, Fraction]:
    try:
        x, y = map(Fraction, text.split(","))
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"{text!r} is not X,Y") from None
    return x, y
