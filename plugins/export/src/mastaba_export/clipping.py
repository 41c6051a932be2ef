"""Pixels outside of an area get no data."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mastaba_export.selection import Edges, cells_inside, edges_of, inside_of
from mastaba_render.api.decoding import TileDecoder
from mastaba_writer.tile_encoder import encode_tile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mastaba.api.catalogue import Pyramid, TileLimits, TileMatrix
    from mastaba_export.selection import Area

WITH_ALPHA = (2, 4)
NO_DATA = (0,)
"""Value of the cells of masks without data."""


class Clip:
    """Clips the tiles of a level to an area; may be called in several threads.

    Args:
        area: in the CRS of the level.
        pyramid: a raster pyramid.
    """

    def __init__(self, area: Area, matrix: TileMatrix, pyramid: Pyramid) -> None:
        raster = pyramid.raster
        assert raster is not None
        size = matrix.tile_width, matrix.tile_height
        self._area = area
        self._matrix = matrix
        self._format = pyramid.format.name
        self._decoder = TileDecoder(pyramid.format, raster.channels, *size)
        self._has_alpha = raster.channels in WITH_ALPHA
        self._nodata = raster.nodata

    def crossed(self, block: TileLimits) -> npt.NDArray[np.bool_]:
        """Return which tiles of a block have something outside, about; shape (rows, columns)."""
        return self._edges.crossed(block)

    @cached_property
    def _edges(self) -> Edges:
        return Edges(edges_of(self._area, self._matrix))

    def __call__(self, row: int, column: int, payload: bytes) -> bytes:
        """Return a tile without what is outside; the same bytes if nothing is.

        Pixels belong to the area if their middle does.

        Raises:
            SlabFormatError: the tile cannot be decoded.
        """
        outside = ~inside_of(self._area, self._matrix, row, column)
        if not outside.any():
            return payload
        pixels: npt.NDArray[Any] = np.array(self._decoder.decode(payload))
        if self._has_alpha:
            pixels[outside, -1] = 0
        else:
            pixels[outside] = self._nodata
        return encode_tile(self._format, pixels)


class CellClip:
    """Clips the cells of a raster to an area; may be called in several threads.

    Args:
        area: in the CRS of the coverage.
        nodata: of each channel.
        has_alpha: whether the last channel is alpha, which gets 0 instead.
    """

    def __init__(self, area: Area, nodata: Sequence[float], *, has_alpha: bool) -> None:
        self._area = area
        self._nodata = nodata
        self._has_alpha = has_alpha

    def __call__(
        self, matrix: TileMatrix, top: int, left: int, pixels: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        """Return cells without what is outside; see `mastaba_coverage.CompressedFile`."""
        outside = ~cells_inside(self._area, matrix, top, left, pixels.shape[:2])
        if not outside.any():
            return pixels
        found = pixels.copy()
        if self._has_alpha:
            found[outside, -1] = 0
        else:
            found[outside] = self._nodata
        return found
