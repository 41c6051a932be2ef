"""Which levels of a layer are within limits of resolutions and scales."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba.api.catalogue import WGS84, Layer, TileMatrix, transform_points
from mastaba_access.rules.limits import EVERYTHING, Limit, Range

if TYPE_CHECKING:
    from mastaba.api.containers import TileReader

    Readers = Mapping[str, TileReader]

_RADIUS: Final = 6_371_008.8
"""Metres; mean radius of the Earth."""


def of_levels(layer: Layer, readers: Readers, limit: Limit) -> tuple[Layer, Readers] | None:
    """Return a layer with the levels within limits, in its documents too; None for no level."""
    pyramid = layer.pyramid

    def is_kept(matrix: TileMatrix) -> bool:
        return is_within(layer, matrix.cell_size, limit.resolution, limit.scale)

    kept = {key: level for key, level in pyramid.levels.items() if is_kept(level.matrix)}
    if not kept:
        return None
    # Other values may have further levels.
    matrices = pyramid.tile_matrix_set.matrices
    limits = {key: one for key, one in layer.tile_limits.items() if is_kept(matrices[key])}
    if len(kept) == len(pyramid.levels) and len(limits) == len(layer.tile_limits):
        return layer, readers
    shown = replace(
        layer,
        pyramid=replace(pyramid, levels=MappingProxyType(kept)),
        tile_limits=MappingProxyType(limits),
    )
    return shown, MappingProxyType({key: readers[key] for key in kept})


def is_within(layer: Layer, cell_size: float, resolution: Range, scale: Range) -> bool:
    """Return whether a level is within both.

    Args:
        cell_size: of the level, in units of its CRS.
        resolution: least and greatest metres per pixel at the centre of the layer.
        scale: least and greatest denominator, for pixels of 0.28 mm.
    """
    if resolution != EVERYTHING:
        metres = _pixel_size(layer, cell_size)
        if not resolution[0] * (1 - 1e-9) <= metres <= resolution[1] * (1 + 1e-9):
            return False
    denominator = cell_size * layer.pyramid.tile_matrix_set.crs.metres_per_unit / 0.00028
    return scale[0] * (1 - 1e-9) <= denominator <= scale[1] * (1 + 1e-9)


def _pixel_size(layer: Layer, cell_size: float) -> float:
    """Return the height of a pixel at the centre of a layer, in metres on the ground.

    Args:
        cell_size: of the level, in units of its CRS.
    """
    box, crs = layer.native_bbox, layer.pyramid.tile_matrix_set.crs
    x, y = (box.xmin + box.xmax) / 2, (box.ymin + box.ymax) / 2
    # A step that is small, but large enough for the digits of coordinates.
    step = max(cell_size, (box.ymax - box.ymin) * 1e-6)
    xs, ys = np.array([x, x]), np.array([y - step / 2, y + step / 2])
    lon, lat = (np.radians(one) for one in transform_points(crs, WGS84, xs, ys))
    half = np.sin(np.diff(lat) / 2) ** 2
    half += np.cos(lat[0]) * np.cos(lat[1]) * np.sin(np.diff(lon) / 2) ** 2
    metres = float(2 * _RADIUS * np.arcsin(np.sqrt(half))[0])
    return metres / step * cell_size if math.isfinite(metres) else cell_size * crs.metres_per_unit
