"""The contour lines of a dataset, tile by tile (elevation.md 6.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba_elevation.queries.ground import Floats
from mastaba_elevation.queries.lattice import largest_tile, lattice, levels_for, memory
from mastaba_elevation.queries.levels import Budget
from mastaba_elevation.terrain.contours.intervals import Height, Intervals
from mastaba_elevation.terrain.contours.lines import (
    EXTENT,
    Lines,
    simplified,
    traced,
    without_small_rings,
)
from mastaba_writer.vector_tile_writer import Feature, encode_vector_tile

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, Equivalences
    from mastaba_elevation.queries.datasets import Dataset
    from mastaba_elevation.terrain.settings import ContourSettings

INTERVALS: Final = 256
"""Between the nodes on each side of a tile."""
BORDER: Final = 4
"""Further intervals on each side, so that clients see no ends of lines."""

_HALF: Final = math.pi * 6378137.0
_SMALL: Final = 16
"""Units; smaller rings are left out except at the finest zoom."""
_REACH: Final = 3.0
"""Standard deviations at which smoothing ends."""
_TRACED: Final = 16 * 1024**2
"""Bytes of the grid and the lines of a tile, which have about 100 bytes for each point."""


class ContourSource:
    """The contour lines of a dataset.

    Args:
        crs: Web Mercator.
        last: finest zoom of the data.

    Attributes:
        intervals: heights of the lines.
    """

    def __init__(
        self,
        dataset: Dataset,
        crs: CRS,
        last: int,
        settings: ContourSettings,
        equivalences: Equivalences,
    ) -> None:
        accuracy = dataset.vertical.accuracy
        known = accuracy if isinstance(accuracy, int | float) else None
        self.intervals = Intervals(settings.intervals, settings.unit, known)
        self._dataset, self._crs, self._last = dataset, crs, last
        self._settings, self._equivalences = settings, equivalences

    def budget(self, z: int, tiles: int) -> Budget:
        """Return the budget of a tile that may read some stored tiles."""
        return Budget(tiles, tiles * largest_tile(self._dataset, self._levels(z)))

    def memory(self, z: int) -> int:
        """Return about how many bytes a tile needs while it is made."""
        count = INTERVALS + 1 + 2 * self._border(z)
        return memory(self._dataset, self._levels(z), count, _step(z), self._crs) + _TRACED

    def tile(self, z: int, x: int, y: int, budget: Budget) -> bytes:
        """Return a vector tile; empty without lines.

        Raises:
            TooMuchError: it needs too many stored tiles.
            SlabFormatError, StorageError: the data cannot be read.
        """
        if z < self.intervals.first:
            return b""
        grid = self._grid(z, x, y, budget)
        known = grid[~np.isnan(grid)]
        if not len(known):
            return b""
        scale = self.intervals.scale
        lowest, highest = float(known.min()) * scale, float(known.max()) * scale
        climb = float(sum(np.nansum(np.abs(np.diff(grid, axis=axis))) for axis in (0, 1))) * scale
        heights = self.intervals.heights(z, lowest, highest, climb)
        lines = traced(grid, [height.value / scale for height in heights], BORDER, INTERVALS)
        if z < self._last:
            lines = without_small_rings(simplified(lines, self._settings.simplify), _SMALL)
        return self._encoded(lines, heights)

    def _grid(self, z: int, x: int, y: int, budget: Budget) -> Floats:
        """Return the heights of the nodes of a tile and its border, NaN in holes."""
        border = self._border(z)
        total = INTERVALS << z
        columns = (x * INTERVALS + np.arange(-border, INTERVALS + border + 1)) % total
        rows = y * INTERVALS + np.arange(-border, INTERVALS + border + 1)
        # From whole numbers, so that two tiles have the same nodes.
        east = columns.astype(np.float64) * (2.0 * _HALF / total) - _HALF
        north = _HALF - rows.astype(np.float64) * (2.0 * _HALF / total)
        levels = self._levels(z)
        found = lattice(self._dataset, east, north, self._crs, levels, budget, self._equivalences)
        sigma = self._sigma(z)
        return smoothed(found.heights, sigma, border - BORDER) if sigma else found.heights

    def _levels(self, z: int) -> tuple[int, ...]:
        return levels_for(self._dataset, _step(z), self._crs)

    def _sigma(self, z: int) -> float:
        # The finest data and what is interpolated from it are smooth enough only when smoothed.
        return self._settings.smooth if z >= self._last - 1 else 0.0

    def _border(self, z: int) -> int:
        return BORDER + math.ceil(_REACH * self._sigma(z))

    def _encoded(self, lines: Lines, heights: list[Height]) -> bytes:
        names = self._settings
        features = [
            Feature(
                "LINESTRING",
                parts,
                {names.ele: height.value, names.level: height.level, names.index: height.index},
            )
            for number, height in enumerate(heights)
            if (parts := lines.parts(number))
        ]
        return encode_vector_tile({names.layer: features}, EXTENT)


def smoothed(grid: Floats, sigma: float, reach: int) -> Floats:
    """Return a grid without its border, smoothed by a Gaussian; holes stay holes.

    Args:
        grid: NaN in holes.
        sigma: standard deviation, nodes.
        reach: nodes on each side that are averaged, and by which the result is smaller.
    """
    offsets = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (offsets / sigma) ** 2)
    known = ~np.isnan(grid)
    values = _convolved(np.where(known, grid, 0.0), weights)
    total = _convolved(known.astype(np.float64), weights)
    is_hole = ~known[reach:-reach, reach:-reach]
    return np.where(is_hole, np.nan, values / np.where(is_hole, 1.0, total))


def _convolved(grid: Floats, weights: Floats) -> Floats:
    """Return weighted sums of rows, then of columns, always in the order of the nodes."""
    height, width = (size - len(weights) + 1 for size in grid.shape)
    rows = sum(weight * grid[at : at + height] for at, weight in enumerate(weights.tolist()))
    columns = sum(weight * rows[:, at : at + width] for at, weight in enumerate(weights.tolist()))
    return np.asarray(columns)


def _step(z: int) -> float:
    """Return the distance of nodes, metres of Web Mercator."""
    return math.ldexp(2.0 * _HALF / INTERVALS, -z)
