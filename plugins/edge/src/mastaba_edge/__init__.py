"""Plugin for Mastaba that purges changed layers from the caches in front of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mastaba import hookimpl

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

    from mastaba.api.services import LayerChange, Site

settings_schema: Final[Mapping[str, Any]] = {
    "caches": {
        "type": "array",
        "items": {"type": "string", "pattern": r"^https?://[^/@\s]+(/[!-~]*)?$"},
        "description": "Addresses of Varnish or of `mastaba purge-agent`, such as "
        "http://127.0.0.1:6081/. Each of them is purged.",
    },
    "secret_file": {
        "type": "string",
        "minLength": 1,
        "description": "File with the secret that the caches require for a purge.",
    },
    "repeat_after": {
        "type": "number",
        "minimum": 0,
        "description": "Seconds after which each purge is repeated (default: 10). A response that "
        "an old worker was sending during the first purge is then removed as well.",
    },
}


@hookimpl
def generation_changed(site: Site, changes: Sequence[LayerChange]) -> None:
    from mastaba_edge.purging import purge_changes

    purge_changes(site, changes)


@hookimpl
def register_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    from mastaba_edge.command import add_commands

    add_commands(subparsers)
