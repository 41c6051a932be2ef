"""The commands ``mastaba build``, from rasters to a published layer, ``pyramid`` and ``tms``.

`config` says what is wanted, `sources` what there is, `plan` which slabs follow from both. `work`
gives slabs to worker processes. There `pixels` computes one slab: a bottom slab from the sources,
any other from the quarter images of its children. `output` and `pyramid` write the documents when
all slabs exist. `vector` does the same for vector tiles. `commands` is the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba import hookimpl

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction


@hookimpl
def register_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``mastaba build``, ``mastaba pyramid`` and ``mastaba tms``."""
    from mastaba_build.commands import build, pyramid, tms

    for command in (build, pyramid, tms):
        command.add_parser(subparsers)
