"""Where a dataset has tiles: the layers, limits and zooms in a tile matrix set (elevation.md 4.2).

A layer whose pixels lie on the grid of a matrix is *aligned* there: its stored pixels are used as
they are. Other layers are drawn for the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import (
    CRS,
    WGS84,
    BoundingBox,
    Equivalences,
    TileLimits,
    TileMatrix,
    TileMatrixSet,
    link_to,
)
from mastaba.api.web import printable
from mastaba.errors import TileOutOfRangeError, UnknownNameError

if TYPE_CHECKING:
    from mastaba_elevation.queries.datasets import Dataset
    from mastaba_elevation.queries.levels import HeightLayer

WEB_MERCATOR: Final = "WebMercatorQuad"
_FINEST: Final = 24
_TILE: Final = 256
_HALF: Final = math.pi * 6378137.0

_DRIFT: Final = 0.01
"""Pixels by which two grids may differ anywhere and still be the same."""


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A layer of a dataset in one matrix.

    Attributes:
        layer: the layer.
        limits: its tiles in the matrix.
        level: the level with the same pixels as the matrix; None if the layer is drawn.
    """

    layer: HeightLayer
    limits: TileLimits
    level: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Zoom:
    """A matrix in which a dataset has tiles.

    Attributes:
        matrix: the matrix.
        members: layers in order of preference.
    """

    matrix: TileMatrix
    members: tuple[Member, ...]

    def contains(self, row: int, column: int, width: int = 1) -> bool:
        """Return whether a square of tiles touches the limits of a layer."""
        square = TileLimits(row, row + width - 1, column, column + width - 1)
        return any(member.limits.intersection(square) for member in self.members)


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """The tiles of a dataset in one set.

    Attributes:
        tile_matrix_set: the set.
        zooms: by identifier of the matrix, coarse to fine; not empty.
    """

    tile_matrix_set: TileMatrixSet
    zooms: Mapping[str, Zoom]

    @property
    def first(self) -> int:
        """Rank in the set of the coarsest zoom, 0 for the coarsest matrix."""
        return list(self.tile_matrix_set.matrices).index(next(iter(self.zooms)))

    @property
    def last(self) -> int:
        """Rank in the set of the finest zoom."""
        return list(self.tile_matrix_set.matrices).index(list(self.zooms)[-1])

    def zoom(self, name: str, *, doubled: bool = False) -> Zoom:
        """Return the zoom whose pixels make the tiles of a matrix.

        Args:
            name: identifier of the matrix.
            doubled: whether the tiles have twice as many pixels as usual, which are those of the
                next finer matrix.

        Raises:
            UnknownNameError: the set has no such matrix.
            TileOutOfRangeError: the dataset has no such tiles.
        """
        matrix = self.tile_matrix_set.matrices.get(name)
        if matrix is None:
            raise UnknownNameError(f"there is no tile matrix {printable(name)}", "z")
        found = self.zooms.get(name)
        if doubled:
            finer = finer_than(self.tile_matrix_set, matrix)
            found = None if finer is None else self.zooms.get(finer.id)
        if found is None:
            raise TileOutOfRangeError(f"there are no tiles in {printable(name)}", ["z"])
        return found


@lru_cache(maxsize=1)
def web_mercator() -> TileMatrixSet:
    """Return WebMercatorQuad (OGC 17-083r4, annex D.1), with 25 matrices."""
    cell = 2 * _HALF / _TILE
    matrices = (
        TileMatrix(str(z), cell / 2**z, -_HALF, _HALF, _TILE, _TILE, 2**z, 2**z)
        for z in range(_FINEST + 1)
    )
    return TileMatrixSet.of(WEB_MERCATOR, CRS.from_code("EPSG:3857"), matrices)


def finer_than(tile_matrix_set: TileMatrixSet, matrix: TileMatrix) -> TileMatrix | None:
    """Return the matrix with half the cells of another one and the same tiles, or None."""
    for other in tile_matrix_set.matrices.values():
        same = (other.origin_x, other.origin_y) == (matrix.origin_x, matrix.origin_y)
        same &= (other.tile_width, other.tile_height) == (matrix.tile_width, matrix.tile_height)
        if same and math.isclose(2 * other.cell_size, matrix.cell_size, rel_tol=1e-9):
            return other
    return None


def coverage_of(
    dataset: Dataset, name: str | None, equivalences: Equivalences, overzoom: int
) -> Coverage:
    """Return the tiles of a dataset in a set.

    Args:
        name: identifier of a set in which a layer is stored or offered; None for Web Mercator.
        overzoom: matrices beyond the finest level.

    Raises:
        UnknownNameError: the dataset has no tiles in this set.
    """
    tile_matrix_set = _named(dataset, name)
    matrices = list(tile_matrix_set.matrices.values())
    offers = [_offer(layer, tile_matrix_set, equivalences) for layer in dataset.layers]
    ranks = [rank for offer in offers if offer is not None for rank in offer.ranks]
    if not ranks:
        raise _no_set(name)
    found: dict[str, Zoom] = {}
    last = min(max(ranks) + overzoom, len(matrices) - 1)
    for rank in range(last, min(ranks) - 1, -1):
        matrix = matrices[rank]
        members = tuple(
            Member(layer, limits, offer.levels.get(matrix.id))
            for layer, offer in zip(dataset.layers, offers, strict=True)
            if offer is not None and rank >= min(offer.ranks)
            if (limits := offer.limits(matrix)) is not None
        )
        if members:
            found[matrix.id] = Zoom(matrix, members)
    return Coverage(tile_matrix_set, MappingProxyType(dict(reversed(found.items()))))


@dataclass(frozen=True, slots=True, eq=False)
class _Offer:
    """A layer in a set.

    Attributes:
        ranks: of the matrices that fit its levels.
        given: limits by identifier of the matrix, if they are known.
        levels: aligned levels by identifier of the matrix.
        box: extent in the CRS of the set.
    """

    ranks: tuple[int, ...]
    given: Mapping[str, TileLimits]
    levels: Mapping[str, str]
    box: BoundingBox

    def limits(self, matrix: TileMatrix) -> TileLimits | None:
        return self.given.get(matrix.id) or matrix.limits_of(self.box)


def _offer(
    layer: HeightLayer, tile_matrix_set: TileMatrixSet, equivalences: Equivalences
) -> _Offer | None:
    order = {name: rank for rank, name in enumerate(tile_matrix_set.matrices)}
    pyramid = layer.layer.pyramid
    if equivalences.equal(layer.crs.code, tile_matrix_set.crs.code):
        limits: dict[str, TileLimits] = {}
        levels: dict[str, str] = {}
        for name, level in pyramid.levels.items():
            matrix = _aligned(level.matrix, tile_matrix_set)
            found = None if matrix is None else matrix.limits_of(level.matrix.bbox_of(level.limits))
            if matrix is not None and found is not None:
                limits[matrix.id], levels[matrix.id] = found, name
        if pyramid.finest.matrix.id in levels.values():
            box = pyramid.finest.matrix.bbox_of(pyramid.finest.limits)
            return _Offer(tuple(order[name] for name in limits), limits, levels, box)
    link = link_to(layer.layer, tile_matrix_set)
    if link is None:
        return None
    box = WGS84.transform_bbox(
        layer.layer.geographic_bbox.intersection(link.tile_matrix_set.crs.area_of_use)
        or layer.layer.geographic_bbox,
        tile_matrix_set.crs,
    )
    return _Offer(tuple(order[name] for name in link.limits), link.limits, {}, box)


def _aligned(stored: TileMatrix, tile_matrix_set: TileMatrixSet) -> TileMatrix | None:
    """Return the matrix of a set with the pixels of a stored one, or None."""
    for matrix in tile_matrix_set.matrices.values():
        cell, across = matrix.cell_size, matrix.tile_width * matrix.matrix_width
        drift = abs(stored.cell_size - cell) / cell * across
        shift = max(abs(stored.origin_x - matrix.origin_x), abs(stored.origin_y - matrix.origin_y))
        if drift < _DRIFT and shift / cell < _DRIFT:
            return matrix
    return None


def _named(dataset: Dataset, name: str | None) -> TileMatrixSet:
    if name in (None, WEB_MERCATOR):
        return web_mercator()
    for item in dataset.layers:
        layer = item.layer
        for found in (layer.pyramid.tile_matrix_set, *layer.extra_tile_matrix_sets):
            if found.id == name:
                return found
    raise _no_set(name)


def _no_set(name: str | None) -> UnknownNameError:
    name = printable(name or WEB_MERCATOR)
    return UnknownNameError(f"the dataset has no tiles in the tile matrix set {name}", "tms")
