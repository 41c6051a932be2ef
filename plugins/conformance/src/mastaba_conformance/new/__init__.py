"""``mastaba new``: a complete distribution for a new plugin, from templates.

This is the plugin of Mastaba that the kit contains. A server loads nothing else of the kit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mastaba import hookimpl

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction

KINDS: Final = ("storage", "service", "encoder", "container")


@hookimpl
def register_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``new``."""
    parser = subparsers.add_parser(
        "new",
        help="write a new plugin: a distribution with tests that pass",
        description="Writes a complete distribution for a new plugin: a working storage driver, "
        "service, encoder or container, with conformance tests and a workflow for GitHub.",
    )
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument(
        "name",
        metavar="NAME",
        help="name of the driver, service, format or container, in lower case",
    )
    parser.add_argument(
        "--directory",
        metavar="D",
        help="directory to write; by default the name of the distribution",
    )
    parser.set_defaults(run=_run)


def _run(arguments: Namespace) -> int:
    from mastaba_conformance.new.command import run

    return run(arguments)
