"""Tile matrix sets made for a grid of cells (coverages.md section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, isfinite
from typing import Any, Final

import pyproj

from mastaba_build.errors import PlanError
from mastaba_build.sources.turns import period_of
from mastaba_writer.tile_matrix_sets import synthetic

_TILE: Final = 256
_MOST_TILES: Final = 4
"""Tiles on a side of the coarsest level that must cover the area of use of the CRS."""
_MARGIN: Final = 0.05
"""By which the area of use grows, as a part of its size."""
_SECOND: Final = Fraction(1, 3600)
_HALF: Final = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Grid:
    """Square cells without end.

    Attributes:
        crs: with a code of an authority.
        cell: size of a cell, CRS units.
        phase: x and y of the upper left corner of a cell, as parts of a cell: x in [-1/2, 1/2), y
            in (-1/2, 1/2].
    """

    crs: pyproj.CRS
    cell: Fraction
    phase: tuple[Fraction, Fraction]

    @classmethod
    def through(cls, crs: pyproj.CRS, cell: Fraction, x: Fraction, y: Fraction) -> Grid:
        """Return the grid that has a cell whose upper left corner is a place, CRS units."""
        across, down = x / cell, y / cell
        return cls(crs, cell, (across - floor(across + _HALF), down - ceil(down - _HALF)))

    def name(self, *, is_post: bool) -> str:
        """Return an identifier of the set: CRS, cell, and what the cells are."""
        authority, code = code_of(self.crs).split(":")
        size, unit = _in_unit(self.cell, self.crs)
        name = f"{authority}{code}_{_text(size)}{unit}"
        if is_post:
            name += "_post"
        usual = (-_HALF, _HALF) if is_post else (Fraction(0), Fraction(0))
        if self.phase != usual:
            name += "".join(f"_{_text(one * size)}" for one in self.phase)
        return name


def code_of(crs: pyproj.CRS) -> str:
    """Return the code of a CRS, AUTHORITY:CODE.

    Raises:
        PlanError: it has none.
    """
    authority = crs.to_authority()
    if authority is None:
        raise PlanError(
            f"the CRS {crs.name!r} has no code of an authority such as EPSG, which a tile matrix "
            "set needs; choose a set with --tms"
        )
    return "CRS:84" if authority == ("OGC", "CRS84") else ":".join(authority)


def exact(value: float) -> Fraction:
    """Return the number that the decimal text of a float says, at 15 digits."""
    return Fraction(f"{value:.15g}")


def set_of_grid(grid: Grid, identifier: str) -> dict[str, Any]:
    """Return the document of the set of a grid.

    The cells double up to the first level at which 4 x 4 tiles cover the area of use of the CRS.
    The origin depends on the grid only, so all products on it share the set. Where x repeats around
    the earth, it is less than a cell before the area of use, so nothing is shown twice.

    Raises:
        PlanError: the CRS has no area of use.
    """
    west, south, east, north = _area_of_use(grid.crs)
    side = max(east - west, north - south)
    levels = 1
    while _MOST_TILES * _TILE * grid.cell * 2 ** (levels - 1) < side:
        levels += 1
    tile = _TILE * grid.cell * 2 ** (levels - 1)
    x, y = (one * grid.cell for one in grid.phase)
    step = grid.cell if period_of(grid.crs.to_wkt()) else tile
    x += step * floor((west - x) / step)
    y += tile * ceil((north - y) / tile)
    cells = [grid.cell * 2**level for level in reversed(range(levels))]
    return set_of_cells(identifier, grid.crs, cells, [(x, y)] * levels, (east, south))


def set_of_cells(
    identifier: str,
    crs: pyproj.CRS,
    cells: Sequence[Fraction],
    origins: Sequence[tuple[Fraction, Fraction]],
    far: tuple[Fraction, Fraction] | None = None,
) -> dict[str, Any]:
    """Return the document of a set with an origin for each level.

    Args:
        cells: sizes, from the coarsest to the finest, CRS units.
        origins: x and y of the upper left corners of the levels, CRS units.
        far: x and y that the tiles must reach; by default the lower right corner of the area of
            use.

    Raises:
        PlanError: the cells do not become smaller, or the tiles cover nothing.
    """
    if any(coarse <= fine for coarse, fine in pairwise(cells)):
        raise PlanError("the cells must become smaller from level to level")
    if far is None:
        _, south, east, _ = _area_of_use(crs)
        far = east, south
    left, top = origins[0]
    tile = _TILE * cells[0]
    right, bottom = far[0], top - tile * ceil((top - far[1]) / tile)
    if not period_of(crs.to_wkt()):
        right = left + tile * ceil((right - left) / tile)
    counts = [
        (ceil((right - x) / (_TILE * cell)), ceil((y - bottom) / (_TILE * cell)))
        for cell, (x, y) in zip(cells, origins, strict=True)
    ]
    if min(map(min, counts)) < 1:
        raise PlanError("the tiles would be outside the area of use of the CRS; correct the origin")
    document = synthetic(
        identifier,
        crs=code_of(crs),
        origin=(float(origins[0][0]), float(origins[0][1])),
        cell_sizes=[float(cell) for cell in cells],
        matrix_sizes=counts,
        geographic=crs.is_geographic,
    )
    for matrix, (x, y) in zip(document["tileMatrices"], origins, strict=True):
        matrix["pointOfOrigin"] = [float(x), float(y)]
    return document


def _area_of_use(crs: pyproj.CRS) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """Return west, south, east and north of the area of use, widened, CRS units.

    Raises:
        PlanError: PROJ knows none.
    """
    area = crs.area_of_use
    if area is None:
        raise PlanError(f"PROJ knows no area of use of {code_of(crs)}; choose a set with --tms")
    west, south, east, north = area.bounds
    if west > east:  # across the antimeridian
        west, east = -180.0, 180.0
    if not crs.is_geographic:
        forward = pyproj.Transformer.from_crs(crs.geodetic_crs, crs, always_xy=True)
        west, south, east, north = forward.transform_bounds(west, south, east, north)
    if not all(map(isfinite, (west, south, east, north))):
        raise PlanError(f"the area of use of {code_of(crs)} has no limits in it; choose a set")
    across, down = (east - west) * _MARGIN / 2, (north - south) * _MARGIN / 2
    if period := period_of(crs.to_wkt()):
        across = max(0.0, min(across, (period - (east - west)) / 2))
    bounds = [west - across, south - down, east + across, north + down]
    if crs.is_geographic:
        world = (-180.0, -90.0, 180.0, 90.0)
        bounds = [*map(max, bounds[:2], world[:2]), *map(min, bounds[2:], world[2:])]
    west, south, east, north = bounds
    return exact(west), exact(south), exact(east), exact(north)


def _in_unit(cell: Fraction, crs: pyproj.CRS) -> tuple[Fraction, str]:
    """Return the size of a cell in the unit for its name, and this unit."""
    unit = crs.axis_info[0].unit_name
    if unit == "degree":
        return cell / _SECOND, "s"
    return cell, "m" if unit == "metre" else "ft" if "foot" in unit else "u"


def _text(number: Fraction) -> str:
    return f"{float(number):.6g}"
