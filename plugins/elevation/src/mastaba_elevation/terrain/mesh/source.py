"""The tiles of the mesh of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import WGS84
from mastaba_elevation.queries.ground import Floats
from mastaba_elevation.queries.lattice import Lattice, largest_tile, lattice, memory
from mastaba_elevation.queries.levels import Budget
from mastaba_elevation.terrain.filling import REACH, with_nearest
from mastaba_elevation.terrain.mesh.datum import NODES, Shift
from mastaba_elevation.terrain.mesh.tile import Samples, mesh_tile
from mastaba_elevation.terrain.mesh.tiling import Tiling, Zoom

if TYPE_CHECKING:
    from mastaba.api.catalogue import Equivalences
    from mastaba_elevation.queries.datasets import Dataset

_FLAT: Final = 17
"""Samples on each side of a tile without any data. It is not flat in space: the Earth is round."""


class MeshSource:
    """The mesh of a dataset.

    Args:
        shifts: for each layer, what makes its heights ellipsoidal.

    Attributes:
        tiling: which tiles there are.
    """

    def __init__(
        self,
        dataset: Dataset,
        tiling: Tiling,
        shifts: tuple[Shift, ...],
        equivalences: Equivalences,
    ) -> None:
        self.tiling = tiling
        self._dataset = dataset
        self._shifts = shifts
        self._equivalences = equivalences

    @property
    def identity(self) -> object:
        """What affects the tiles in addition to the data, with a stable ``repr``."""
        return tuple(vertical.to_ellipsoid for vertical in self._dataset.verticals)

    def budget(self, z: int, tiles: int) -> Budget:
        """Return the budget of a tile that may read some stored tiles."""
        return Budget(tiles, tiles * largest_tile(self._dataset, self.tiling.levels(z)))

    def memory(self, z: int, fill: str) -> int:
        """Return about how many bytes a tile needs while it is made."""
        count = self.tiling.zoom(z).size + 2 * (_border(fill))
        levels, step = self.tiling.levels(z), self.tiling.zoom(z).step
        return memory(self._dataset, levels, count, step, WGS84)

    def tile(
        self, z: int, x: int, y: int, budget: Budget, fill: str, *, with_normals: bool
    ) -> bytes:
        """Return a tile that exists.

        Args:
            budget: of the stored tiles that may be read.
            fill: of holes, ``none`` or ``edge``.

        Raises:
            TooMuchError: it needs too many stored tiles.
            SlabFormatError, StorageError: the data cannot be read.
        """
        zoom = self.tiling.zoom(z)
        found = self._lattice(zoom, x, y, budget, 1)
        heights = found.heights
        if (found.layers < 0).any() and fill == "edge":
            heights = self._filled(zoom, x, y, budget)
        if np.isnan(heights).all():
            zoom = Zoom(z, _FLAT)
            heights = np.full((_FLAT + 2, _FLAT + 2), np.nan)
            found = Lattice(heights, np.full(heights.shape, -1, np.int32))
        heights = self._ellipsoidal(heights, found.layers, zoom, x, y)
        samples = Samples(zoom.longitudes(x), zoom.latitudes(y), heights)
        return mesh_tile(samples, self.tiling.precision(z), with_normals=with_normals)

    def _lattice(self, zoom: Zoom, x: int, y: int, budget: Budget, border: int) -> Lattice:
        longitude, latitude = zoom.longitudes(x, border), zoom.latitudes(y, border)
        levels, equal = self.tiling.levels(zoom.z), self._equivalences
        return lattice(self._dataset, longitude, latitude, WGS84, levels, budget, equal)

    def _filled(self, zoom: Zoom, x: int, y: int, budget: Budget) -> Floats:
        """Return heights whose holes have the nearest one; NaN where all are too far."""
        wide = self._lattice(zoom, x, y, budget, _border("edge")).heights
        return with_nearest(wide, ~np.isnan(wide), np.nan)

    def _ellipsoidal(
        self, heights: Floats, layers: npt.NDArray[np.int32], zoom: Zoom, x: int, y: int
    ) -> Floats:
        """Return heights above the ellipsoid, without holes.

        Args:
            heights: NaN in holes.
            layers: number of the layer of each height; -1 for those that are filled in.
        """
        heights = np.where(np.isnan(heights), self._dataset.nodata_height, heights)
        nodes = Zoom(zoom.z, NODES)
        shifts = {
            shift: shift.over(nodes.longitudes(x), nodes.latitudes(y), zoom.size)
            for shift in set(self._shifts)
        }
        if len(shifts) == 1:
            return np.asarray(heights + next(iter(shifts.values())))
        # What is filled in is above the zero surface of the first layer.
        result = heights + shifts[self._shifts[0]]
        for number, shift in enumerate(self._shifts[1:], 1):
            result = np.where(layers == number, heights + shifts[shift], result)
        return result


def _border(fill: str) -> int:
    """Return how many samples around a tile it is made of."""
    return 1 + REACH if fill == "edge" else 1
