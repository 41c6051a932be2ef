"""MBTiles and GeoPackage files written with sqlite3 alone, and servers of them."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_writer.installation import write_installation

Tiles = Mapping[tuple[int, int, int], bytes]
"""By zoom, column and row, counted from the top."""

TABLE = (
    "CREATE TABLE tiles (zoom_level INTEGER, tile_column INTEGER, tile_row INTEGER, tile_data BLOB)"
)
INDEX = "CREATE UNIQUE INDEX tile_index ON tiles (zoom_level, tile_column, tile_row)"


def picture(seed: int, mode: str = "RGB", kind: str = "PNG", size: int = 256) -> bytes:
    """Return a picture of noise in blocks of 16 pixels."""
    chance = np.random.default_rng(seed)
    channels = len(mode) if mode != "I;16" else 1
    pixels = chance.integers(0, 256, (size // 16, size // 16, channels), np.uint8)
    pixels = pixels.repeat(16, 0).repeat(16, 1)
    output = io.BytesIO()
    Image.fromarray(pixels if channels > 1 else pixels[:, :, 0]).save(output, kind)
    return output.getvalue()


def web_tiles(seed: int = 0, kind: str = "PNG") -> dict[tuple[int, int, int], bytes]:
    """Return tiles of two zooms."""
    return {
        (zoom, column, row): picture(seed * 1000 + zoom * 100 + column * 10 + row, kind=kind)
        for zoom, first, count in ((4, 8, 2), (5, 16, 3))
        for column in range(first, first + count)
        for row in range(first - 3, first - 3 + count)
    }


def write_mbtiles(
    path: Path, tiles: Tiles, metadata: Mapping[str, str] | None = None, *, top_down: bool = False
) -> Path:
    """Write a file beside its place, and move it there."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    connection = sqlite3.connect(part)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("CREATE TABLE metadata (name TEXT, value TEXT)")
    connection.execute(TABLE)
    connection.execute(INDEX)
    values = {"name": "A", "format": "png"} if metadata is None else metadata
    connection.executemany("INSERT INTO metadata VALUES (?, ?)", values.items())
    connection.executemany(
        "INSERT INTO tiles VALUES (?, ?, ?, ?)",
        [
            (zoom, column, row if top_down else 2**zoom - 1 - row, data)
            for (zoom, column, row), data in tiles.items()
        ],
    )
    connection.commit()
    connection.close()
    part.replace(path)
    return path


def write_geopackage(
    path: Path,
    tiles: Tiles,
    *,
    coverage: tuple[Any, ...] | None = None,
    scales: Mapping[int, tuple[float, float]] | None = None,
    system: tuple[int, str, int] = (2154, "EPSG", 2154),
    size: int = 256,
    corner: tuple[float, float] = (600000.0, 6800000.0),
    cell: float = 2.0,
    **changes: Any,
) -> Path:
    """Write a package with 4 by 4 tiles of 2 metres at zoom 1, and 2 by 2 at zoom 0.

    Args:
        corner: upper left one, x before y.
        cell: side of a pixel at zoom 1.
        coverage: datatype, scale, offset and data_null of a gridded coverage.
        scales: scale and offset of its tiles, by the number of their rows.
        changes: of the columns of gpkg_tile_matrix at zoom 1.
    """
    path.unlink(missing_ok=True)
    kind = "tiles" if coverage is None else "2d-gridded-coverage"
    side = 4 * size * cell
    connection = sqlite3.connect(path)
    connection.executescript(
        "PRAGMA application_id = 0x47504B47; PRAGMA user_version = 10300;"
        "CREATE TABLE gpkg_spatial_ref_sys (srs_id INTEGER PRIMARY KEY, organization TEXT, "
        "organization_coordsys_id INTEGER);"
        "CREATE TABLE gpkg_contents (table_name TEXT, data_type TEXT, identifier TEXT, "
        "description TEXT, min_x REAL, min_y REAL, max_x REAL, max_y REAL, srs_id INTEGER);"
        "CREATE TABLE gpkg_tile_matrix_set (table_name TEXT, srs_id INTEGER, min_x REAL, "
        "min_y REAL, max_x REAL, max_y REAL);"
        "CREATE TABLE gpkg_tile_matrix (table_name TEXT, zoom_level INTEGER, matrix_width INTEGER, "
        "matrix_height INTEGER, tile_width INTEGER, tile_height INTEGER, pixel_x_size REAL, "
        "pixel_y_size REAL);"
        "CREATE TABLE gpkg_2d_gridded_coverage_ancillary (tile_matrix_set_name TEXT, "
        "datatype TEXT, scale REAL, offset REAL, data_null REAL, grid_cell_encoding TEXT);"
        "CREATE TABLE gpkg_2d_gridded_tile_ancillary (tpudt_name TEXT, tpudt_id INTEGER, "
        "scale REAL, offset REAL, UNIQUE (tpudt_name, tpudt_id));"
        "CREATE TABLE map (id INTEGER PRIMARY KEY, zoom_level INTEGER, tile_column INTEGER, "
        "tile_row INTEGER, tile_data BLOB, UNIQUE (zoom_level, tile_column, tile_row));"
    )
    box = (corner[0], corner[1] - side, corner[0] + side, corner[1])
    connection.execute("INSERT INTO gpkg_spatial_ref_sys VALUES (?, ?, ?)", system)
    connection.execute(
        "INSERT INTO gpkg_contents VALUES ('map', ?, 'Map', 'A <b>map</b>', ?, ?, ?, ?, ?)",
        # The last 100 pixels pad the tiles.
        (kind, box[0], box[1] + 100 * cell, box[2] - 100 * cell, box[3], system[0]),
    )
    connection.execute(
        "INSERT INTO gpkg_tile_matrix_set VALUES ('map', ?, ?, ?, ?, ?)", (system[0], *box)
    )
    for zoom, count in ((0, 2), (1, 4)):
        values = {"width": count, "height": count, "x": 4 * cell / count, "y": 4 * cell / count}
        values |= changes if zoom == 1 else {}
        connection.execute(
            "INSERT INTO gpkg_tile_matrix VALUES ('map', ?, ?, ?, ?, ?, ?, ?)",
            (zoom, values["width"], values["height"], size, size, values["x"], values["y"]),
        )
    for number, ((zoom, column, row), data) in enumerate(tiles.items(), 1):
        connection.execute(
            "INSERT INTO map VALUES (?, ?, ?, ?, ?)", (number, zoom, column, row, data)
        )
        if scales and number in scales:
            connection.execute(
                "INSERT INTO gpkg_2d_gridded_tile_ancillary VALUES ('map', ?, ?, ?)",
                (number, *scales[number]),
            )
    if coverage is not None:
        connection.execute(
            "INSERT INTO gpkg_2d_gridded_coverage_ancillary VALUES ('map', ?, ?, ?, ?, ?)",
            coverage,
        )
    connection.commit()
    connection.close()
    return path


def application(directory: Path, **entries: Mapping[str, Any]) -> Any:
    """Return the application of an installation with a layer for each entry of a pyramid."""
    layers = {
        name: {"title": name, "abstract": "", "pyramids": [dict(entry)]}
        for name, entry in entries.items()
    }
    server = write_installation(directory, layers=layers, services=["wmts", "tms", "ogcapi", "wms"])
    return create_application(str(server))


def client_of(directory: Path, **entries: Mapping[str, Any]) -> Client:
    return Client(application(directory, **entries))


def refusal(directory: Path, caplog: pytest.LogCaptureFixture, entry: Mapping[str, Any]) -> str:
    """Return what is logged about a layer that cannot be served, beside one that can."""
    good = write_mbtiles(directory.with_name("good.mbtiles"), {(4, 8, 5): picture(1)})
    site = application(directory, GOOD={"path": str(good)}, BAD=entry).site
    assert list(site.catalogue.layers) == ["GOOD"]
    return caplog.text


def wmts(layer: str, tile: tuple[int, int, int], tile_matrix_set: str, format: str) -> str:
    zoom, column, row = tile
    return (
        f"/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER={layer}&STYLE=normal"
        f"&FORMAT={format}&TILEMATRIXSET={tile_matrix_set}&TILEMATRIX={zoom}"
        f"&TILEROW={row}&TILECOL={column}"
    )
