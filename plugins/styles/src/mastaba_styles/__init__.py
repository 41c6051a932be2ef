"""Styles of layers for Mastaba, with the sprites and glyphs that they need.

Implements the MapLibre Style Specification, version 8. Vector layers open finished, from one
address, in MapLibre GL, OpenLayers and QGIS.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba import LazyClass, hookimpl

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction


@hookimpl
def register_services() -> Iterable[LazyClass]:
    service = "mastaba_styles.service:StylesService"
    return [LazyClass(service, name="stylesheets", default_root_path="/styles")]


@hookimpl
def register_commands(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    from mastaba_styles.command import add_parser

    add_parser(subparsers)
