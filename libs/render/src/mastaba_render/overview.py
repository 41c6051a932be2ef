"""A level coarser than all stored ones, sampled from the coarsest.

In a pyramid without coarse levels, a map of few pixels over a large extent would need every tile.
It is drawn from a sample instead, so the number of tiles depends on the pixels of the map, not on
the ground it covers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba_render.mosaic import DecodedTiles, LevelPixels, Mosaic, StoredTiles, mosaic_of
from mastaba_render.native import Window

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

    A pixel is taken from the middle of those that it represents and that are in the level. If a
    tile would become smaller than 16 pixels, only one tile of each group is read, and stretched
    over the group.

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
        self.tile_width = matrix.tile_width / factor
        top, bottom, left, right = source.area
        self.area = Window(
            *(top // factor, -(-bottom // factor), left // factor, -(-right // factor))
        )

    def count(self, window: Window, around: int = 0) -> tuple[int, int]:
        """Return how many rows and columns of stored tiles a window needs."""
        down, across = self._axes(window, around)
        return down.sampled().size, across.sampled().size

    def tile_memory(self, window: Window, around: int = 0) -> int:
        """Return the maximum bytes of decoded tiles held while a window is read."""
        return self._source.tile_size * _BATCH

    def stored(self, window: Window, around: int = 0) -> StoredTiles:
        """Return the tiles to read for a window; see `LevelPixels.stored`."""
        down, across = self._axes(window, around)
        return self._source.locate(product(down.sampled().tolist(), across.sampled().tolist()))

    def read(
        self,
        window: Window,
        around: int = 0,
        stored: StoredTiles | None = None,
        kept: DecodedTiles | None = None,
    ) -> Mosaic:
        """Return the pixels of a window; see `LevelPixels.read`.

        Args:
            kept: not used, because only a few pixels of each tile are needed.
        """
        source = self._source
        down, across = self._axes(window, around)
        stored = self.stored(window, around) if stored is None else stored
        pixels = np.full((*window.shape, len(source.nodata)), source.nodata, source.dtype)
        valid = np.zeros(window.shape, np.bool_)
        places = list(product(down.sampled().tolist(), across.sampled().tolist()))
        for start in range(0, len(places), _BATCH):
            # Caching them would evict the tiles of ordinary maps.
            tiles = source.tiles(places[start : start + _BATCH], stored, {}, keep=False)
            for (row, col), tile in tiles.items():
                if tile is not None:
                    rows, cols = down.tiles == row, across.tiles == col
                    inside = np.ix_(rows, cols)
                    part = np.ix_(down.pixels[rows], across.pixels[cols])
                    mask = source.mask((row, col))
                    pixels[inside] = tile[part]
                    valid[inside] = True if mask is None else mask[part]
        return mosaic_of(pixels, valid, source.nodata)

    def _axes(self, window: Window, around: int) -> tuple[_Axis, _Axis]:
        matrix, (top, bottom, left, right) = self.level.matrix, self._source.area
        rows = window.top, window.bottom, matrix.tile_height, top, bottom
        columns = window.left, window.right, matrix.tile_width, left, right
        return self._axis(*rows), self._axis(*columns, around)

    def _axis(
        self, first: int, end: int, tile: int, lowest: int, beyond: int, around: int = 0
    ) -> _Axis:
        """Return the source of the rows or columns from ``first`` to before ``end``.

        Args:
            tile: pixels of a tile along this axis.
            lowest, beyond: first row or column of the stored pixels, and the one behind the last.
        """
        # Floats also hold positions far outside.
        middles = (np.arange(first, end, dtype=np.float64) + 0.5) * self._factor
        if around:
            middles %= around * tile
        half = self._factor / 2
        starts, ends = np.maximum(middles - half, lowest), np.minimum(middles + half, beyond)
        inside = starts < ends
        group = max(1, self._factor * _BLOCK // tile)
        tiles, pixels = np.divmod(np.floor((starts + ends)[inside] / 2), tile)
        if group > 1:
            # Each tile of a group shows its part of the tile in the middle.
            pixels = (tiles % group * tile + pixels) // group
            tiles = np.clip(
                tiles // group * group + group // 2, lowest // tile, (beyond - 1) // tile
            )
        found = np.full((2, inside.size), -1, np.int64)
        found[:, inside] = tiles, pixels
        return _Axis(*found)
