"""Writing of small slab pyramids, to directories or as objects to upload."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mastaba_writer.descriptor import LevelPlan, nodata_values, pyramid_descriptor
from mastaba_writer.documents import write_document
from mastaba_writer.slab_names import slab_object, slab_path
from mastaba_writer.slab_writer import build_slab
from mastaba_writer.tile_encoder import Pixels, encode_tile, tile_format

if TYPE_CHECKING:
    from mastaba_writer.documents import Document

__all__ = ["LevelPlan", "Tables", "TileSource", "object_pyramid", "write_pyramid"]

TileSource: TypeAlias = Callable[[str, int, int], Pixels | bytes | None]
"""Returns the tile of (level id, tile row, tile column).

An array is encoded, bytes are stored unchanged, and None means no data.
"""


Tables: TypeAlias = Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Mapping[str, Any]]]
"""Descriptions of the tables, for all levels or by level id."""


def write_pyramid(
    directory: Path,
    name: str,
    *,
    tile_matrix_set: Mapping[str, Any],
    format: str,
    levels: Sequence[LevelPlan],
    tile: TileSource,
    tile_matrix_set_id: str | None = None,
    channels: int = 3,
    nodata: Sequence[float] | None = None,
    tiles_per_width: int = 2,
    tiles_per_height: int = 2,
    path_depth: int = 2,
    tables: Tables = (),
) -> Path:
    """Write a pyramid as files and return the path of its descriptor, ``<name>.json``.

    A slab without any tile is not written, which means no data. In other slabs, missing tiles and
    tiles outside the limits become complete tiles of nodata, as raster writers store them, or
    entries of size 0 in a vector pyramid.

    Args:
        directory: directory of the descriptor and of the folder ``<name>`` with the slabs.
        name: name of the pyramid.
        tile_matrix_set: document of the set; it defines the tile size.
        format: pyramid format, for example ``TIFF_JPG_UINT8``.
        levels: levels in the order of the descriptor, which may be any order.
        tile: source of the tiles, called once per tile inside the limits.
        tile_matrix_set_id: stem of the set's file, if it differs from the document's `id`.
        channels: samples per pixel; ignored for vector pyramids, like `nodata`.
        nodata: one value per channel; by default 255 for uint8 and -99999 for float32.
        tiles_per_width: width of a slab in tiles.
        tiles_per_height: height of a slab in tiles.
        path_depth: number of directories between the level's folder and its slabs, 0 to 8.
        tables: descriptions of the vector tables.

    Raises:
        ValueError: unknown format or level, or pixels that the format cannot store.
    """
    writer = _Writer(
        tile_matrix_set, format, channels, nodata, levels, tile, tiles_per_width, tiles_per_height
    )

    def storage(level: str) -> Document:
        folder = f"{name}/DATA/{level}"
        return {"type": "FILE", "image_directory": folder, "path_depth": path_depth}

    for slab in writer.slabs():
        folder = directory / name / "DATA" / slab.level
        path = folder / slab_path(slab.column, slab.row, path_depth)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(slab.data)
    descriptor = writer.descriptor(tile_matrix_set_id, storage, tables)
    return write_document(directory / f"{name}.json", descriptor)


def object_pyramid(
    name: str,
    *,
    storage: Mapping[str, Any],
    tile_matrix_set: Mapping[str, Any],
    format: str,
    levels: Sequence[LevelPlan],
    tile: TileSource,
    tile_matrix_set_id: str | None = None,
    channels: int = 3,
    nodata: Sequence[float] | None = None,
    tiles_per_width: int = 2,
    tiles_per_height: int = 2,
    tables: Tables = (),
) -> tuple[Document, Iterator[tuple[str, bytes]]]:
    """Return the descriptor of a pyramid in object storage, and an iterator over its slabs.

    The iterator creates pairs (object name, bytes) on demand. Prefixes are
    ``<name>/DATA_<level>``. The other arguments are those of `write_pyramid`.

    Args:
        name: name of the pyramid.
        storage: storage object of all levels, without the prefix, for example
            ``{"type": "S3", "bucket_name": "maps"}``.

    Raises:
        ValueError: as in `write_pyramid`; errors of tiles are raised by the iterator.
    """
    writer = _Writer(
        tile_matrix_set, format, channels, nodata, levels, tile, tiles_per_width, tiles_per_height
    )

    def prefix(level: str) -> str:
        return f"{name}/DATA_{level}"

    def level_storage(level: str) -> Document:
        return {**storage, "image_prefix": prefix(level)}

    slabs = (
        (slab_object(prefix(slab.level), slab.column, slab.row), slab.data)
        for slab in writer.slabs()
    )
    return writer.descriptor(tile_matrix_set_id, level_storage, tables), slabs


@dataclass(frozen=True, slots=True)
class _Slab:
    level: str
    column: int
    row: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Writer:
    """Creates the descriptor and slabs of a pyramid, independent of where slabs are stored."""

    tile_matrix_set: Mapping[str, Any]
    format: str
    channels: int
    nodata: Sequence[float] | None
    levels: Sequence[LevelPlan]
    tile: TileSource
    tiles_per_width: int
    tiles_per_height: int

    def descriptor(
        self,
        tile_matrix_set_id: str | None,
        storage: Callable[[str], Document],
        tables: Tables,
    ) -> Document:
        def tables_of(level: str) -> Sequence[Mapping[str, Any]]:
            return tables.get(level, ()) if isinstance(tables, Mapping) else tables

        return pyramid_descriptor(
            tile_matrix_set_id or self.tile_matrix_set["id"],
            self.format,
            self.levels,
            slab_size=(self.tiles_per_width, self.tiles_per_height),
            storage=storage,
            channels=self.channels,
            nodata=self.nodata,
            tables=tables_of,
        )

    def slabs(self) -> Iterator[_Slab]:
        """Yield the slabs level by level, row by row."""
        for plan in self.levels:
            matrix = self.matrix(plan.id)
            rows = _blocks(plan.min_row, plan.max_row, self.tiles_per_height)
            columns = _blocks(plan.min_col, plan.max_col, self.tiles_per_width)
            for row in rows:
                for column in columns:
                    data = self.slab(plan, matrix, column, row)
                    if data is not None:
                        yield _Slab(plan.id, column, row, data)

    def slab(
        self, plan: LevelPlan, matrix: Mapping[str, Any], column: int, row: int
    ) -> bytes | None:
        tiles: list[bytes | None] = []
        for tile_row in _tiles(row, self.tiles_per_height):
            for tile_col in _tiles(column, self.tiles_per_width):
                inside = (
                    plan.min_row <= tile_row <= plan.max_row
                    and plan.min_col <= tile_col <= plan.max_col
                )
                pixels = self.tile(plan.id, tile_row, tile_col) if inside else None
                tiles.append(None if pixels is None else encode_tile(self.format, pixels))
        if not any(tiles):
            return None
        width, height = matrix["tileWidth"], matrix["tileHeight"]
        if not tile_format(self.format).is_vector and None in tiles:
            blank = encode_tile(self.format, self.nodata_tile(width, height))
            tiles = [blank if tile is None else tile for tile in tiles]
        return build_slab(
            tiles,
            format=self.format,
            channels=self.channels,
            tile_width=width,
            tile_height=height,
            tiles_per_width=self.tiles_per_width,
            tiles_per_height=self.tiles_per_height,
        )

    def matrix(self, level: str) -> Mapping[str, Any]:
        for matrix in self.tile_matrix_set["tileMatrices"]:
            if matrix["id"] == level:
                found: Mapping[str, Any] = matrix
                return found
        raise ValueError(f"no level {level!r} in the tile matrix set")

    def nodata_tile(self, width: int, height: int) -> Pixels:
        blank = np.empty((height, width, self.channels), tile_format(self.format).dtype)
        blank[:] = nodata_values(self.format, self.channels, self.nodata)
        return blank


def _blocks(first: int, last: int, size: int) -> range:
    """Return the indices of the slabs that contain the tiles from `first` to `last`."""
    return range(first // size, last // size + 1)


def _tiles(block: int, size: int) -> range:
    return range(block * size, (block + 1) * size)
