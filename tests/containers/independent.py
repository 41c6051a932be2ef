"""Archives of writers that have nothing in common with the readers, and what they contain."""

from __future__ import annotations

import gzip
import io
import math
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import rasterio
from PIL import Image
from rasterio.io import MemoryFile
from tests.container_cog.files import Pixels, by_gdal, ground, stored_tiles
from tests.container_sqlite.ground import write_geopackage, write_mbtiles
from tests.containers.reference import Stored

Place = tuple[int, int, int]
"""Zoom, row and column."""

HALF = math.pi * 6378137.0
ZOOM, ROW, COL = 10, 368, 520
"""The first tile of the finest level of archives of the world, in France."""
GRID_X, GRID_Y = 600000.0, 6800000.0
"""Corner of the GeoPackages, in EPSG:2154."""
NODATA = -9999.0


@dataclass(frozen=True)
class Archive:
    """An archive, and what was written to it.

    Attributes:
        levels: by zoom.
        tiles: as they were written; empty if they are encoded again.
        tolerance: of maps.
    """

    name: str
    crs: int
    media: str
    extension: str
    levels: dict[str, Stored]
    tiles: dict[Place, bytes]
    nodata: tuple[float, ...]
    tolerance: float = 1.0
    options: dict[str, Any] = field(default_factory=dict)


def cell_of(zoom: int) -> float:
    return 2 * HALF / 256 / 2**zoom


def corner_of(zoom: int) -> tuple[float, float]:
    """Return the corner of the first tile of a level of the archives of the world."""
    row, col = ROW >> ZOOM - zoom, COL >> ZOOM - zoom
    return -HALF + col * 256 * cell_of(zoom), HALF - row * 256 * cell_of(zoom)


def encoded(pixels: Pixels, kind: str) -> bytes:
    stream = io.BytesIO()
    options = {"quality": 85} if kind == "JPEG" else {}
    Image.fromarray(pixels if pixels.shape[2] > 1 else pixels[:, :, 0]).save(
        stream, kind, **options
    )
    return stream.getvalue()


def cut(
    pixels: Pixels, kind: str, missing: set[tuple[int, int]], nodata: tuple[float, ...], side: int
) -> tuple[dict[tuple[int, int], bytes], Pixels, npt.NDArray[np.bool_]]:
    """Return the tiles of a level, its pixels as they are decoded, and where tiles are."""
    tiles, decoded = {}, np.empty_like(pixels)
    decoded[:] = np.array(nodata, pixels.dtype)
    valid = np.zeros(pixels.shape[:2], np.bool_)
    for row, col in product(range(side), range(side)):
        if (row, col) in missing:
            continue
        part = np.s_[256 * row : 256 * row + 256, 256 * col : 256 * col + 256]
        tiles[row, col] = encoded(pixels[part], kind)
        with Image.open(io.BytesIO(tiles[row, col])) as picture:
            decoded[part] = np.asarray(picture).reshape(256, 256, -1)
        valid[part] = True
    return tiles, decoded, valid


def world(
    kind: str, bands: int, seed: int, nodata: tuple[float, ...]
) -> tuple[dict[str, Stored], dict[Place, bytes]]:
    """Return levels of different pixels in the grid of the world, each with missing tiles."""
    chance, levels, tiles = random.Random(seed), {}, {}
    for zoom, side in ((ZOOM - 2, 1), (ZOOM - 1, 2), (ZOOM, 4)):
        pixels = ground("uint8", bands, (256 * side, 256 * side), seed + zoom)
        places = list(product(range(side), range(side)))
        missing = set(chance.sample(places, len(places) // 5))
        found, decoded, valid = cut(pixels, kind, missing, nodata, side)
        levels[str(zoom)] = Stored(cell_of(zoom), *corner_of(zoom), decoded, valid)
        first = ROW >> ZOOM - zoom, COL >> ZOOM - zoom
        tiles |= {
            (zoom, first[0] + row, first[1] + col): data for (row, col), data in found.items()
        }
    return levels, tiles


def tile_id(zoom: int, x: int, y: int) -> int:
    """Return the place of a tile along the curve of Hilbert, after all coarser tiles."""
    number = (4**zoom - 1) // 3
    for bit in range(zoom - 1, -1, -1):
        side = 1 << bit
        right, down = bool(x & side), bool(y & side)
        number += side * side * (3 * right ^ down)
        if not down:
            if right:
                x, y = side * 2 - 1 - x % (2 * side), side * 2 - 1 - y % (2 * side)
            x, y = y, x
    return number


def varints(values: list[int]) -> bytes:
    data = bytearray()
    for value in values:
        while value > 127:
            data.append(value & 127 | 128)
            value >>= 7
        data.append(value)
    return bytes(data)


def write_pmtiles(
    path: Path,
    tiles: dict[Place, bytes],
    kind: int,
    bounds: tuple[float, float, float, float] = (0, 43, 5, 46),
) -> None:
    """Write an archive with compressed directories, of which each leaf has five entries."""
    ordered = sorted((tile_id(zoom, col, row), data) for (zoom, row, col), data in tiles.items())
    body, entries = b"", []
    for number, data in ordered:
        entries.append((number, 1, len(data), len(body)))
        body += data

    def directory(found: list[tuple[int, int, int, int]]) -> bytes:
        ids = [one[0] for one in found]
        steps = [ids[0], *(b - a for a, b in pairwise(ids))]
        columns = (
            [one[1] for one in found],
            [one[2] for one in found],
            [one[3] + 1 for one in found],
        )
        return gzip.compress(varints([len(found), *steps, *(v for c in columns for v in c)]))

    leaves, root = b"", []
    for start in range(0, len(entries), 5):
        leaf = directory(entries[start : start + 5])
        root.append((entries[start][0], 0, len(leaf), len(leaves)))
        leaves += leaf
    top, metadata = directory(root), gzip.compress(b'{"name": "A"}')
    at = [127, 127 + len(top), 127 + len(top) + len(metadata)]
    zooms = [zoom for zoom, _, _ in tiles]
    header = struct.pack(
        "<7sB8Q3Q6B4iB2i",
        *(b"PMTiles", 3, at[0], len(top), at[1], len(metadata), at[2], len(leaves)),
        *(at[2] + len(leaves), len(body), len(tiles), len(tiles), len(tiles), 1, 2, 1, kind),
        *(min(zooms), max(zooms), *(round(one * 10**7) for one in bounds), max(zooms), 0, 0),
    )
    path.write_bytes(header + top + metadata + leaves + body)


def pmtiles(directory: Path, kind: str, bands: int, seed: int) -> Archive:
    nodata = (10.0, 200.0, 30.0)[:bands]
    levels, tiles = world(kind, bands, seed, nodata)
    write_pmtiles(directory / "a.pmtiles", tiles, 2 if kind == "PNG" else 3)
    media, extension = f"image/{kind.lower()}", {"PNG": "png", "JPEG": "jpg"}[kind]
    tolerance = 1.0 if kind == "PNG" else 2.0
    options = {"nodata": list(nodata)}
    return Archive("a.pmtiles", 3857, media, extension, levels, tiles, nodata, tolerance, options)


def mbtiles(directory: Path, kind: str, seed: int) -> Archive:
    nodata = (250.0, 250.0, 120.0)
    levels, tiles = world(kind, 3, seed, nodata)
    by_column = {(zoom, col, row): data for (zoom, row, col), data in tiles.items()}
    form = {"PNG": "png", "JPEG": "jpg"}[kind]
    write_mbtiles(directory / "a.mbtiles", by_column, {"name": "A", "format": form})
    tolerance, options = 1.0 if kind == "PNG" else 2.0, {"nodata": list(nodata)}
    media = f"image/{kind.lower()}"
    return Archive("a.mbtiles", 3857, media, form, levels, tiles, nodata, tolerance, options)


def own_grid(
    make: Callable[[int, int], tuple[Pixels, dict[tuple[int, int], bytes], npt.NDArray[np.bool_]]],
) -> tuple[dict[str, Stored], dict[Place, bytes]]:
    """Return the levels of a GeoPackage, of whose last 200 metres nothing is shown."""
    levels, tiles = {}, {}
    for zoom, side in ((0, 2), (1, 4)):
        pixels, found, valid = make(zoom, side)
        cell = 8.0 / side
        last = round((1024 * 2 - 200) / cell)
        inside = valid.copy()
        inside[last:], inside[:, last:] = False, False
        levels[str(zoom)] = Stored(cell, GRID_X, GRID_Y, pixels, inside)
        tiles |= {(zoom, row, col): data for (row, col), data in found.items()}
    return levels, tiles


def geopackage(directory: Path, seed: int) -> Archive:
    nodata, chance = (0.0, 90.0, 255.0), random.Random(seed)

    def make(zoom: int, side: int) -> Any:
        pixels = ground("uint8", 3, (256 * side, 256 * side), seed + zoom)
        places = list(product(range(side), range(side)))
        missing = set(chance.sample(places, len(places) // 5))
        tiles, decoded, valid = cut(pixels, "PNG", missing, nodata, side)
        return decoded, tiles, valid

    levels, tiles = own_grid(make)
    by_column = {(zoom, col, row): data for (zoom, row, col), data in tiles.items()}
    write_geopackage(directory / "a.gpkg", by_column)
    options = {"nodata": list(nodata)}
    return Archive("a.gpkg", 2154, "image/png", "png", levels, tiles, nodata, 1.0, options)


def heights(directory: Path, seed: int) -> Archive:
    """Return a gridded coverage of floats, with gaps of all sizes."""

    def make(zoom: int, side: int) -> Any:
        pixels = with_gaps(ground("float32", 1, (256 * side, 256 * side), seed + zoom), seed)
        tiles = {}
        for row, col in product(range(side), range(side)):
            stream = io.BytesIO()
            part = pixels[256 * row : 256 * row + 256, 256 * col : 256 * col + 256, 0]
            Image.fromarray(part).save(stream, "TIFF", compression="tiff_lzw")
            tiles[row, col] = stream.getvalue()
        return pixels, tiles, pixels[:, :, 0] != NODATA

    levels, tiles = own_grid(make)
    by_column = {(zoom, col, row): data for (zoom, row, col), data in tiles.items()}
    coverage = ("float", 1.0, 0.0, NODATA, "grid-value-is-area")
    write_geopackage(directory / "a.gpkg", by_column, coverage=coverage)
    return Archive("a.gpkg", 2154, "image/x-bil;bits=32", "bil", levels, {}, (NODATA,), 0.25)


def with_gaps(pixels: Pixels, seed: int) -> Pixels:
    """Return pixels with rectangles without data."""
    chance = random.Random(seed)
    for size in (1, 3, 10, 60) * 4:
        row, col = (chance.randrange(length) for length in pixels.shape[:2])
        pixels[row : row + size, col : col + size] = NODATA
    return pixels


def cog(directory: Path, dtype: str, seed: int, *, masked: bool = False, **options: Any) -> Archive:
    """Return a COG whose size is not that of its tiles.

    Args:
        masked: whether it has a mask, which becomes alpha.
    """
    bands, is_float = 3 if dtype == "uint8" else 1, dtype != "uint8"
    values = ground(dtype, bands, (900, 1000), seed)
    nodata = (NODATA,) if is_float else (0.0,) * bands
    corner = (*corner_of(ZOOM), cell_of(ZOOM))
    further: dict[str, Any] = {"nodata": NODATA} if is_float else {}
    if masked:
        nodata = (0.0,) * 4
        further["mask"] = (ground("uint8", 1, (900, 1000), seed + 1)[:, :, 0] > 70) * np.uint8(255)
    values = with_gaps(values, seed) if is_float else values
    data = by_gdal(
        directory, values, crs="EPSG:3857", corner=corner, BLOCKSIZE=256, **further, **options
    )
    (directory / "cog.tif").rename(directory / "a.tif")
    levels = {}
    for number in range(3):
        choice = {"overview_level": number - 1} if number else {}
        with MemoryFile(data) as file, rasterio.open(file.name, **choice) as source:
            pixels = np.moveaxis(source.read(), 0, 2)
            if masked:
                alpha = source.dataset_mask()[:, :, np.newaxis]
                pixels = np.concatenate([pixels * (alpha > 0), alpha], axis=2)
        pixels = pixels.astype(np.float32) if is_float else pixels
        valid = pixels[:, :, 0] != NODATA if is_float else np.ones(pixels.shape[:2], np.bool_)
        zoom = ZOOM - number
        levels[str(zoom)] = Stored(cell_of(zoom), *corner_of(zoom), pixels, valid)
    tiles = {}
    if options["COMPRESS"] == "JPEG":
        for (number, row, col), tile in stored_tiles(data).items():
            zoom = ZOOM - 2 + int(number)
            tiles[zoom, (ROW >> ZOOM - zoom) + row, (COL >> ZOOM - zoom) + col] = tile
            # GDAL may have another decoder.
            part = levels[str(zoom)].pixels[256 * row :, 256 * col :][:256, :256]
            with Image.open(io.BytesIO(tile)) as picture:
                part[:] = np.asarray(picture)[: part.shape[0], : part.shape[1]]
    media, extension = ("image/x-bil;bits=32", "bil") if is_float else ("image/png", "png")
    if tiles:
        media, extension = "image/jpeg", "jpg"
    tolerance = 2.0 if tiles else 0.25 if is_float else 1.0
    return Archive("a.tif", 3857, media, extension, levels, tiles, nodata, tolerance)


ARCHIVES: dict[str, Callable[..., Archive]] = {
    "PMTiles, PNG": partial(pmtiles, kind="PNG", bands=3),
    "PMTiles, JPEG": partial(pmtiles, kind="JPEG", bands=3),
    "PMTiles, grey": partial(pmtiles, kind="PNG", bands=1),
    "MBTiles, PNG": partial(mbtiles, kind="PNG"),
    "MBTiles, JPEG": partial(mbtiles, kind="JPEG"),
    "GeoPackage, PNG": geopackage,
    "GeoPackage, floats": heights,
    "COG, JPEG": partial(cog, dtype="uint8", COMPRESS="JPEG"),
    "COG, DEFLATE": partial(cog, dtype="uint8", COMPRESS="DEFLATE"),
    "COG, mask": partial(cog, dtype="uint8", masked=True, COMPRESS="LZW", PREDICTOR="YES"),
    "COG, floats": partial(cog, dtype="float32", COMPRESS="ZSTD", PREDICTOR="YES"),
    "COG, int16": partial(cog, dtype="int16", COMPRESS="LZW"),
}
