"""Tile matrix sets from the OGC register (OGC 17-083r4 annex D; ogcapi.md section 7)."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from mastaba.api.catalogue import TileMatrix, TileMatrixSet

_REGISTER: Final = "http://www.opengis.net/def/tilematrixset/OGC/1.0/"
_SAME: Final = 1e-9
_TILE: Final = 256


class _Quadtree(NamedTuple):
    """A registered set with matrices numbered from 0, each with half the previous cell size.

    Attributes:
        origin_x, origin_y: upper left corner, easting before northing, in CRS units.
        cell_size: of matrix 0, in CRS units.
        width, height: size of matrix 0 in tiles.
        last: number of the finest matrix.
    """

    crs: str
    origin_x: float
    origin_y: float
    cell_size: float
    width: int
    height: int
    last: int


_HALF: Final = math.pi * 6378137.0
_SETS: Final = {
    "WebMercatorQuad": _Quadtree("EPSG:3857", -_HALF, _HALF, _HALF / 128, 1, 1, 24),
    "WorldCRS84Quad": _Quadtree("CRS:84", -180.0, 90.0, 180.0 / 256, 2, 1, 23),
    "WorldMercatorWGS84Quad": _Quadtree("EPSG:3395", -_HALF, _HALF, _HALF / 128, 1, 1, 24),
    "EuropeanETRS89_LAEAQuad": _Quadtree("EPSG:3035", 2e6, 5.5e6, 17578.125, 1, 1, 15),
}


def registered_name(tile_matrix_set: TileMatrixSet) -> str | None:
    """Return the name of the registered set that a set equals or is part of; None without one."""
    return next(
        (name for name, known in _SETS.items() if _is_part_of(tile_matrix_set, known)), None
    )


def registered_uri(name: str) -> str:
    """Return the URI of a registered set."""
    return f"{_REGISTER}{name}"


def _is_part_of(tile_matrix_set: TileMatrixSet, known: _Quadtree) -> bool:
    return tile_matrix_set.crs.code == known.crs and all(
        _is_same(matrix, known) for matrix in tile_matrix_set.matrices.values()
    )


def _is_same(matrix: TileMatrix, known: _Quadtree) -> bool:
    # Clients of the registered set write the number without leading zeros.
    if not (matrix.id.isascii() and matrix.id.isdigit() and str(int(matrix.id[:3])) == matrix.id):
        return False
    number = int(matrix.id)
    if number > known.last:
        return False
    factor = 2**number
    tiles = (known.width * factor, known.height * factor)
    return (
        (matrix.tile_width, matrix.tile_height) == (_TILE, _TILE)
        and (matrix.matrix_width, matrix.matrix_height) == tiles
        and math.isclose(matrix.cell_size * factor, known.cell_size, rel_tol=_SAME)
        and math.isclose(matrix.origin_x, known.origin_x, rel_tol=_SAME)
        and math.isclose(matrix.origin_y, known.origin_y, rel_tol=_SAME)
    )
