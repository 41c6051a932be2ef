"""Tile Map Service for Mastaba: stored tiles at simple addresses, with descriptions.

Implements the OSGeo Tile Map Service Specification 1.0.0, compatible with existing installations.
Adds TileJSON 3.0.0 and descriptions for GDAL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba import hookimpl

if TYPE_CHECKING:
    from mastaba.services.base import Service


@hookimpl
def register_services() -> Iterable[type[Service]]:
    from mastaba_tms.service import TileMapServer

    return [TileMapServer]
