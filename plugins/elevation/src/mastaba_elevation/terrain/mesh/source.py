"""The tiles of the mesh of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba.api.catalogue import WGS84
from mastaba_elevation.ground import Floats
from mastaba_elevation.terrain.lattice import Lattice, lattice
from mastaba_elevation.terrain.mesh.datum import NODES, Shift
from mastaba_elevation.terrain.mesh.tile import Samples, mesh_tile
from mastaba_elevation.terrain.mesh.tiling import Tiling, Zoom

if TYPE_CHECKING:
    from mastaba.api.catalogue import Equivalences
    from mastaba_elevation.datasets import Dataset
    from mastaba_elevation.sampling import Budget

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

    def tile(self, z: int, x: int, y: int, budget: Budget, *, with_normals: bool) -> bytes:
        """Return a tile that exists.

        Raises:
            TooMuchError: it needs too many stored tiles.
            SlabFormatError, StorageError: the data cannot be read.
        """
        zoom = self.tiling.zoom(z)
        longitude, latitude = zoom.longitudes(x), zoom.latitudes(y)
        found = lattice(
            self._dataset,
            longitude,
            latitude,
            WGS84,
            self.tiling.levels(z),
            budget,
            self._equivalences,
        )
        if (found.layers < 0).all():
            zoom = Zoom(z, _FLAT)
            longitude, latitude = zoom.longitudes(x), zoom.latitudes(y)
            shape = len(latitude), len(longitude)
            found = Lattice(np.full(shape, np.nan), np.full(shape, -1, np.int32))
        heights = self._ellipsoidal(found, zoom, x, y)
        samples = Samples(longitude, latitude, heights)
        return mesh_tile(samples, self.tiling.precision(z), with_normals=with_normals)

    def _ellipsoidal(self, found: Lattice, zoom: Zoom, x: int, y: int) -> Floats:
        """Return heights above the ellipsoid, without holes."""
        is_hole = found.layers < 0
        heights = np.where(is_hole, self._dataset.nodata_height, found.heights)
        nodes = Zoom(zoom.z, NODES)
        shifts = {
            shift: shift.over(nodes.longitudes(x), nodes.latitudes(y), zoom.size)
            for shift in set(self._shifts)
        }
        if len(shifts) == 1:
            return np.asarray(heights + next(iter(shifts.values())))
        # Holes are above the zero surface of the first layer.
        layers = np.where(is_hole, 0, found.layers)
        for number, shift in enumerate(self._shifts):
            heights = np.where(layers == number, heights + shifts[shift], heights)
        return heights
