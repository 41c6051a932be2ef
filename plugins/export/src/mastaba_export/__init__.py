"""The command ``mastaba export``: an area of a layer as an archive, a COG or a smaller pyramid.

`request` says what is wanted, `plan` what follows from it for a layer, `run` writes it. `writers`
contains one module for each format of archives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba import hookimpl

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction


@hookimpl
def register_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``mastaba export``."""
    from mastaba_export.command import add_parser

    add_parser(subparsers)
