"""The extra tile matrix sets in which a layer is offered (layer.md section 7)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from mastaba.model.crs import CRS, WGS84
from mastaba.model.layer import Layer
from mastaba.model.tile_matrix_set import TileLimits, TileMatrix, TileMatrixSet

_FINEST_RATIO: Final = 0.8
_COARSEST_RATIO: Final = 1.5


@dataclass(frozen=True, slots=True)
class TileMatrixSetLink:
    """The part of a tile matrix set in which a layer is offered (OGC 07-057r7 table 10).

    Attributes:
        tile_matrix_set: the set.
        limits: limits of each offered matrix, by identifier, coarse to fine; at least one.
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
        """The offered matrices, coarse to fine."""
        return tuple(self.tile_matrix_set.matrices[name] for name in self.limits)


def all_links(layer: Layer) -> list[TileMatrixSetLink]:
    """Return the link of a layer to the set in which it is stored, then those of `links`."""
    pyramid = layer.pyramid
    limits = layer.tile_limits or {name: level.limits for name, level in pyramid.levels.items()}
    return [TileMatrixSetLink(pyramid.tile_matrix_set, MappingProxyType(limits)), *links(layer)]


def links(layer: Layer) -> list[TileMatrixSetLink]:
    """Return the links of a layer to its extra tile matrix sets, in their order.

    Sets in which the layer cannot be offered are omitted.
    """
    found = (link_to(layer, tile_matrix_set) for tile_matrix_set in layer.extra_tile_matrix_sets)
    return [link for link in found if link is not None]


def link_to(layer: Layer, tile_matrix_set: TileMatrixSet) -> TileMatrixSetLink | None:
    """Return the link of a raster layer to a set, or None if it cannot be offered in the set.

    The extent of the layer must intersect the area of use of the CRS of the set, and the set must
    have a matrix with about the same cell size as one of the levels of the layer.
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
    levels = layer.pyramid.levels.values()
    matches = [_corresponding(level.matrix, tile_matrix_set, scale) for level in levels]
    found = [match for match in matches if match is not None]
    if not found:
        return None
    # The matrices found for the coarsest and finest level may be in reverse order.
    top, bottom = sorted((found[0], found[-1]), key=lambda matrix: -matrix.cell_size)
    matrices = tile_matrix_set.between(top.id, bottom.id)
    offered = {matrix.id: matrix.limits_of(bbox) for matrix in matrices}
    limits = {name: limits for name, limits in offered.items() if limits is not None}
    return TileMatrixSetLink(tile_matrix_set, MappingProxyType(limits)) if limits else None


def _corresponding(
    matrix: TileMatrix, tile_matrix_set: TileMatrixSet, scale: float
) -> TileMatrix | None:
    """Return the matrix of another set with about the same cell size, or None.

    Args:
        matrix: matrix to compare with.
        tile_matrix_set: the other set.
        scale: length of one CRS unit of ``matrix``, in CRS units of the other set.
    """
    wanted = matrix.cell_size * scale
    ratios = {name: wanted / other.cell_size for name, other in tile_matrix_set.matrices.items()}
    close = [name for name, ratio in ratios.items() if _FINEST_RATIO <= ratio <= _COARSEST_RATIO]
    if not close:
        return None
    return tile_matrix_set.matrices[min(close, key=lambda name: abs(ratios[name] - 1.0))]


@lru_cache(maxsize=256)
def _scale(source: CRS, target: CRS) -> float:
    """Return the length of one unit of ``source`` in units of ``target``.

    It is averaged over the common area of use.

    Raises:
        ValueError: there is no common area, or it cannot be transformed.
    """
    area = source.area_of_use.intersection(target.area_of_use)
    if area is None:
        raise ValueError(f"{source.code} and {target.code} have no common area of use")
    one, other = WGS84.transform_bbox(area, source), WGS84.transform_bbox(area, target)
    across = (other.xmax - other.xmin) / (one.xmax - one.xmin)
    down = (other.ymax - other.ymin) / (one.ymax - one.ymin)
    return math.sqrt(across * down)
