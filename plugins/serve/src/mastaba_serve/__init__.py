"""``mastaba serve FILE…``: opens pyramids and archives on a map, without a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba import hookimpl

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction


@hookimpl
def register_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``mastaba serve``."""
    from mastaba_serve.command import add_parser

    add_parser(subparsers)
