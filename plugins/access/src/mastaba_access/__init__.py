"""Plugin for Mastaba that decides who may see what: rules, keys, signed addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba import hookimpl
from mastaba_access.settings import SETTINGS_SCHEMA

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

settings_schema = SETTINGS_SCHEMA


@hookimpl
def register_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    from mastaba_access.commands import add_commands

    add_commands(subparsers)
