"""The heights in a window of a tile matrix, and the state of the tiles they come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import TileLimits
from mastaba.errors import InvalidParameterError
from mastaba_elevation.errors import TooMuchError
from mastaba_render.api.maps import (
    LevelPixels,
    MapLayer,
    MapRequest,
    Mask,
    PreparedMap,
    Sources,
    StoredTiles,
    Window,
    overlap,
)

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, TileMatrix
    from mastaba.api.services import Site
    from mastaba_elevation.queries.datasets import Dataset
    from mastaba_elevation.terrain.coverage import Member, Zoom

Values = npt.NDArray[np.float32]

_SOURCE: Final = 4
"""Pixels of a layer for each pixel of a drawn tile, in each direction. If no level is as coarse as
that, the layer has no heights in the tile."""
_PER_PIXEL: Final = 24
"""Bytes of the values and masks of a pixel."""
_KERNEL: Final = "linear"


class _WindowLayer(Protocol):
    """One layer in a window."""

    @property
    def memory(self) -> int:
        """Upper estimate of the bytes held while it is read."""

    def sources(self) -> Sources:
        """Return the state of the stored tiles."""

    def read(self) -> tuple[Values, Mask | None]:
        """Return values, shape (rows, columns), and where they are data; None for everywhere."""


class Heights:
    """The heights in a window of one matrix, from all layers of a dataset.

    Nothing is read before `sources` or `draw`.

    Args:
        crs: of the matrix.
        window: pixels of the matrix, counted from its upper left corner. Any part may be outside
            the limits.
        most: number of stored tiles that may be read.

    Attributes:
        memory: upper estimate of the bytes held while it is drawn.

    Raises:
        TooMuchError: the window needs too many tiles.
    """

    def __init__(
        self, site: Site, dataset: Dataset, crs: CRS, zoom: Zoom, window: Window, most: int
    ) -> None:
        self._shape = window.shape
        self._range = dataset.valid_range
        self._parts: list[_WindowLayer] = []
        touched = _tiles(zoom.matrix, window)
        for member in zoom.members:
            inside = member.limits.intersection(touched)
            if inside is None:
                continue
            if member.level is None:
                self._parts.append(_Drawn(site, crs, zoom.matrix, member, inside, window))
            else:
                pixels = site.renderer.level_pixels(member.layer.layer)[member.level]
                rows, columns = pixels.count(window)
                most -= rows * columns
                if most < 0:
                    raise TooMuchError("the tile needs too many stored tiles")
                self._parts.append(_Stored(pixels, window))
        self.memory = self._shape[0] * self._shape[1] * _PER_PIXEL
        self.memory += max((part.memory for part in self._parts), default=0)

    def sources(self) -> Sources:
        """Return the state of the stored tiles; after drawing, of those that were drawn.

        Raises:
            SlabFormatError, StorageError: a slab index cannot be read.
        """
        return Sources.joined([part.sources() for part in self._parts], ",")

    def draw(self) -> tuple[Values, Mask | None]:
        """Return the heights and where there are any.

        Returns:
            values, shape (rows, columns), metres, not to be changed; a mask of the same shape, or
            None if all are heights.

        Raises:
            SlabFormatError, StorageError: the tiles cannot be read.
        """
        values = np.zeros(self._shape, np.float32)
        valid: Mask | None = np.zeros(self._shape, np.bool_)
        for number, part in enumerate(self._parts):
            found, is_data = part.read()
            is_data = _within(found, is_data, *self._range)
            if number == 0:
                values, valid = found, is_data
            else:
                assert valid is not None
                more = ~valid if is_data is None else is_data & ~valid
                values, valid = np.where(more, found, values), valid | more
                valid = None if valid.all() else valid
            if valid is None:
                break
        return values, valid


class _Stored:
    """The stored pixels of a level."""

    def __init__(self, pixels: LevelPixels, window: Window) -> None:
        self._pixels, self._window = pixels, window
        self._stored: StoredTiles | None = None
        self.memory = pixels.tile_memory(window)

    def sources(self) -> Sources:
        return Sources.of(self._tiles())

    def read(self) -> tuple[Values, Mask | None]:
        mosaic = self._pixels.read(self._window, 0, self._tiles())
        return mosaic.pixels[:, :, 0], mosaic.valid

    def _tiles(self) -> StoredTiles:
        if self._stored is None:
            self._stored = self._pixels.stored(self._window)
        return self._stored


class _Drawn:
    """A layer drawn for the tiles of a matrix, so that a tile is the same in every window."""

    def __init__(
        self,
        site: Site,
        crs: CRS,
        matrix: TileMatrix,
        member: Member,
        tiles: TileLimits,
        window: Window,
    ) -> None:
        self._site, self._crs, self._matrix = site, crs, matrix
        self._layer = replace(member.layer.layer, resampling=_KERNEL)
        self._tiles, self._window = tiles, window
        stored = member.layer.layer.pyramid.coarsest.matrix
        across = _SOURCE * matrix.tile_width // stored.tile_width + 2
        down = _SOURCE * matrix.tile_height // stored.tile_height + 2
        self._limits = replace(
            site.catalogue.settings.map,
            max_layers=1,
            max_width=matrix.tile_width,
            max_height=matrix.tile_height,
            max_pixels=matrix.tile_width * matrix.tile_height,
            max_tiles_x=across,
            max_tiles_y=down,
            overviews=False,
        )
        self._maps = dict(self._prepared())
        self.memory = max((found.memory for found in self._maps.values()), default=0)

    def sources(self) -> Sources:
        return Sources.joined([found.sources() for found in self._maps.values()], ",")

    def read(self) -> tuple[Values, Mask | None]:
        values = np.zeros(self._window.shape, np.float32)
        valid = np.zeros(self._window.shape, np.bool_)
        width, height = self._matrix.tile_width, self._matrix.tile_height
        for (row, column), found in self._maps.items():
            image = found.draw()
            rows, tile_rows = overlap(row * height, height, self._window.top, self._window.bottom)
            columns, tile_columns = overlap(
                column * width, width, self._window.left, self._window.right
            )
            values[rows, columns] = image.pixels[tile_rows, tile_columns, 0]
            is_data = image.valid
            valid[rows, columns] = True if is_data is None else is_data[tile_rows, tile_columns]
        return values, valid

    def _prepared(self) -> Iterator[tuple[tuple[int, int], PreparedMap]]:
        tiles, matrix = self._tiles, self._matrix
        for row in range(tiles.min_row, tiles.max_row + 1):
            for column in range(tiles.min_col, tiles.max_col + 1):
                wanted = MapRequest(
                    (MapLayer(self._layer, None),),
                    matrix.bbox_of(TileLimits(row, row, column, column)),
                    self._crs,
                    matrix.tile_width,
                    matrix.tile_height,
                )
                try:
                    found = self._site.renderer.prepare(wanted, self._limits)
                except InvalidParameterError:  # far coarser than the layer
                    continue
                if not found.is_empty:
                    yield (row, column), found


def _tiles(matrix: TileMatrix, window: Window) -> TileLimits:
    """Return the tiles that a window touches, which may be outside the matrix."""
    return TileLimits(
        window.top // matrix.tile_height,
        (window.bottom - 1) // matrix.tile_height,
        window.left // matrix.tile_width,
        (window.right - 1) // matrix.tile_width,
    )


def _within(values: Values, valid: Mask | None, lowest: float, highest: float) -> Mask | None:
    """Return where values are heights; None for everywhere."""
    # In this form the condition also finds NaN.
    inside = (values >= np.float32(lowest)) & (values <= np.float32(highest))
    if valid is not None:
        inside &= valid
    return None if inside.all() else inside
