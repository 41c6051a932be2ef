"""Tiles of the mesh in longitude and latitude, counted from the south-west (elevation.md 5.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba.api.catalogue import WGS84
from mastaba_elevation.queries.ground import Floats, metres_per_unit
from mastaba_elevation.queries.lattice import levels_for
from mastaba_elevation.terrain.mesh.globe import MAJOR
from mastaba_elevation.terrain.mesh.tile import Precision

if TYPE_CHECKING:
    from mastaba.api.catalogue import BoundingBox
    from mastaba_elevation.queries.datasets import Dataset

_COARSEST_ERROR: Final = math.tau * MAJOR * 0.25 / (65 * 2)
"""Error that Cesium assumes for the tiles of zoom 0, metres. Each zoom halves it."""
_SMALLEST_ERROR: Final = 0.05
"""Metres."""
_DEEPEST: Final = 22
_NOISE: Final = 1e-9
"""Tiles; rounding errors of boxes must not add a row of them."""


@dataclass(frozen=True, slots=True)
class Zoom:
    """The tiles of one zoom: 2^(z + 1) columns and 2^z rows.

    Attributes:
        z: number of the zoom, from 0.
        size: samples on each side of a tile.
    """

    z: int
    size: int

    @property
    def columns(self) -> int:
        return 2 << self.z

    @property
    def rows(self) -> int:
        return 1 << self.z

    @property
    def step(self) -> float:
        """Distance of samples, degrees."""
        return 180.0 / (self.rows * (self.size - 1))

    def longitudes(self, x: int, border: int = 1) -> Floats:
        """Return the longitudes of the samples of a column, and a border on each side.

        Computed from whole numbers, so both tiles of an edge have the same ones, also at ±180.
        """
        total = self.columns * (self.size - 1)
        numbers = (x * (self.size - 1) + np.arange(-border, self.size + border)) % total
        return numbers * 360.0 / total - 180.0

    def latitudes(self, y: int, border: int = 1) -> Floats:
        """Return the latitudes of the samples of a row of tiles, and a border on each side.

        Beyond a pole there is none, so the pole itself is repeated.
        """
        total = self.rows * (self.size - 1)
        numbers = y * (self.size - 1) + np.arange(-border, self.size + border)
        return np.clip(numbers, 0, total) * 180.0 / total - 90.0

    def limits(self, box: BoundingBox) -> tuple[int, int, int, int]:
        """Return the first and last column, and the first and last row, that a box touches."""
        tile = 180.0 / self.rows
        west, south = (box.xmin + 180.0) / tile, (box.ymin + 90.0) / tile
        east, north = (box.xmax + 180.0) / tile, (box.ymax + 90.0) / tile
        first_column = min(max(math.floor(west + _NOISE), 0), self.columns - 1)
        first_row = min(max(math.floor(south + _NOISE), 0), self.rows - 1)
        last_column = min(max(math.ceil(east - _NOISE) - 1, first_column), self.columns - 1)
        last_row = min(max(math.ceil(north - _NOISE) - 1, first_row), self.rows - 1)
        return first_column, last_column, first_row, last_row


class Tiling:
    """The mesh of a dataset.

    Args:
        size: samples on each side of a tile, 2^k + 1.
        factor: of the error that Cesium assumes.

    Attributes:
        last: finest zoom.
    """

    def __init__(self, dataset: Dataset, size: int, factor: float) -> None:
        self._dataset, self._size, self._factor = dataset, size, factor
        self._box = dataset.box
        cells = [
            layer.levels[0].cell
            * float(metres_per_unit(layer.crs, (self._box.ymin + self._box.ymax) / 2))
            for layer in dataset.layers
        ]
        step = self.zoom(0).step * WGS84.metres_per_unit
        needed = math.ceil(math.log2(step / min(cells)) - _NOISE)
        self.last = min(max(needed, 0), _DEEPEST)

    def zoom(self, z: int) -> Zoom:
        """Return the tiles of a zoom."""
        return Zoom(z, self._size)

    def precision(self, z: int) -> Precision:
        """Return how exact the tiles of a zoom are."""
        return Precision.of(max(_SMALLEST_ERROR, self._factor * _COARSEST_ERROR / 2**z))

    def levels(self, z: int) -> tuple[int, ...]:
        """Return the level of each layer from which a zoom is sampled."""
        return self._levels[z]

    def limits(self, z: int) -> tuple[int, int, int, int]:
        """Return the first and last column, and the first and last row, of the tiles of a zoom.

        At zoom 0 both tiles exist, because clients need the whole globe.
        """
        return (0, 1, 0, 0) if z == 0 else self.zoom(z).limits(self._box)

    def contains(self, z: int, x: int, y: int) -> bool:
        """Return whether a tile exists."""
        if not 0 <= z <= self.last:
            return False
        west, east, south, north = self.limits(z)
        return west <= x <= east and south <= y <= north

    @cached_property
    def _levels(self) -> list[tuple[int, ...]]:
        return [levels_for(self._dataset, self.zoom(z).step, WGS84) for z in range(self.last + 1)]
