"""Plugin for Mastaba that counts who uses which layers, and how much.

`meter` counts in `cells`, one file for each process; `roll_up` adds these to the `database`, from
which the command ``mastaba usage`` and the service ``usage`` read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from mastaba import LazyClass, hookimpl

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

    from mastaba.api.access import Meter
    from mastaba.api.services import Site

settings_schema: Final[Mapping[str, Any]] = {
    "directory": {
        "type": "string",
        "minLength": 1,
        "description": "Directory of the counters and the database, on a local disk. Without it, "
        "nothing is counted.",
    },
    "retention": {
        "type": "integer",
        "minimum": 1,
        "maximum": 36500,
        "description": "Days that are kept (default: 800).",
    },
    "top": {
        "type": "integer",
        "minimum": 0,
        "maximum": 1000,
        "description": "Layers of yesterday that metrics name, those with most hits first.",
        "default": 0,
    },
    "heat": {
        "type": "boolean",
        "default": False,
        "description": "Count how often each block of 64 × 64 tiles is requested, for heat maps.",
    },
    "node": {
        "type": "string",
        "maxLength": 64,
        "description": "Name of this node, if usage of several nodes is merged.",
    },
}


@hookimpl
def request_meters(site: Site) -> Meter | None:
    from mastaba_usage.settings import UsageSettings

    settings = UsageSettings.of(site.plugin_settings.get("usage", {}))
    if settings is None or "usage" not in site.catalogue.services:
        return None
    from mastaba_usage.meter import UsageMeter

    return UsageMeter(site, settings.directory, has_heat=settings.heat)


@hookimpl
def register_services() -> Iterable[LazyClass]:
    return [LazyClass("mastaba_usage.service:UsageService", name="usage")]


@hookimpl
def register_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    from mastaba_usage.command import add_command

    add_command(subparsers)
