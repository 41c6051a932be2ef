"""A slab pyramid in files as a source: one level is an image, read by the server's decoder."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jsonschema_rs import Draft202012Validator
from rasterio.windows import Window

from mastaba.api.catalogue import CRS, TILE_FORMATS, Level, TileLimits
from mastaba.api.documents import schema
from mastaba.api.slabs import IndexCache, LevelReader, PathLayout, TileDecoder
from mastaba.api.storages import FileStorage
from mastaba.api.tools import Plugins
from mastaba.errors import MastabaError
from mastaba_build.errors import PlanError
from mastaba_build.pixels import Samples
from mastaba_build.sets import load_set

_DECODED = 40
"""Tiles that are kept: those at the border of two rows of tiles are needed twice."""
_INDICES = 64


@dataclass(frozen=True, slots=True)
class PyramidLevel:
    """A level of a pyramid.

    Attributes:
        descriptor: path of the descriptor.
        directory: image directory of the level.
        format: pyramid format.
        nodata: value of each channel.
    """

    descriptor: str
    directory: str
    path_depth: int
    format: str
    channels: int
    nodata: tuple[float, ...]
    level: Level

    @property
    def dtype(self) -> str:
        return "float32" if self.format.endswith("FLOAT32") else "uint8"

    @property
    def transform(self) -> tuple[float, float, float, float, float, float]:
        """Georeferencing of the tiles in the limits, as in `Source`."""
        matrix, limits = self.level.matrix, self.level.limits
        cell = matrix.cell_size
        return (
            *(cell, 0.0, matrix.origin_x + limits.min_col * matrix.tile_width * cell),
            *(0.0, -cell, matrix.origin_y - limits.min_row * matrix.tile_height * cell),
        )

    @property
    def width(self) -> int:
        limits = self.level.limits
        return (limits.max_col - limits.min_col + 1) * self.level.matrix.tile_width

    @property
    def height(self) -> int:
        limits = self.level.limits
        return (limits.max_row - limits.min_row + 1) * self.level.matrix.tile_height


def pyramid_level(
    path: str, document: dict[str, Any], wanted: str | None, sets: Path | None
) -> tuple[PyramidLevel, CRS]:
    """Return a level of a pyramid and its CRS.

    Args:
        document: the descriptor.
        wanted: identifier of the level; None for the finest one.
        sets: directory of tile matrix sets.

    Raises:
        PlanError: the descriptor is invalid, or its pyramid cannot be a source.
    """
    for error in Draft202012Validator(schema("pyramid", Plugins())).iter_errors(document):
        place = "/".join(map(str, error.instance_path))
        raise PlanError(f"{path}: {place or 'the descriptor'}: {error.message}")
    if "raster_specifications" not in document:
        raise PlanError(f"{path}: a pyramid of vector tiles cannot be a source")
    tile_matrix_set, _ = load_set(document["tile_matrix_set"], sets)
    levels = {level["id"]: level for level in document["levels"]}
    if levels.keys() - tile_matrix_set.matrices.keys():
        raise PlanError(f"{path}: its levels are not those of {tile_matrix_set.id}")
    finest = [name for name in tile_matrix_set.matrices if name in levels][-1]
    if wanted is not None and wanted not in levels:
        raise PlanError(f"{path}: has no level {wanted!r}")
    entry = levels[wanted or finest]
    storage = entry["storage"]
    if storage["type"] != "FILE":
        raise PlanError(f"{path}: only pyramids in files can be sources, not {storage['type']}")
    specification = document["raster_specifications"]
    matrix = tile_matrix_set.matrices[entry["id"]]
    limits = TileLimits(**entry["tile_limits"]).intersection(matrix.all_tiles)
    if limits is None:
        raise PlanError(f"{path}: level {entry['id']} has no tiles")
    try:
        nodata = tuple(float(value) for value in specification["nodata"].split(","))
    except ValueError:
        raise PlanError(f"{path}: nodata is not a list of numbers") from None
    level = PyramidLevel(
        descriptor=path,
        directory=os.path.join(os.path.dirname(path), storage["image_directory"]),
        path_depth=storage["path_depth"],
        format=document["format"],
        channels=specification["channels"],
        nodata=nodata,
        level=Level(matrix, entry["tiles_per_width"], entry["tiles_per_height"], limits),
    )
    return level, tile_matrix_set.crs


class PyramidDataset:
    """Reads windows of a level, with the methods of a dataset of rasterio that `Reader` uses."""

    def __init__(self, level: PyramidLevel) -> None:
        self._level = level
        self._matrix = level.level.matrix
        layout = PathLayout(level.directory, level.path_depth)
        self._reader = LevelReader(
            level.level, layout, FileStorage(), IndexCache(_INDICES, float("inf"))
        )
        self._decoder = TileDecoder(
            TILE_FORMATS[level.format],
            level.channels,
            self._matrix.tile_width,
            self._matrix.tile_height,
        )
        self._decoded: OrderedDict[tuple[int, int], Samples | None] = OrderedDict()
        self.files = [level.descriptor, level.descriptor.removesuffix(".json") + ".list"]

    def close(self) -> None:
        self._decoded.clear()

    def read(self, bands: Sequence[int], window: Window, out: Samples | None = None) -> Samples:
        """Return bands, shape (bands, rows, columns); 0 where there is no tile.

        Raises:
            OSError: a slab is damaged or cannot be read.
        """
        shape = len(bands), window.height, window.width
        if out is None:
            out = np.empty(shape, self._level.dtype)
        out[...] = 0
        channels = [band - 1 for band in bands]
        for part, tile, inner in self._tiles(window):
            if tile is not None:
                out[:, *part] = np.moveaxis(tile[inner][:, :, channels], -1, 0)
        return out

    def read_masks(
        self, bands: Sequence[int], window: Window, out: Samples | None = None
    ) -> Samples:
        """Return 255 where there is a tile, otherwise 0; arguments as in `read`."""
        mask = np.zeros((len(bands), window.height, window.width), np.uint8) if out is None else out
        for part, tile, _ in self._tiles(window):
            mask[:, *part] = 0 if tile is None else 255
        return mask

    def _tiles(self, window: Window) -> Any:
        """Yield parts of a window, the tile there or None, and the part of the tile."""
        height, width = self._matrix.tile_height, self._matrix.tile_width
        limits = self._level.level.limits
        top, left = int(window.row_off), int(window.col_off)
        bottom, right = top + int(window.height), left + int(window.width)
        for row in range(top // height, (bottom - 1) // height + 1):
            rows = max(top, row * height), min(bottom, (row + 1) * height)
            for column in range(left // width, (right - 1) // width + 1):
                columns = max(left, column * width), min(right, (column + 1) * width)
                tile = self._tile(limits.min_row + row, limits.min_col + column)
                part = (
                    slice(rows[0] - top, rows[1] - top),
                    slice(columns[0] - left, columns[1] - left),
                )
                inner = np.s_[
                    rows[0] - row * height : rows[1] - row * height,
                    columns[0] - column * width : columns[1] - column * width,
                ]
                yield part, tile, inner

    def _tile(self, row: int, column: int) -> Samples | None:
        key = row, column
        if key in self._decoded:
            self._decoded.move_to_end(key)
            return self._decoded[key]
        try:
            stored = self._reader.locate(row, column)
            tile = None if stored is None else self._decoder.decode(stored.read())
        except MastabaError as error:
            raise OSError(str(error)) from None
        self._decoded[key] = tile
        if len(self._decoded) > _DECODED:
            self._decoded.popitem(last=False)
        return tile
