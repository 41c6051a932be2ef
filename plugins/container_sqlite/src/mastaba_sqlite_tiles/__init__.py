"""MBTiles and GeoPackage files as layers."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl


@hookimpl
def register_containers() -> Iterable[LazyClass]:
    return [
        LazyClass("mastaba_sqlite_tiles.mbtiles:MBTiles", name="mbtiles", suffixes=(".mbtiles",)),
        LazyClass(
            "mastaba_sqlite_tiles.geopackage:GeoPackage", name="geopackage", suffixes=(".gpkg",)
        ),
    ]
