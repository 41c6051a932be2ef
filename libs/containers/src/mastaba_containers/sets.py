"""The tile matrix set in which a container is published.

A known set is found by its definition, not by its name: two files of one grid may have other names
and other last digits. If no known set has the grid, the container's own one is published.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import (
    CRS,
    BoundingBox,
    Equivalences,
    TileLimits,
    TileMatrix,
    TileMatrixSet,
)
from mastaba.errors import ContainerFormatError

if TYPE_CHECKING:
    from mastaba.api.containers import Context, Source

OWN: Final = "own"
"""The value of the option ``tile_matrix_set`` that keeps the grid of the container."""
WEB_MERCATOR_QUAD: Final = "WebMercatorQuad"

_HALF: Final = 20037508.3427892
"""Half of the equator in Web Mercator, metres (OGC 17-083r4, annex D.1)."""
_CELL: Final = 156543.033928041
"""Metres of a pixel of zoom 0, from the same table."""
_FINEST: Final = 24
_EDGE: Final = 85.0511287798066
"""Degrees of latitude at the edge of Web Mercator."""
_PLACE: Final = 0.01
"""Pixels by which an origin may differ."""
_DRIFT: Final = 0.1
"""Pixels by which an edge may differ because cells have other sizes."""
_EQUAL: Final = Equivalences({"EPSG:3857": ["EPSG:900913", "EPSG:3785", "ESRI:102100"]})
"""Codes of one CRS: former ones of Web Mercator, and CRS:84 beside EPSG:4326."""


@dataclass(frozen=True, slots=True)
class GridPlacement:
    """Where a grid of a container lies in a matrix of the published set.

    Attributes:
        matrix: of the published set.
        rows, columns: added to those of the container.
    """

    matrix: TileMatrix
    rows: int = 0
    columns: int = 0

    def limits(self, own: TileLimits) -> TileLimits:
        """Return limits of the container as limits of the matrix."""
        return TileLimits(
            own.min_row + self.rows,
            own.max_row + self.rows,
            own.min_col + self.columns,
            own.max_col + self.columns,
        )


@dataclass(frozen=True, slots=True)
class Match:
    """The set in which a container is published.

    Attributes:
        tile_matrix_set: a known set, or the container's own.
        places: by the identifier of the container's own matrix.
    """

    tile_matrix_set: TileMatrixSet
    places: Mapping[str, GridPlacement] = field(hash=False)


def published(
    context: Context,
    own: TileMatrixSet,
    limits: Mapping[str, TileLimits] | None = None,
    wanted: str | None = None,
) -> Match:
    """Return the set in which a container is published.

    Args:
        own: the grids of the container, with an identifier that is free.
        limits: the tiles that exist, by the identifier of the matrix; whole matrices without.
        wanted: option ``tile_matrix_set``: the identifier of a known set, ``own``, or None for the
            first known set that has all grids, and ``own`` if there is none.

    Raises:
        ContainerFormatError: the wanted set is unknown, or has other grids.
    """
    if wanted not in (None, OWN):
        known = context.named_set(wanted)
        found = match(own, known, limits)
        if found is None:
            raise ContainerFormatError(
                f"its grid is not that of the tile matrix set {known.id}, which the option "
                f'tile_matrix_set names: remove the option, or write "{OWN}"'
            )
        return found
    if wanted is None:
        for known in context.known_sets():
            found = match(own, known, limits)
            if found is not None:
                return found
    own_places = {name: GridPlacement(matrix) for name, matrix in own.matrices.items()}
    return Match(own, MappingProxyType(own_places))


def match(
    own: TileMatrixSet, known: TileMatrixSet, limits: Mapping[str, TileLimits] | None = None
) -> Match | None:
    """Return the places of all grids in a known set, or None if one of them is not in it."""
    if not are_equal(own.crs, known.crs):
        return None
    places: dict[str, GridPlacement] = {}
    for name, matrix in own.matrices.items():
        inside = matrix.all_tiles if limits is None else limits.get(name, matrix.all_tiles)
        place = place_in(known.matrices.values(), matrix, inside)
        if place is None:
            return None
        places[name] = place
    return Match(known, MappingProxyType(places))


def are_equal(one: CRS, other: CRS) -> bool:
    """Return whether two CRSs have the same coordinates in x, y order."""
    return _EQUAL.equal(one.code, other.code)


def place_in(
    matrices: Iterable[TileMatrix], own: TileMatrix, limits: TileLimits
) -> GridPlacement | None:
    """Return where a grid lies in the matrices of a set, or None if none of them has it.

    Tiles have the same size. Corners of tiles differ by at most 0.01 pixel at the origin, and by
    0.1 pixel at the far edge of the limits. The limits, moved by whole tiles, are in the matrix.
    """
    rows, columns = limits.max_row + 1, limits.max_col + 1
    for matrix in matrices:
        if (matrix.tile_width, matrix.tile_height) != (own.tile_width, own.tile_height):
            continue
        cell = matrix.cell_size
        pixels = max(columns * own.tile_width, rows * own.tile_height)
        if abs(own.cell_size - cell) * pixels > _DRIFT * cell:
            continue
        right = (own.origin_x - matrix.origin_x) / cell
        down = (matrix.origin_y - own.origin_y) / cell
        place = GridPlacement(matrix, round(down / own.tile_height), round(right / own.tile_width))
        is_aligned = (
            abs(right - place.columns * own.tile_width) <= _PLACE
            and abs(down - place.rows * own.tile_height) <= _PLACE
        )
        moved = place.limits(limits)
        if is_aligned and moved.intersection(matrix.all_tiles) == moved:
            return place
    return None


@lru_cache(maxsize=16)
def web_mercator_set(tile_size: int) -> TileMatrixSet:
    """Return the set of the zooms 0 to 24 of web maps.

    That of 256 pixels is WebMercatorQuad (OGC 17-083r4, annex D.1).

    It has all zooms, so that all containers with tiles of this size share it.

    Args:
        tile_size: pixels.
    """
    matrices = (web_mercator_matrix(zoom, tile_size) for zoom in range(_FINEST + 1))
    title, crs = "Web Mercator, as web maps use it", CRS.from_code("EPSG:3857")
    if tile_size == 256:
        scales = "http://www.opengis.net/def/wkss/OGC/1.0/GoogleMapsCompatible"
        return TileMatrixSet.of(WEB_MERCATOR_QUAD, crs, matrices, title=title, scale_set=scales)
    identifier = f"{WEB_MERCATOR_QUAD}{tile_size}"
    title = f"{title}, with tiles of {tile_size} pixels"
    return TileMatrixSet.of(identifier, crs, matrices, title=title)


def web_mercator_matrix(zoom: int, tile_size: int) -> TileMatrix:
    """Return the matrix of a zoom of web maps; zoom 0 is one tile."""
    cell = _CELL * 256 / tile_size / 2**zoom
    return TileMatrix(str(zoom), cell, -_HALF, _HALF, tile_size, tile_size, 1 << zoom, 1 << zoom)


def web_mercator_box(west: float, south: float, east: float, north: float) -> BoundingBox | None:
    """Return a box in degrees as metres of Web Mercator, cut at its edge; None if nothing is left.

    Args:
        west, south, east, north: a box that is not empty.
    """
    low, high = max(south, -_EDGE), min(north, _EDGE)
    if low >= high:
        return None

    def northing(latitude: float) -> float:
        return _HALF / math.pi * math.log(math.tan(math.pi / 4 + math.radians(latitude) / 2))

    scale = _HALF / 180
    return BoundingBox(west * scale, northing(low), east * scale, northing(high))


def stem_of(source: Source) -> str:
    """Return the name of an archive without its suffix."""
    name = source.key.rpartition("/")[2]
    return name.rpartition(".")[0] or name


def free_identifier(context: Context, crs: CRS, stem: str) -> str:
    """Return an identifier for a container's own set: its CRS and the name of the file."""
    taken = {known.id for known in context.known_sets()}
    cleaned = "".join(c if c.isalnum() or c in "-_." else "_" for c in stem)[:64] or "set"
    base = f"{crs.code.replace(':', '')}_{cleaned}"
    names = (base, *(f"{base}_{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)
