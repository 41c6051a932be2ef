"""The values of stored tiles: decoded, with nodata where the level shows nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mastaba_render.api.areas import MaskedLevelReader
from mastaba_render.api.decoding import TileDecoder

if TYPE_CHECKING:
    import numpy.typing as npt

    from mastaba.api.catalogue import Pyramid
    from mastaba.api.containers import StoredTile, TileReader
    from mastaba_render.api.decoding import Pixels


def located(reader: TileReader, places: Sequence[tuple[int, int]]) -> list[StoredTile | None]:
    """Return the tiles of a container as they are stored, also if an area cuts them.

    Errors are those of `TileReader.locate_all`.
    """
    if isinstance(reader, MaskedLevelReader):
        return reader.locate_sources(places)
    return reader.locate_all(places)


class StoredValues:
    """Decodes the tiles of a level.

    Args:
        pyramid: a raster pyramid.
        reader: of the level.
        around: number of columns after which the same tiles follow again; 0 if they do not.

    Attributes:
        nbytes: bytes of a decoded tile.
    """

    def __init__(self, pyramid: Pyramid, reader: TileReader, around: int = 0) -> None:
        raster, matrix = pyramid.raster, reader.level.matrix
        assert raster is not None
        self._decoder = reader.decoder or TileDecoder(
            pyramid.format, raster.channels, matrix.tile_width, matrix.tile_height
        )
        self.nbytes: int = self._decoder.nbytes
        self._size = matrix.tile_height, matrix.tile_width
        self._window = reader.level.window
        # Tiles of slabs are masked when they are read.
        self._masked = None
        if isinstance(reader, MaskedLevelReader) and not reader.has_slabs:
            self._masked = reader
        self._nodata = np.array(raster.nodata, pyramid.format.sample)
        self._around = around

    def decode(self, place: tuple[int, int], payload: bytes) -> Pixels:
        """Return the pixels of a tile: shape (rows, columns, channels), perhaps read-only.

        Args:
            place: row and column of the tile.

        Raises:
            SlabFormatError: the payload is damaged.
        """
        pixels: Pixels = self._decoder.decode(payload)
        outside = self._outside(place)
        if outside is not None:
            pixels = pixels.copy()
            pixels[outside] = self._nodata
        area = self._area(place)
        if area is not None:
            assert self._masked is not None
            pixels = self._masked.masking.pixels(pixels, area)
        return pixels

    def is_cut(self, place: tuple[int, int]) -> bool:
        """Return whether a stored tile has pixels that the level does not show."""
        return self._outside(place) is not None or self._area(place) is not None

    def _outside(self, place: tuple[int, int]) -> npt.NDArray[np.bool_] | None:
        """Return which pixels are beyond the data window; None if none are."""
        if self._window is None:
            return None
        (row, col), (height, width) = self._place(place), self._size
        columns, rows = self._window[0] - col * width, self._window[1] - row * height
        if columns >= width and rows >= height:
            return None
        mask = np.ones(self._size, np.bool_)
        mask[: max(rows, 0), : max(columns, 0)] = False
        return mask

    def _area(self, place: tuple[int, int]) -> npt.NDArray[np.bool_] | None:
        return None if self._masked is None else self._masked.mask(*self._place(place))

    def _place(self, place: tuple[int, int]) -> tuple[int, int]:
        row, col = place
        return row, col - self._around if 0 < self._around <= col else col
