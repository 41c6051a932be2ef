"""Commands that examine a configuration, a slab or a tile; a serving process needs none of them.

``mastaba check`` reports the problems of a configuration. With ``--deep``, it also examines
whether the configuration works: each module here examines one subject and returns faults, and
`examination.examine` runs them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba import hookimpl

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction


@hookimpl
def register_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``check``, ``tile``, ``slab`` and ``convert-services``."""
    from mastaba_doctor.commands import add_parsers

    add_parsers(subparsers)
