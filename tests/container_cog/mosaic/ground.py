"""A folder of COGs that cover an area together, and tables of them."""

from __future__ import annotations

import json
import sqlite3
import struct
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from rasterio.merge import merge
from tests.container_cog.files import Pixels as Pixels
from tests.container_cog.files import by_gdal, context_of, ground, reader_of

from mastaba.api.containers import OpenedContainer, Source
from mastaba.api.storages import FileStorage, ResourcePath, Storage
from mastaba_cog.mosaic.container import MosaicContainer

X, Y, CELL = 500000.0, 4600000.0, 10.0
"""Corner of the first file, and the size of pixels, in EPSG:32631."""


@dataclass(frozen=True)
class Sheet:
    """A file of a mosaic.

    Attributes:
        left, top: pixels from the corner.
        values: shape (rows, columns, bands).
    """

    name: str
    left: int
    top: int
    values: Pixels
    cell: float = CELL

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Its extent in the CRS."""
        rows, columns, _ = self.values.shape
        left, top = X + self.left * CELL, Y - self.top * CELL
        return left, top - rows * self.cell, left + columns * self.cell, top

    def write(self, folder: Path, **options: Any) -> None:
        """Write the COG, in one step."""
        corner = (self.box[0], self.box[3], self.cell)
        data = by_gdal(folder, self.values, corner=corner, **options)
        (folder / "new").write_bytes(data)
        (folder / "new").rename(folder / self.name)


def sheets(
    dtype: str = "uint8", bands: int = 3, size: int = 256, count: int = 2, seed: int = 0
) -> list[Sheet]:
    """Return a square of sheets without gaps."""
    return [
        Sheet(
            f"{row}-{col}.tif",
            col * size,
            row * size,
            ground(dtype, bands, (size, size), seed + row * count + col),
        )
        for row in range(count)
        for col in range(count)
    ]


def geojson(sheets: Sequence[Sheet], **properties: Any) -> bytes:
    """Return a table with the boxes in EPSG:32631."""
    features = [
        {
            "type": "Feature",
            "properties": {"path": one.name, **properties},
            "geometry": {"type": "Polygon", "coordinates": [corners(one.box)]},
        }
        for one in sheets
    ]
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32631"}}
    return json.dumps({"type": "FeatureCollection", "crs": crs, "features": features}).encode()


def corners(box: tuple[float, float, float, float]) -> list[list[float]]:
    """Return the ring of a box."""
    xmin, ymin, xmax, ymax = box
    return [[xmin, ymin], [xmax, ymin], [xmax, ymax], [xmin, ymax], [xmin, ymin]]


def geopackage(path: Path, sheets: Sequence[Sheet], statement: str = "") -> None:
    """Write a table as GDAL's gdaltindex does."""
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as database:
        database.executescript(
            "CREATE TABLE gpkg_contents (table_name, data_type, srs_id);"
            "CREATE TABLE gpkg_spatial_ref_sys (srs_id, organization, organization_coordsys_id);"
            "CREATE TABLE gpkg_geometry_columns (table_name, column_name);"
            "CREATE TABLE gpkg_metadata (metadata);"
            "INSERT INTO gpkg_contents VALUES ('index', 'features', 7);"
            "INSERT INTO gpkg_spatial_ref_sys VALUES (7, 'EPSG', 32631);"
            "INSERT INTO gpkg_geometry_columns VALUES ('index', 'geom');"
            'CREATE TABLE "index" (fid INTEGER PRIMARY KEY, geom BLOB, location TEXT, year INT);'
        )
        for number, one in enumerate(sheets):
            xmin, ymin, xmax, ymax = one.box
            blob = struct.pack("<2sBBi4d", b"GP", 0, 3, 7, xmin, xmax, ymin, ymax)
            database.execute(
                'INSERT INTO "index" (geom, location, year) VALUES (?, ?, ?)',
                (blob, one.name, 2000 + number),
            )
        database.executescript(statement)
    database.close()


def opened(
    path: Path,
    sets: tuple[Any, ...] = (),
    noted: list[str] | None = None,
    storage: Storage | None = None,
    **options: Any,
) -> OpenedContainer:
    """Return the mosaic of a table in the file system."""
    context = context_of(sets, noted)
    source = Source(ResourcePath("file", "", str(path)), storage or FileStorage())
    return MosaicContainer.open(source, options, context)


def reference(
    folder: Path, sheets: Sequence[Sheet], box: tuple[float, float, float, float]
) -> Pixels:
    """Return the mosaic of sheets, the last one on top, shape (rows, columns, bands)."""
    files = [rasterio.open(folder / one.name) for one in sheets]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PendingDeprecationWarning)
            pixels, _ = merge(files, bounds=box, method="last")
    finally:
        for file in files:
            file.close()
    return np.moveaxis(pixels, 0, 2)


def mosaic_pixels(found: OpenedContainer, identifier: str | None = None) -> Pixels:
    """Return the pixels of all tiles inside the limits of a level."""
    reader = reader_of(found, identifier)
    limits, matrix = reader.level.limits, reader.level.matrix
    places = [
        (row, col)
        for row in range(limits.min_row, limits.max_row + 1)
        for col in range(limits.min_col, limits.max_col + 1)
    ]
    height, width = matrix.tile_height, matrix.tile_width
    raster = found.pyramid.raster
    assert raster is not None
    result = np.empty(
        (
            (limits.max_row - limits.min_row + 1) * height,
            (limits.max_col - limits.min_col + 1) * width,
            raster.channels,
        ),
        found.pyramid.format.sample,
    )
    result[:] = raster.nodata
    for (row, col), tile in zip(
        places, map(reader.locate, *zip(*places, strict=True)), strict=True
    ):
        if tile is not None:
            top, left = (row - limits.min_row) * height, (col - limits.min_col) * width
            result[top : top + height, left : left + width] = reader.decoder.decode(tile.read())
    return result
