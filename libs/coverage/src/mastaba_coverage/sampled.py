"""Overviews whose cells are not stored: they are computed from those of the next finer level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba_coverage.cells import Cells
from mastaba_coverage.shape import TileShape
from mastaba_coverage.sources import PixelTiles, StoredCells, WindowTiles
from mastaba_render.api.decoding import Pixels
from mastaba_render.api.resampling import Axis, StraightPositions, resampled

_MOST: Final = 16 * 1024**2
"""Bytes of stored cells that are held together."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the cells of an image are computed from stored ones.

    Attributes:
        rows, columns: of the image.
        top, left: edges of its first cell, in rows and columns of the level.
        step: cells of the level along one side of a cell of the image.
        kernel: name of the resampling kernel.
    """

    rows: int
    columns: int
    top: float
    left: float
    step: float
    kernel: str

    def positions(self, part: Cells) -> StraightPositions:
        """Return where some cells of the image are in the level."""
        return StraightPositions(
            self._axis(self.left, part.left, part.right),
            self._axis(self.top, part.top, part.bottom),
        )

    def needed(self, part: Cells) -> Cells:
        """Return the stored cells from which some cells of the image are computed."""
        positions = self.positions(part)
        window = positions.needs(self.kernel, slice(0, part.rows)).window
        return Cells(window.top, window.bottom, window.left, window.right)

    def _axis(self, edge: float, first: int, stop: int) -> Axis:
        # The same for a cell in every part, so that ranges of a file fit together.
        numbers = np.arange(first, stop, dtype=np.float64)
        return Axis(edge - 0.5 + (numbers + 0.5) * self.step, self.step)


class SampledTiles(PixelTiles):
    """Uncompressed tiles of an image that is computed.

    Each tile is computed on its own, so its bytes do not depend on what is read before.

    Args:
        stored: the cells that the image needs.
        sampling: the cells of the image.
        cells: those of the level that may be read.
        shape: of the tiles of the image.
        channels: numbers of those that the image has, in order.
        is_sparse: whether tiles are left out of which nothing is stored.
    """

    def __init__(
        self,
        stored: StoredCells,
        sampling: Sampling,
        cells: Cells,
        shape: TileShape,
        channels: Sequence[int],
        *,
        is_sparse: bool = False,
    ) -> None:
        cell_size = len(channels) * stored.dtype.itemsize
        super().__init__(shape, sampling.rows, sampling.columns, cell_size)
        self._source = stored
        self._sampling, self._cells = sampling, cells
        self._nodata, self._dtype = tuple(stored.nodata), stored.dtype
        self._channels = list(channels)
        if is_sparse:
            self.sizes[~self._touched()] = 0

    def blocks(self, first: int = 0, stop: int | None = None) -> Iterator[Pixels | None]:
        for number in range(first, len(self.sizes) if stop is None else stop):
            yield self._tile(number) if self.sizes[number] else None

    def _part(self, number: int) -> Cells:
        """Return the cells of a tile, inside the image."""
        row, col = divmod(number, self._across)
        shape, sampling = self._shape, self._sampling
        top, left = row * shape.height, col * shape.width
        return Cells(
            top,
            min(top + shape.height, sampling.rows),
            left,
            min(left + shape.width, sampling.columns),
        )

    def _touched(self) -> npt.NDArray[np.bool_]:
        """Return for each tile whether a stored one is needed that exists."""
        width, height = self._source.size
        first_row = [self._sampling.needed(self._part(n)) for n in range(self._across)]
        first_col = [
            self._sampling.needed(self._part(n)) for n in range(0, len(self.sizes), self._across)
        ]
        return self._source.block.touched(
            np.array([cells.top // height for cells in first_col]),
            np.array([(cells.bottom - 1) // height for cells in first_col]),
            np.array([cells.left // width for cells in first_row]),
            np.array([(cells.right - 1) // width for cells in first_row]),
        ).reshape(-1)

    def _tile(self, number: int) -> Pixels:
        part, shape = self._part(number), self._shape
        height = shape.height_of(number // self._across, self._sampling.rows)
        count = len(self._channels)
        tile = np.empty((height, shape.width, count), self._dtype)
        tile[:] = np.array(self._nodata, self._dtype)[self._channels]
        for piece in self._pieces(part):
            needed = self._sampling.needed(piece)
            drawn = resampled(
                self._sampling.positions(piece),
                self._sampling.kernel,
                (needed.top, needed.left),
                self._stored(needed),
                self._nodata,
            )
            tile[
                piece.top - part.top : piece.bottom - part.top,
                piece.left - part.left : piece.right - part.left,
            ] = drawn[:, :, self._channels]
        return tile

    def _pieces(self, part: Cells) -> Iterator[Cells]:
        """Yield pieces of a tile, each of which needs few enough stored cells."""
        needed = self._sampling.needed(part)
        size = needed.rows * needed.columns * len(self._nodata) * self._dtype.itemsize
        if size <= _MOST or part.rows == part.columns == 1:
            yield part
        elif part.rows >= part.columns:
            middle = (part.top + part.bottom) // 2
            yield from self._pieces(replace(part, bottom=middle))
            yield from self._pieces(replace(part, top=middle))
        else:
            middle = (part.left + part.right) // 2
            yield from self._pieces(replace(part, right=middle))
            yield from self._pieces(replace(part, left=middle))

    def _stored(self, needed: Cells) -> Pixels:
        """Return stored cells, nodata where there are none."""
        pixels = np.empty((needed.rows, needed.columns, len(self._nodata)), self._dtype)
        pixels[:] = np.array(self._nodata, self._dtype)
        inside = needed.intersection(self._cells)
        if inside is not None:
            shape = TileShape(inside.columns, inside.rows, is_tiled=False)
            window = WindowTiles(self._source, inside, shape, range(len(self._nodata)))
            found = next(window.blocks())
            assert found is not None
            pixels[
                inside.top - needed.top : inside.bottom - needed.top,
                inside.left - needed.left : inside.right - needed.left,
            ] = found
        return pixels
