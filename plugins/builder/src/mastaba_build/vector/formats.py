"""The file formats of archives, by their names."""

from __future__ import annotations

from pathlib import Path

from mastaba_build.vector.archives import Archive
from mastaba_build.vector.directory import Directory
from mastaba_build.vector.mbtiles import MBTiles, has_images
from mastaba_build.vector.pmtiles import PMTiles


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
