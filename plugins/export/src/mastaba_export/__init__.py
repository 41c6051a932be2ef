"""Exports: an area of a layer as an archive, a COG or a smaller pyramid.

`request` says what is wanted, `plan` what follows from it for a layer, `run` writes it. `writers`
contains one module for each format of archives. The command ``mastaba export`` runs one; `service`
takes orders for them, and `jobs` runs these in other processes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba import LazyClass, hookimpl

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction


@hookimpl
def register_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``mastaba export`` and ``mastaba export-worker``."""
    from mastaba_export import command, worker_command

    command.add_parser(subparsers)
    worker_command.add_parser(subparsers)


@hookimpl
def register_services() -> Iterable[LazyClass]:
    """Provide the service."""
    return [LazyClass("mastaba_export.service.service:ExportService", name="export")]
