"""A synthetic world for Mastaba, generated and served by ``mastaba demo``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba import hookimpl

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction


@hookimpl
def register_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``mastaba demo``."""
    from mastaba_demo.command import add_parser

    add_parser(subparsers)
