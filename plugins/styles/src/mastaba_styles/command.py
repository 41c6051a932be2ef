"""The command ``mastaba styles glyphs``."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

_NAME = "mastaba styles"


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the parser of the command."""
    parser = subparsers.add_parser("styles", help="prepare fonts for the labels of maps")
    commands = parser.add_subparsers(dest="styles_command", required=True)
    glyphs = commands.add_parser(
        "glyphs",
        help="make the glyphs of font files",
        description="Write the glyphs of font files (TrueType, OpenType) as ranges of distance "
        "fields, FONT/0-255.pbf and so on, which MapLibre draws labels from. "
        "Needs mastaba-styles[fonts].",
    )
    glyphs.add_argument("fonts", nargs="+", type=Path, metavar="FONT", help="font file")
    glyphs.add_argument(
        "--to",
        required=True,
        type=Path,
        metavar="DIRECTORY",
        help="directory of the setting fonts in the section stylesheets",
    )
    glyphs.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the ranges of fonts.

    Returns:
        the exit status: 0, or 1 if a font cannot be read or a file cannot be written.
    """
    from mastaba.api.commands import failed
    from mastaba.errors import StorageError, escaped

    if find_spec("fontTools") is None:
        return failed("install mastaba-styles[fonts], which reads font files", name=_NAME)
    from mastaba_storage.replacing import write_whole
    from mastaba_styles.fonts import made_ranges

    try:
        for path in arguments.fonts:
            for name, ranges in made_ranges(path).items():
                # Names are from the file: they must not lead elsewhere.
                folder = arguments.to / name.replace("/", "_").replace(",", "_").lstrip(".")
                folder.mkdir(parents=True, exist_ok=True)
                for first, data in ranges.items():
                    # A server may read it meanwhile.
                    write_whole(str(folder / f"{first}-{first + 255}.pbf"), data)
                print(escaped(f"{folder}: {len(ranges)} ranges"))
    except (OSError, ValueError, StorageError) as error:
        return failed(error, name=_NAME)
    return 0
