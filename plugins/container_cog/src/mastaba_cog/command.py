"""The command ``mastaba mosaic heads``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

_NAME = "mastaba mosaic"


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the parser of the command."""
    parser = subparsers.add_parser("mosaic", help="prepare the table of a mosaic of COGs")
    commands = parser.add_subparsers(dest="mosaic_command", required=True)
    heads = commands.add_parser(
        "heads",
        help="put the first bytes of all files into the table",
        description="Write the version and the first bytes of each file into the columns version "
        "and header of a table in GeoPackage, as gdaltindex makes it. Then a server reads nothing "
        "to open a file. Repeat it after files were replaced; until then, these are read as usual.",
    )
    heads.add_argument("table", type=Path, metavar="TABLE.gpkg", help="table in the file system")
    heads.add_argument("--layer", help="table of features, if the file has several")
    heads.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the heads.

    Returns:
        the exit status: 0; 1 if the table cannot be written, or if a file has no head.
    """
    import sqlite3

    from mastaba.api.commands import failed
    from mastaba.api.storages import Environment, ResourcePath, Storage, StoragePool
    from mastaba.errors import MastabaError
    from mastaba_cog.errors import CogError
    from mastaba_cog.mosaic.heads import write_heads

    pool = StoragePool(arguments.plugins.storages, Environment())

    def open_storage(path: ResourcePath) -> Storage:
        return pool.open(path.storage, path.container)

    is_complete = True
    try:
        for problem in write_heads(arguments.table, arguments.layer, open_storage):
            is_complete = False
            failed(problem, name=_NAME)
    except (CogError, MastabaError, OSError, sqlite3.Error) as error:
        return failed(f"{arguments.table}: {error}", name=_NAME)
    finally:
        pool.close()
    return 0 if is_complete else 1
