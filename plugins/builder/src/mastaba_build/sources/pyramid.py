"""A slab pyramid as a source: one level is an image, read by the decoder of the server.

The pyramid is in files or in an object store.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rasterio.windows import Window

from mastaba.api.catalogue import CRS, TILE_FORMATS, Level, TileLimits
from mastaba.api.slabs import LevelReader
from mastaba.api.storages import Environment, FileStorage, ResourcePath, StoragePool
from mastaba.errors import MastabaError, ObjectNotFoundError
from mastaba.tooling.slabs import IndexCache, PathLayout, PrefixLayout, SlabLayout
from mastaba_build.errors import PlanError, SourceError
from mastaba_build.plugins import PluginSet
from mastaba_build.samples import Samples
from mastaba_build.sources.identity import identity_of_files
from mastaba_build.sources.listing import parse_json, read_json
from mastaba_build.sources.sets import load_set
from mastaba_render.api.decoding import TileDecoder, read_tiles

_DECODED = 40
"""Tiles that are kept: those at the border of two rows of tiles are needed twice."""
_INDICES = 64
_OBJECT_STORES = frozenset({"s3", "swift", "ceph"})
"""Drivers that are named even if they are not installed."""


@dataclass(frozen=True, slots=True)
class PyramidLevel:
    """A level of a pyramid.

    Attributes:
        descriptor: path of the descriptor, as in layers.
        storage, container: driver and container of the slabs; the container of files is empty.
        images: image directory or image prefix of the level.
        masks: the same of its mask slabs; None if the pyramid has none.
        mask_format: their format.
        path_depth: of files; 0 for objects.
        format: pyramid format.
        nodata: value of each channel.
    """

    descriptor: str
    storage: str
    container: str
    images: str
    masks: str | None
    mask_format: str | None
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

    def layout(self, directory: str) -> SlabLayout:
        """Return the layout of slabs in a directory or below a prefix."""
        if self.container:
            return PrefixLayout(directory)
        return PathLayout(directory, self.path_depth)


def read_descriptor(path: str, plugins: PluginSet) -> dict[str, Any] | None:
    """Return the descriptor of a pyramid, or None if the path is not one.

    Args:
        path: of a file, or ``s3://bucket/key.json`` and the like.

    Raises:
        PlanError: it cannot be read.
    """
    document = read_json(path)
    scheme = path.partition("://")[0]
    if document is None and path.endswith(".json") and scheme != path:
        # A document of a web server may be anything: GDAL reads it, where the network is allowed.
        is_web = scheme in ("http", "https")
        if is_web or (scheme not in plugins.load().storages and scheme not in _OBJECT_STORES):
            return None
        pool = _pool(scheme, plugins)
        try:
            document = parse_json(pool.read_full(ResourcePath.parse(path)), path)
        except (MastabaError, ValueError) as error:
            raise PlanError(f"{path}: cannot be read: {error}") from None
        finally:
            pool.close()
    if isinstance(document, dict) and isinstance(document.get("pyramids"), list):
        raise PlanError(
            f"{path}: is the descriptor of a layer; name the descriptor of its pyramid, or its "
            "archive, as the source"
        )
    if not isinstance(document, dict) or not {"levels", "tile_matrix_set"} <= document.keys():
        return None
    return document


def pyramid_level(
    path: str, document: dict[str, Any], wanted: str | None, sets: Path | None, plugins: PluginSet
) -> tuple[PyramidLevel, CRS]:
    """Return a level of a pyramid and its CRS.

    Args:
        document: the descriptor.
        wanted: identifier of the level; None for the finest one.
        sets: directory of tile matrix sets.

    Raises:
        PlanError: the descriptor is invalid, or its pyramid cannot be a source.
    """
    for where, reason in plugins.problems("pyramid", document):
        raise PlanError(f"{path}: {where or 'the descriptor'}: {reason}")
    if "raster_specifications" not in document:
        raise PlanError(f"{path}: a pyramid of vector tiles cannot be a source")
    tile_matrix_set, _ = load_set(document["tile_matrix_set"], sets, plugins)
    levels = {level["id"]: level for level in document["levels"]}
    if levels.keys() - tile_matrix_set.matrices.keys():
        raise PlanError(f"{path}: its levels are not those of {tile_matrix_set.id}")
    finest = [name for name in tile_matrix_set.matrices if name in levels][-1]
    if wanted is not None and wanted not in levels:
        raise PlanError(f"{path}: has no level {wanted!r}")
    entry = levels[wanted or finest]
    specification = document["raster_specifications"]
    matrix = tile_matrix_set.matrices[entry["id"]]
    limits = TileLimits(**entry["tile_limits"]).intersection(matrix.all_tiles)
    if limits is None:
        raise PlanError(f"{path}: level {entry['id']} has no tiles")
    try:
        nodata = tuple(float(value) for value in specification["nodata"].split(","))
    except ValueError:
        raise PlanError(f"{path}: nodata is not a list of numbers") from None
    storage, container, images, masks = _place(path, entry, plugins)
    if masks is not None and document.get("mask_format") not in TILE_FORMATS:
        raise PlanError(f"{path}: masks of format {document.get('mask_format')} cannot be read")
    level = PyramidLevel(
        descriptor=path,
        storage=storage,
        container=container,
        images=images,
        masks=masks,
        mask_format=document.get("mask_format") if masks else None,
        path_depth=entry["storage"].get("path_depth", 0),
        format=document["format"],
        channels=specification["channels"],
        nodata=nodata,
        level=Level(matrix, entry["tiles_per_width"], entry["tiles_per_height"], limits),
    )
    return level, tile_matrix_set.crs


def _place(
    path: str, entry: dict[str, Any], plugins: PluginSet
) -> tuple[str, str, str, str | None]:
    """Return driver, container, images and masks of a level, as in `PyramidLevel`."""
    storage, descriptor = entry["storage"], ResourcePath.parse(path)
    name = storage["type"].lower()
    try:
        driver = _pool(name, plugins).driver(name)
        field = driver.container_field
        kind = "directory" if field is None else "prefix"
        for key in (f"image_{kind}", *(["path_depth"] if field is None else [field])):
            if key not in storage:
                raise PlanError(f"{path}: level {entry['id']}: storage has no {key}")
        images, masks = storage[f"image_{kind}"], storage.get(f"mask_{kind}")
        if field is not None:
            beside = descriptor.container if descriptor.storage == name else None
            return name, driver.resolve_container(storage[field], beside), images, masks
    except (MastabaError, ValueError) as error:
        raise PlanError(f"{path}: level {entry['id']}: {error}") from None
    folder = os.path.dirname(descriptor.key)
    return name, "", os.path.join(folder, images), masks and os.path.join(folder, masks)


def _pool(storage: str, plugins: PluginSet) -> StoragePool:
    """Return a pool that can open a storage; files need no plugins, which take time to load."""
    drivers = {"file": FileStorage} if storage == "file" else plugins.load().storages
    return StoragePool(drivers, Environment())


class PyramidDataset:
    """Reads windows of a level, with the methods of a dataset of rasterio that `Reader` uses.

    Raises:
        SourceError: the container of the slabs cannot be opened.
    """

    def __init__(self, level: PyramidLevel, plugins: PluginSet) -> None:
        self._level = level
        self._matrix = level.level.matrix
        self._pool = _pool(level.storage, plugins)
        try:
            self._images = self._tiles_of(level.images, level.format, level.channels)
            self._masks = (
                None
                if level.masks is None or level.mask_format is None
                else self._tiles_of(level.masks, level.mask_format, 1)
            )
        except MastabaError as error:
            raise SourceError(f"{level.descriptor}: {error}") from None

    def _tiles_of(self, directory: str, format: str, channels: int) -> _Tiles:
        level = self._level
        storage = self._pool.open(level.storage, level.container)
        reader = LevelReader(
            level.level,
            level.layout(directory),
            storage,
            IndexCache(_INDICES, float("inf")),
            lambda other: self._pool.open_beside(level.storage, other, level.container),
        )
        decoder = TileDecoder(
            TILE_FORMATS[format], channels, self._matrix.tile_width, self._matrix.tile_height
        )
        return _Tiles(reader, decoder)

    def identity(self) -> str:
        """Return a text that changes with the descriptor or the slab list.

        Raises:
            OSError: the descriptor does not exist any more, or cannot be read.
        """
        path = ResourcePath.parse(self._level.descriptor)
        keys = [path.key, path.key.removesuffix(".json") + ".list"]
        if path.storage == "file":
            return identity_of_files(keys)
        try:
            storage = self._pool.open(path.storage, path.container)
            facts = [storage.stat(keys[0])]
            with suppress(ObjectNotFoundError):  # a pyramid without a slab list can be read
                facts.append(storage.stat(keys[1]))
        except MastabaError as error:
            raise OSError(str(error)) from None
        known = [(one.size, one.version, one.modified) for one in facts]
        return hashlib.sha256(repr([str(path), known]).encode()).hexdigest()

    def close(self) -> None:
        self._pool.close()

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
        for part, tile, inner in self._parts(self._images, window):
            if tile is not None:
                out[:, *part] = np.moveaxis(tile[inner][:, :, channels], -1, 0)
        return out

    def read_masks(
        self, bands: Sequence[int], window: Window, out: Samples | None = None
    ) -> Samples:
        """Return 255 where there is data, otherwise 0; arguments as in `read`.

        Without a mask slab, all pixels of a stored tile are data. In a mask, every value above 0
        is data: the ROK4 tools average masks (generation.md section 2.3).
        """
        mask = np.zeros((len(bands), window.height, window.width), np.uint8) if out is None else out
        for part, tile, _ in self._parts(self._images, window):
            mask[:, *part] = 0 if tile is None else 255
        if self._masks is not None:
            for part, tile, inner in self._parts(self._masks, window):
                if tile is not None:
                    mask[:, *part] &= np.where(tile[inner][:, :, 0] > 0, np.uint8(255), np.uint8(0))
        return mask

    def _parts(
        self, tiles: _Tiles, window: Window
    ) -> Iterator[tuple[tuple[slice, slice], Samples | None, Any]]:
        """Yield parts of a window, the tile there or None, and the part of the tile."""
        height, width = self._matrix.tile_height, self._matrix.tile_width
        limits = self._level.level.limits
        top, left = int(window.row_off), int(window.col_off)
        bottom, right = top + int(window.height), left + int(window.width)
        places = range(left // width, (right - 1) // width + 1)
        for row in range(top // height, (bottom - 1) // height + 1):
            rows = max(top, row * height), min(bottom, (row + 1) * height)
            found = tiles.row(
                limits.min_row + row, limits.min_col + places.start, limits.min_col + places.stop
            )
            for column, tile in zip(places, found, strict=True):
                columns = max(left, column * width), min(right, (column + 1) * width)
                part = (
                    slice(rows[0] - top, rows[1] - top),
                    slice(columns[0] - left, columns[1] - left),
                )
                inner = np.s_[
                    rows[0] - row * height : rows[1] - row * height,
                    columns[0] - column * width : columns[1] - column * width,
                ]
                yield part, tile, inner


class _Tiles:
    """The decoded tiles of a level, or of its masks; the latest ones are kept."""

    def __init__(self, reader: LevelReader, decoder: TileDecoder) -> None:
        self._reader = reader
        self._decoder = decoder
        self._decoded: OrderedDict[tuple[int, int], Samples | None] = OrderedDict()

    def row(self, row: int, first: int, end: int) -> list[Samples | None]:
        """Return tiles of a row; None for those that do not exist.

        Tiles that are not known are read at once, which takes few requests in an object store.

        Raises:
            OSError: a slab is damaged or cannot be read.
        """
        places = [(row, column) for column in range(first, end)]
        missing = [place for place in places if place not in self._decoded]
        try:
            for place, data in zip(missing, read_tiles(self._reader, missing), strict=True):
                self._decoded[place] = None if data is None else self._decoder.decode(data)
        except MastabaError as error:
            raise OSError(str(error)) from None
        found = []
        for place in places:
            self._decoded.move_to_end(place)
            found.append(self._decoded[place])
        while len(self._decoded) > _DECODED:
            self._decoded.popitem(last=False)
        return found
