"""What a source of vector tiles or features is, by its name."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from mastaba_build.vector.archives import Archive
from mastaba_build.vector.directory import Directory
from mastaba_build.vector.mbtiles import MBTiles, has_images
from mastaba_build.vector.pmtiles import PMTiles

GEOJSON = (".geojson", ".geojsonl", ".geojsons")
_CONVERTED = (".fgb", ".gpkg", ".shp")


def open_archive(path: str) -> Archive:
    """Open an archive of vector tiles.

    Raises:
        PlanError: it cannot be opened, or contains no vector tiles.
    """
    if Path(path).is_dir():
        return Directory(Path(path))
    if path.lower().endswith(".pmtiles"):
        return PMTiles(Path(path))
    return MBTiles(Path(path))


def is_archive(path: str) -> bool:
    """Return whether a source is an archive of vector tiles, by its name and its metadata.

    Other MBTiles contain images, which GDAL reads.
    """
    place = Path(path)
    if place.is_dir():
        return any(
            tile.suffix in (".pbf", ".mvt")
            for zoom in place.iterdir()
            if zoom.name.isdigit() and zoom.is_dir()
            for column in zoom.iterdir()
            if column.is_dir()
            for tile in column.iterdir()
        )
    if path.lower().endswith(".mbtiles"):
        return not has_images(place)
    return path.lower().endswith(".pmtiles")


def is_features(path: str) -> bool:
    """Return whether a source contains features, by its name."""
    return path.lower().endswith((*GEOJSON, *_CONVERTED)) and not _is_raster(path)


def _is_raster(path: str) -> bool:
    """Return whether a GeoPackage contains no features, so that GDAL reads its images."""
    if not path.lower().endswith(".gpkg"):
        return False
    query = "SELECT count(*) FROM gpkg_contents WHERE data_type = 'features'"
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as database:
            return bool(database.execute(query).fetchone() == (0,))
    except sqlite3.Error:
        return False  # it is reported when it is read
