"""The commands ``mastaba access``, ``mastaba key`` and ``mastaba sign``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction


def add_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add all commands."""
    from mastaba_access.commands import access, key, sign

    access.add(subparsers)
    key.add(subparsers)
    sign.add(subparsers)
