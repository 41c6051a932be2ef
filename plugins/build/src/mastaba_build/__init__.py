"""The commands ``mastaba build``, from rasters to a published layer, and ``mastaba pyramid``.

`configuration` says what is wanted, `sources` what there is, `plan` which slabs follow from both.
`coordinator` gives slabs to worker processes. In a worker, `task` computes one slab: a bottom slab
from the sources (`drawing`), any other from the quarter images of its children (`quarters`).
`publication` writes the documents when all slabs exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba import hookimpl

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction


@hookimpl
def register_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``mastaba build`` and ``mastaba pyramid``."""
    from mastaba_build import command, pyramid_command

    command.add_parser(subparsers)
    pyramid_command.add_parser(subparsers)
