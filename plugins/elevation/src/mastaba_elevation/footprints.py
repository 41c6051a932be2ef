"""Polygons on the pixels of a level, and the choice of a level for an area (elevation.md 1.6)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba.api.catalogue import transform_points
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.ground import metres_per_unit, to_degrees
from mastaba_elevation.levels import HeightLayer, HeightLevel
from mastaba_elevation.polygons import Ring, densified
from mastaba_elevation.sampling import Budget

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, Equivalences
    from mastaba_elevation.datasets import Dataset

_LONGEST: Final = 16.0
"""Pixels of an edge between two transformed points."""
_EDGE_POINTS: Final = 4096
"""Points of a ring that are transformed at most; longer edges are approximated."""
_FAR: Final = 1e9
"""Pixels. A polygon that reaches further is not on the ground."""


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """A polygon on a level.

    Attributes:
        number: of the layer in the dataset.
        layer: the layer.
        level: one of its levels.
        rings: in pixels from the origin of the matrix.
        tiles: number of tiles inside the limits that its window touches.
        window: top, bottom, left and right in pixels; inside the limits if the dataset has no
            other layer.
    """

    number: int
    layer: HeightLayer
    level: HeightLevel
    rings: Sequence[Ring]
    tiles: int
    window: tuple[int, int, int, int]

    @property
    def pixels(self) -> int:
        top, bottom, left, right = self.window
        return (bottom - top) * (right - left)

    @property
    def cell(self) -> float:
        """Size of a pixel on the ground at the middle of the window, metres."""
        top, bottom, left, right = self.window
        x, y = self.level.places(np.array([(left + right) / 2]), np.array([(top + bottom) / 2]))
        _, latitude = to_degrees(self.layer.crs, x, y)
        where = float(latitude[0]) if math.isfinite(latitude[0]) else 0.0
        return float(self.level.cell * metres_per_unit(self.layer.crs, where))


def footprints(
    dataset: Dataset, rings: Sequence[Ring], crs: CRS, equivalences: Equivalences
) -> Iterator[Footprint]:
    """Yield the footprints of a polygon, layer by layer, from the finest level to the coarsest.

    Only those with a part inside the limits.

    Args:
        rings: in CRS units, closed. A ring across the antimeridian goes on beyond ±180.
    """
    for number, layer in enumerate(dataset.layers):
        same = equivalences.equal(crs.code, layer.crs.code)
        for level in layer.levels:
            on_level = [_on_level(ring, crs, layer, level, same=same) for ring in rings]
            found = [ring for ring in on_level if ring is not None]
            if not found:
                break
            low = np.min([ring.min(axis=0) for ring in found], axis=0)
            high = np.max([ring.max(axis=0) for ring in found], axis=0)
            if max(np.abs(low).max(), np.abs(high).max()) > _FAR:
                break
            left, top = np.floor(low).astype(int).tolist()
            right, bottom = np.ceil(high).astype(int).tolist()
            whole = (top, max(bottom, top + 1), left, max(right, left + 1))
            tiles, window = level.window(*whole)
            if not tiles:
                break
            # Another layer may have heights outside the limits of this one.
            if len(dataset.layers) > 1:
                window = whole
            yield Footprint(number, layer, level, found, tiles, window)


def affordable(
    dataset: Dataset,
    rings: Sequence[Ring],
    crs: CRS,
    equivalences: Equivalences,
    budget: Budget,
    pixels: int,
    resolution: float | None = None,
) -> Footprint | None:
    """Return the finest footprint within the limits; None where no layer has anything.

    Args:
        budget: tiles; nothing is taken from it.
        pixels: of the window at most.
        resolution: wanted size of a cell, metres.

    Raises:
        TooMuchError: there is a part inside the limits, but every level needs too much; or the
            level for the resolution does.
    """
    refused = False
    for found in _wanted(list(footprints(dataset, rings, crs, equivalences)), resolution):
        if found.pixels <= pixels and budget.fits(found.tiles, found.level.tile_size):
            return found
        refused = True
        if resolution is not None:
            break
    if refused:
        raise TooMuchError("the area is too large; ask for a coarser resolution or a smaller area")
    return None


def _wanted(found: list[Footprint], resolution: float | None) -> list[Footprint]:
    """Return the footprints whose cell is at most 1.25 times coarser than wanted, coarsest first.

    Without a resolution, and if all are coarser, all of them.
    """
    if resolution is None:
        return found
    fitting = [item for item in found if 0.8 * item.cell <= resolution]
    # Of one layer, the first that has any.
    return [item for item in reversed(fitting) if item.number == fitting[0].number] or found


def _on_level(
    ring: Ring, crs: CRS, layer: HeightLayer, level: HeightLevel, *, same: bool
) -> Ring | None:
    x, y = ring[:, 0], ring[:, 1]
    if not same:
        _, latitude = to_degrees(crs, x, y)
        known = latitude[np.isfinite(latitude)]
        where = float(np.abs(known).max()) if len(known) else 0.0
        unit = max(float(metres_per_unit(crs, min(where, 85.0))), 1e-9)
        metres = float(level.cell * metres_per_unit(layer.crs, min(where, 85.0)))
        around = float(np.hypot(*np.diff(ring, axis=0).T).sum())
        if not math.isfinite(around):
            return None
        longest = max(_LONGEST * metres / unit, around / _EDGE_POINTS)
        points = densified(ring, longest) if longest > 0 else ring
        x, y = transform_points(crs, layer.crs, points[:, 0], points[:, 1])
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            return None
    return np.column_stack(level.line(x, y, unwrap=not same))
