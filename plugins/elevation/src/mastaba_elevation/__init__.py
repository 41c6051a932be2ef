"""Elevation queries and terrain tiles as a plugin of Mastaba."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl


@hookimpl
def register_services() -> Iterable[LazyClass]:
    return [
        LazyClass("mastaba_elevation.service:ElevationService", name="elevation"),
        LazyClass("mastaba_elevation.terrain.service:TerrainService", name="terrain"),
    ]
