"""Cloud-Optimized GeoTIFFs as layers: single ones, and mosaics of many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba import LazyClass, hookimpl

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

    from mastaba.api.services import Site

__all__: list[str] = []


@hookimpl
def register_containers() -> Iterable[LazyClass]:
    return [
        LazyClass(
            "mastaba_cog.container:CogContainer", name="cog", suffixes=(".tif", ".tiff", ".gtiff")
        ),
        LazyClass("mastaba_cog.mosaic.container:MosaicContainer", name="mosaic", suffixes=()),
    ]


@hookimpl
def register_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    from mastaba_cog.command import add_parser

    add_parser(subparsers)


@hookimpl
def wsgi_middleware(site: Site) -> None:
    """Let the mosaics of a configuration report tables that cannot be used; wrap nothing."""
    readers = [one for levels in site.catalogue.readers.values() for one in levels.values()]
    mosaics = {id(one): one for reader in readers if (one := getattr(reader, "mosaic", None))}
    if mosaics:
        from mastaba_cog.mosaic.health import report_faults

        report_faults(site.scoreboard, list(mosaics.values()))
