"""A level coarser than all stored ones, sampled from the coarsest.

In a pyramid without coarse levels, a map of few pixels over a large extent would need every tile.
It is drawn from a sample instead, so the number of tiles depends on the pixels of the map, not on
the ground it covers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.render.mosaic import KeptTiles, LevelPixels, Mosaic, Window

_BLOCK: Final = 16
"""Most pixels of an overview, on each axis, that one stored tile may represent."""

_BATCH: Final = 32
"""Tiles decoded at a time; only a few pixels of each are kept."""

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """The source of the rows, or columns, of a window.

    Attributes:
        tiles: row or column of the stored tile, -1 outside the limits.
        pixels: row or column inside that tile.
    """

    tiles: Indices
    pixels: Indices

    def sampled(self) -> Indices:
        """Return each row or column of tiles once, ascending."""
        return np.unique(self.tiles[self.tiles >= 0])


class OverviewPixels:
    """The pixels of a level that is not stored; the counterpart of `LevelPixels`.

    A pixel is taken from the middle of those that it represents. If a tile would become smaller
    than 16 pixels, only one tile of each group is read, and stretched over the group.

    Args:
        source: the coarsest level.
        factor: cell size in cells of the source, a power of two.
    """

    def __init__(self, source: LevelPixels, factor: int) -> None:
        matrix = source.level.matrix
        self._source = source
        self._factor = factor
        self.level = replace(
            source.level,
            matrix=replace(matrix, id=f"{matrix.id}/{factor}", cell_size=matrix.cell_size * factor),
        )

    def count(self, window: Window, around: int = 0) -> tuple[int, int]:
        """Return how many rows and columns of stored tiles a window needs."""
        down, across = self._axes(window, around)
        return down.sampled().size, across.sampled().size

    def version(self, window: Window, around: int = 0) -> str | None:
        """Return a text that changes with the stored tiles; see `LevelPixels.version`."""
        version = self._source.version_of(_places(*self._axes(window, around)))
        return None if version is None else f"{self.level.matrix.id} {version}"

    def modified(self, window: Window, around: int = 0) -> float | None:
        """Return when the slabs were last modified; see `LevelPixels.modified`."""
        return self._source.modified_of(_places(*self._axes(window, around)))

    def tile_memory(self, window: Window) -> int:
        """Return the maximum bytes of decoded tiles held while a window is read."""
        return self._source.tile_size * _BATCH

    def read(self, window: Window, around: int = 0, kept: KeptTiles | None = None) -> Mosaic:
        """Return the pixels of a window.

        Args:
            around: stored tiles in a full turn of the Earth, as in `LevelPixels.read`.
            kept: not used, because only a few pixels of each tile are needed.

        Raises:
            SlabFormatError, StorageError: a tile cannot be read or decoded.
        """
        source = self._source
        down, across = self._axes(window, around)
        dtype = np.float32 if source.is_float else np.uint8
        pixels = np.empty((*window.shape, len(source.nodata)), dtype)
        pixels[:] = source.nodata
        valid = np.zeros(window.shape, np.bool_)
        places = _places(down, across)
        for start in range(0, len(places), _BATCH):
            batch = places[start : start + _BATCH]
            # Caching them would evict the tiles of ordinary maps.
            for (row, col), tile in zip(batch, source.tiles(batch, keep=False), strict=True):
                if tile is not None:
                    rows, cols = down.tiles == row, across.tiles == col
                    pixels[np.ix_(rows, cols)] = tile[
                        np.ix_(down.pixels[rows], across.pixels[cols])
                    ]
                    valid[np.ix_(rows, cols)] = True
        if source.is_float:
            valid = pixels[:, :, 0] != np.float32(source.nodata[0])
        return Mosaic(pixels, None if valid.all() else valid)

    def _axes(self, window: Window, around: int) -> tuple[_Axis, _Axis]:
        matrix, limits = self.level.matrix, self.level.limits
        return (
            self._axis(
                window.top, window.bottom, matrix.tile_height, limits.min_row, limits.max_row
            ),
            self._axis(
                window.left, window.right, matrix.tile_width, limits.min_col, limits.max_col, around
            ),
        )

    def _axis(
        self, first: int, end: int, tile: int, lowest: int, highest: int, around: int = 0
    ) -> _Axis:
        """Return the source of the rows or columns from ``first`` to before ``end``.

        Args:
            tile: pixels of a tile along this axis.
            lowest, highest: limits of the tiles along this axis.
        """
        # Floats also hold positions far outside.
        stored = np.floor((np.arange(first, end, dtype=np.float64) + 0.5) * self._factor)
        if around:
            stored %= around * tile
        group = max(1, self._factor * _BLOCK // tile)
        tiles, pixels = np.divmod(stored, tile)
        inside = (tiles >= lowest) & (tiles <= highest)
        tiles, pixels = tiles[inside], pixels[inside]
        if group > 1:
            # Each tile of a group shows its part of the tile in the middle.
            pixels = (tiles % group * tile + pixels) // group
            tiles = np.clip(tiles // group * group + group // 2, lowest, highest)
        found = np.full((2, inside.size), -1, np.int64)
        found[:, inside] = tiles, pixels
        return _Axis(*found)


def _places(down: _Axis, across: _Axis) -> list[tuple[int, int]]:
    """Return the rows and columns of all tiles to read."""
    return [(row, col) for row in down.sampled().tolist() for col in across.sampled().tolist()]
