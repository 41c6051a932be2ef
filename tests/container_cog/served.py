"""An installation with a COG beside its other layers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from rasterio.io import MemoryFile
from tests.container_cog.files import Pixels, by_gdal, stored_tiles
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_containers.sets import web_mercator_matrix
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

ROW, COL, SIDE = 4, 8, 4
"""First row and column at level 4, and the number of rows and columns."""


def cog_of(
    path: Path, values: Pixels, place: tuple[int, int] = (ROW, COL), **options: Any
) -> bytes:
    """Return a COG whose first tile is at a row and column of the level 4.

    By default, an image of 1024 pixels a side is in the tiles of the levels 4, 3 and 2.
    """
    matrix = web_mercator_matrix(4, 256)
    corner = (
        matrix.origin_x + place[1] * 256 * matrix.cell_size,
        matrix.origin_y - place[0] * 256 * matrix.cell_size,
        matrix.cell_size,
    )
    options = {"BLOCKSIZE": 256, **options}
    return by_gdal(path, values, crs="EPSG:3857", corner=corner, **options)


def images_of(data: bytes) -> dict[str, Pixels]:
    """Return the pixels of each level, with alpha if there is a mask, as GDAL reads them."""
    found = {}
    for number, level in enumerate("432"):
        options = {"overview_level": number - 1} if number else {}
        with MemoryFile(data) as file, rasterio.open(file.name, **options) as source:
            bands = [*source.read()]
            if rasterio.enums.MaskFlags.per_dataset in source.mask_flag_enums[0]:
                bands.append(source.dataset_mask())
            found[level] = np.stack(bands, axis=2)
    return found


def place_of(level: str, row: int, col: int) -> tuple[str, int, int]:
    """Return level, row and column in the set PM of a tile of an image."""
    return level, (ROW >> 4 - int(level)) + row, (COL >> 4 - int(level)) + col


def write_slabs(
    directory: Path, name: str, data: bytes, *, levels: str = "432", jpeg: bool = False
) -> Path:
    """Write a pyramid with the pixels of a COG, and return the path of its descriptor.

    Args:
        jpeg: whether it contains the JPEG tiles of the COG, instead of PNG.
    """
    images = images_of(data)
    stored = {place_of(str(int(n) + 2), *at): tile for (n, *at), tile in stored_tiles(data).items()}

    def tile(level: str, row: int, col: int) -> Pixels | bytes:
        if jpeg:
            return stored[level, row, col]
        _, down, right = place_of(level, 0, 0)
        top, left = 256 * (row - down), 256 * (col - right)
        return images[level][top : top + 256, left : left + 256]

    channels = images["4"].shape[2]
    plans = []
    for level in levels:
        last = len(images[level]) // 256 - 1
        _, row, col = place_of(level, 0, 0)
        plans.append(LevelPlan(level, row, row + last, col, col + last))
    write_pyramid(
        directory,
        name,
        tile_matrix_set=web_mercator(),
        format="TIFF_JPG_UINT8" if jpeg else "TIFF_PNG_UINT8",
        channels=channels,
        nodata=[0] * channels,
        levels=plans,
        tile=tile,
    )
    return directory / f"{name}.json"


def add_layer(directory: Path, name: str, *entries: dict[str, Any], **fields: Any) -> None:
    """Add a layer to the installation in a directory."""
    document = {"title": name, "abstract": "", **fields, "pyramids": list(entries)}
    (directory / "layers" / f"{name}.json").write_text(json.dumps(document))
    with (directory / "layers.txt").open("a") as file:
        file.write(f"{directory}/layers/{name}.json\n")


def client_of(server: Path) -> Client:
    return Client(create_application(str(server)))


def addresses(
    layer: str, level: str, row: int, col: int, media: str, extension: str, grid: str = "PM"
) -> dict[str, str]:
    """Return the addresses of one tile, by protocol."""
    query = (
        f"SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&STYLE=normal&TILEMATRIXSET={grid}"
        f"&LAYER={layer}&TILEMATRIX={level}&TILEROW={row}&TILECOL={col}&FORMAT={media}"
    )
    return {
        "KVP": f"/wmts?{query}",
        "REST": f"/wmts/1.0.0/{layer}/normal/{grid}/{level}/{row}/{col}.{extension}",
        "TMS": f"/tms/1.0.0/{layer}/{level}/{col}/{row}.{extension}",
        "OGC": f"/ogcapi/collections/{layer}/map/tiles/{grid}/{level}/{row}/{col}",
    }
