"""GeoTIFFs that GDAL and tifffile write, and a storage that counts reads."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import rasterio
import rasterio.shutil
import tifffile
from rasterio.transform import Affine

from mastaba.api.containers import Context, IndexCache, OpenedContainer, Source
from mastaba.api.storages import ByteRange, Environment, ObjectRead, ObjectStat, ResourcePath
from mastaba.api.storages import Storage as BaseStorage
from mastaba.errors import ContainerFormatError, ObjectChangedError
from mastaba_cog.container import CogContainer

Pixels = npt.NDArray[Any]

# Position of the files of tifffile: EPSG:32631.
PLACE = [
    (33550, "d", 3, (10.0, 10.0, 0.0)),
    (33922, "d", 6, (0.0, 0.0, 0.0, 500000.0, 4600000.0, 0.0)),
    (34735, "H", 12, (1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32631)),
]


class Storage(BaseStorage):
    """Objects in memory.

    Attributes:
        data: by key; versions are counted.
        reads: the ranges that were read.
    """

    name = "memory"
    container_field = None

    def __init__(self, data: bytes) -> None:
        super().__init__("")
        self.data = data
        self.version = 1
        self.reads: list[ByteRange] = []

    @classmethod
    def open(cls, container: str, environment: Environment) -> Storage:
        raise NotImplementedError

    def replace(self, data: bytes) -> None:
        self.data, self.version = data, self.version + 1

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        if version not in (None, str(self.version)):
            raise ObjectChangedError("replaced", key=key)
        assert byte_range is not None
        self.reads.append(byte_range)
        offset, length = byte_range
        return ObjectRead(self.part(offset, length), str(self.version), 1.0)

    def part(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]

    def stat(self, key: str) -> ObjectStat:
        return ObjectStat(len(self.data), str(self.version), 1.0)


def context_of(sets: tuple[Any, ...] = (), warnings: list[str] | None = None) -> Context:
    """Return a context that knows some tile matrix sets, and collects warnings."""

    def named(identifier: str) -> Any:
        for known in sets:
            if known.id == identifier:
                return known
        raise ContainerFormatError(f"{identifier} is unknown")

    return Context(
        IndexCache(100, 300.0),
        named,
        lambda: sets,
        lambda reason, remedy: None if warnings is None else warnings.append(f"{reason}; {remedy}"),
    )


def opened(
    storage: BaseStorage,
    sets: tuple[Any, ...] = (),
    warnings: list[str] | None = None,
    **options: Any,
) -> OpenedContainer:
    context = context_of(sets, warnings)
    source = Source(ResourcePath("memory", "c", "x.tif"), storage)
    return CogContainer.open(source, options, context)


def reader_of(found: OpenedContainer, identifier: str | None = None) -> Any:
    """Return the reader of a level, by default of the finest one."""
    name = identifier or list(found.pyramid.levels)[-1]
    return found.readers[name](found.pyramid.levels[name])


def pixels_of(found: OpenedContainer, identifier: str | None = None) -> Pixels:
    """Return the decoded pixels of a level inside its window."""
    reader = reader_of(found, identifier)
    level = reader.level
    limits, matrix = level.limits, level.matrix
    rows = []
    for row in range(limits.min_row, limits.max_row + 1):
        tiles = [
            reader.decoder.decode(reader.locate(row, col).read())
            for col in range(limits.min_col, limits.max_col + 1)
        ]
        rows.append(np.concatenate(tiles, axis=1))
    width = level.window[0] - limits.min_col * matrix.tile_width
    height = level.window[1] - limits.min_row * matrix.tile_height
    return np.concatenate(rows)[:height, :width]


def ground(dtype: str, bands: int = 1, size: tuple[int, int] = (70, 90), seed: int = 5) -> Pixels:
    """Return smooth values, shape (rows, columns, bands)."""
    rows, columns = np.mgrid[: size[0], : size[1]]
    values = np.stack(
        [
            90 + 40 * np.sin(rows / 9 + band) + 30 * np.cos(columns / 7 + seed)
            for band in range(bands)
        ],
        axis=2,
    )
    noise = np.random.default_rng(seed).uniform(0, 8, values.shape)
    if dtype.startswith("int"):
        values = values - 100
    return (values + noise).astype(dtype)


def by_tifffile(values: Pixels, **options: Any) -> bytes:
    """Return a file in tiles of 32 pixels with a position."""
    stream = io.BytesIO()
    options = {"tile": (32, 32), "photometric": "minisblack", "metadata": None, **options}
    tags = [(*tag, True) for tag in [*PLACE, *options.pop("tags", ())]]
    byteorder, bigtiff = options.pop("byteorder", "<"), options.pop("bigtiff", False)
    if values.shape[2] == 1:
        values = values[:, :, 0]
    elif options.get("planarconfig") == "separate":
        values = np.moveaxis(values, 2, 0)
    with tifffile.TiffWriter(stream, byteorder=byteorder, bigtiff=bigtiff) as writer:
        writer.write(values, extratags=tags, **options)
    return stream.getvalue()


def geotiff(
    path: Path, values: Pixels, edit: Callable[[Any], None] | None = None, **options: Any
) -> tuple[bytes, Pixels]:
    """Return a file of GDAL in tiles of 64 pixels, and its pixels as GDAL reads them.

    Args:
        edit: called with the file that is being written.
    """
    profile = {
        **_profile(values, "EPSG:32631", (500000.0, 4600000.0, 10.0)),
        "tiled": True,
        "blockxsize": 64,
        "blockysize": 64,
        **options,
    }
    target = path / "gdal.tif"
    with rasterio.open(target, "w", **profile) as dataset:
        dataset.write(np.moveaxis(values, 2, 0))
        if edit is not None:
            edit(dataset)
    with rasterio.open(target) as dataset:
        return target.read_bytes(), np.moveaxis(dataset.read(), 0, 2)


def _profile(values: Pixels, crs: str, corner: tuple[float, float, float]) -> dict[str, Any]:
    """Return what rasterio writes: easting, northing and cell size of the upper left corner."""
    x, y, cell = corner
    rows, columns, bands = values.shape
    return {
        "driver": "GTiff",
        "width": columns,
        "height": rows,
        "count": bands,
        "dtype": values.dtype,
        "crs": crs,
        "transform": Affine(cell, 0, x, 0, -cell, y),
    }


def stored_tiles(data: bytes) -> dict[tuple[str, int, int], bytes]:
    """Return what clients get of a file of JPEG or WebP tiles, by level, row and column.

    Found by another library: JPEG tables, without their end, precede each tile without its start.
    """
    found = {}
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        pages = [page for page in file.pages if not page.subfiletype & 4]
        for level, page in enumerate(reversed(pages)):
            tables = page.jpegtables or b""
            across = -(-page.imagewidth // page.tilewidth)
            places = zip(page.dataoffsets, page.databytecounts, strict=True)
            for number, (offset, size) in enumerate(places):
                tile = data[offset : offset + size]
                place = (str(level), *divmod(number, across))
                found[place] = tables[:-2] + tile[2:] if tables else tile
    return found


def changed(data: bytes, tag: int, *values: int | float, page: int = 0) -> bytes:
    """Return a file with other values of a tag, of the same type."""
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        entry = file.pages[page].tags[tag]
        code = f"{file.byteorder}{len(values)}{tifffile.TIFF.DATA_FORMATS[entry.dtype][-1]}"
        place = entry.valueoffset
    made = bytearray(data)
    struct.pack_into(code, made, place, *values)
    return bytes(made)


def by_gdal(
    path: Path,
    values: Pixels,
    *,
    mask: Pixels | None = None,
    crs: str = "EPSG:32631",
    corner: tuple[float, float, float] = (500000.0, 4600000.0, 10.0),
    nodata: float | None = None,
    **options: Any,
) -> bytes:
    """Return a COG, with the mask of data if one is given."""
    profile = {**_profile(values, crs, corner), "nodata": nodata}
    source, target = path / "source.tif", path / "cog.tif"
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        with rasterio.open(source, "w", **profile) as dataset:
            dataset.write(np.moveaxis(values, 2, 0))
            if mask is not None:
                dataset.write_mask(mask)
        with rasterio.open(source) as dataset:
            copy = {"BLOCKSIZE": 128, **options}
            rasterio.shutil.copy(dataset, target, driver="COG", **copy)
    os.unlink(source)
    return target.read_bytes()
