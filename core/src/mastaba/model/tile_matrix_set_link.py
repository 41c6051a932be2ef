"""What a layer offers of a tile matrix set that is not its own (layer.md section 7)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from mastaba.model.crs import CRS, WGS84
from mastaba.model.layer import Layer
from mastaba.model.pyramid import Level
from mastaba.model.tile_matrix_set import TileLimits, TileMatrix, TileMatrixSet

_FINEST_RATIO: Final = 0.8
_COARSEST_RATIO: Final = 1.5


@dataclass(frozen=True, slots=True)
class TileMatrixSetLink:
    """The part of a tile matrix set in which a layer is offered (OGC 07-057r7 table 10).

    Attributes:
        limits: of each matrix offered, by its identifier, coarse to fine; at least one.
    """

    tile_matrix_set: TileMatrixSet
    limits: Mapping[str, TileLimits] = field(hash=False)

    @property
    def levels_id(self) -> str:
        """Published name in WMTS: ``<set>_<top matrix>_<bottom matrix>``."""
        names = list(self.limits)
        return f"{self.tile_matrix_set.id}_{names[0]}_{names[-1]}"

    @property
    def matrices(self) -> tuple[TileMatrix, ...]:
        """The matrices offered, coarse to fine."""
        return tuple(self.tile_matrix_set.matrices[name] for name in self.limits)


def links(layer: Layer) -> list[TileMatrixSetLink]:
    """Return what a layer offers of its extra tile matrix sets, in their order.

    Sets in which it cannot be offered are left out.
    """
    found = (link_to(layer, tile_matrix_set) for tile_matrix_set in layer.extra_tile_matrix_sets)
    return [link for link in found if link is not None]


def link_to(layer: Layer, tile_matrix_set: TileMatrixSet) -> TileMatrixSetLink | None:
    """Return what a raster layer offers of a set; None when there is nothing.

    The extent of the layer must meet the area of use of the CRS of the set, and at least one
    level of the layer must have a matrix of about its own cell size in the set.
    """
    crs = tile_matrix_set.crs
    geographic = layer.geographic_bbox.intersection(crs.area_of_use)
    if geographic is None:
        return None
    try:
        bbox = WGS84.transform_bbox(geographic, crs)
        scale = _scale(layer.pyramid.tile_matrix_set.crs, crs)
    except ValueError:
        return None
    levels = list(layer.pyramid.levels.values())
    top = _first_match(levels, tile_matrix_set, scale)
    bottom = _first_match(reversed(levels), tile_matrix_set, scale)
    if top is None or bottom is None:
        return None
    # A set may be nested the other way round than the levels that its ends were found for.
    top, bottom = sorted((top, bottom), key=lambda matrix: -matrix.cell_size)
    offered = {
        matrix.id: matrix.limits_of(bbox) for matrix in tile_matrix_set.between(top.id, bottom.id)
    }
    limits = {name: limits for name, limits in offered.items() if limits is not None}
    return TileMatrixSetLink(tile_matrix_set, MappingProxyType(limits)) if limits else None


def _first_match(
    levels: Iterable[Level], tile_matrix_set: TileMatrixSet, scale: float
) -> TileMatrix | None:
    matches = (_corresponding(level.matrix, tile_matrix_set, scale) for level in levels)
    return next((match for match in matches if match is not None), None)


def _corresponding(
    matrix: TileMatrix, tile_matrix_set: TileMatrixSet, scale: float
) -> TileMatrix | None:
    """Return the matrix of another set whose cells are about as large; None without any.

    Args:
        scale: length in the CRS of the set of one unit of the CRS of ``matrix``.
    """
    wanted = matrix.cell_size * scale
    ratios = {name: wanted / other.cell_size for name, other in tile_matrix_set.matrices.items()}
    close = [name for name, ratio in ratios.items() if _FINEST_RATIO <= ratio <= _COARSEST_RATIO]
    if not close:
        return None
    return tile_matrix_set.matrices[min(close, key=lambda name: abs(ratios[name] - 1.0))]


@lru_cache(maxsize=256)
def _scale(source: CRS, target: CRS) -> float:
    """Return the length in one CRS of a unit of another, averaged over where both are used.

    Raises:
        ValueError: there is no such place, or it cannot be given in one of them.
    """
    area = source.area_of_use.intersection(target.area_of_use)
    if area is None:
        raise ValueError(f"{source.code} and {target.code} are not used in the same place")
    one, other = WGS84.transform_bbox(area, source), WGS84.transform_bbox(area, target)
    across = (other.xmax - other.xmin) / (one.xmax - one.xmin)
    down = (other.ymax - other.ymin) / (one.ymax - one.ymin)
    return math.sqrt(across * down)
