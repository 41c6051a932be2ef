"""Rasters for builds, and pyramids read back by the server's own decoder."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from rasterio.transform import Affine

from mastaba.model.format import TILE_FORMATS
from mastaba_render.codecs import TileDecoder

MASTABA = (sys.executable, "-m", "mastaba")
Tile = tuple[str, int, int]


def write_raster(
    path: Path, pixels: np.ndarray, transform: Affine, crs: str | None, **profile: Any
) -> Path:
    """Write a tiled GeoTIFF from an array of shape (bands, rows, columns)."""
    bands, rows, columns = pixels.shape
    options: dict[str, Any] = {
        "driver": "GTiff",
        "width": columns,
        "height": rows,
        "count": bands,
        "dtype": pixels.dtype,
        "transform": transform,
        "tiled": True,
        "blockxsize": 128,
        "blockysize": 128,
        **profile,
    }
    if crs is not None:
        options["crs"] = crs
    with rasterio.open(path, "w", **options) as dataset:
        dataset.write(pixels)
    return path


def grid(origin_x: float, origin_y: float, size: float) -> Affine:
    """Return the georeferencing of square pixels from their upper left corner."""
    return Affine(size, 0, origin_x, 0, -size, origin_y)


def noise(bands: int, rows: int, columns: int, seed: int = 1) -> np.ndarray:
    """Return smooth bytes that differ everywhere."""
    generator = np.random.default_rng(seed)
    small = generator.integers(0, 256, (bands, rows // 4 + 1, columns // 4 + 1)).astype(np.float64)
    large = small.repeat(4, 1).repeat(4, 2)[:, :rows, :columns]
    return ((large + np.roll(large, 2, 1) + np.roll(large, 2, 2)) / 3).astype(np.uint8)


def read_payloads(descriptor: Path) -> dict[Tile, bytes]:
    """Return the stored tiles of a pyramid, by level, row and column; not the absent ones."""
    document = json.loads(descriptor.read_text())
    payloads: dict[Tile, bytes] = {}
    for level in document["levels"]:
        width, height = level["tiles_per_width"], level["tiles_per_height"]
        folder = descriptor.parent / level["storage"]["image_directory"]
        for path in folder.rglob("*.tif"):
            column, row = slab_index(path.relative_to(folder))
            data = path.read_bytes()
            count = width * height
            index = struct.unpack_from(f"<{2 * count}I", data, 2048)
            for number in range(count):
                offset, size = index[number], index[count + number]
                key = (
                    level["id"],
                    row * height + number // width,
                    column * width + number % width,
                )
                if size:
                    payloads[key] = data[offset : offset + size]
    return payloads


def read_tiles(descriptor: Path) -> dict[Tile, np.ndarray]:
    """Return the decoded tiles of a pyramid, by level, row and column; not those without data."""
    document = json.loads(descriptor.read_text())
    specification = document["raster_specifications"]
    decoder = TileDecoder(TILE_FORMATS[document["format"]], specification["channels"], 256, 256)
    nodata = [float(value) for value in specification["nodata"].split(",")]
    payloads = read_payloads(descriptor)
    # Most tiles of small pyramids are the same one without data.
    decoded = {data: decoder.decode(data) for data in set(payloads.values())}
    empty = {
        data for data, pixels in decoded.items() if (pixels == np.array(nodata, pixels.dtype)).all()
    }
    return {key: decoded[data] for key, data in payloads.items() if data not in empty}


def slab_index(path: Path) -> tuple[int, int]:
    """Return the slab column and row that the path of a slab contains."""
    digits = "".join(path.with_suffix("").parts)
    return int(digits[0::2], 36), int(digits[1::2], 36)


def checksums(directory: Path) -> dict[str, bytes]:
    """Return the bytes of all published files of a directory; build records name times."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.suffix in (".tif", ".json", ".list")
        and "server" not in path.parts
        and not path.name.endswith((".list", ".layer.json", ".build.json", ".history.json"))
    }
