"""Tile Map Service for Mastaba: stored tiles at simple addresses, with descriptions.

Implements the OSGeo Tile Map Service Specification 1.0.0, compatible with existing installations.
Adds TileJSON 3.0.0 and descriptions for GDAL.
"""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl


@hookimpl
def register_services() -> Iterable[LazyClass]:
    return [LazyClass("mastaba_tms.service:TileMapServer", name="tms")]
