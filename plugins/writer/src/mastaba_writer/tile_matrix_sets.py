"""Tile matrix set documents as stored in JSON files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastaba_writer.documents import Document

__all__ = [
    "PUBLISHED",
    "geographic",
    "synthetic",
    "web_mercator",
]

_EARTH_RADIUS = 6378137.0  # WGS 84 semi-major axis, metres
_METRES_PER_DEGREE = _EARTH_RADIUS * math.pi / 180
_PIXEL_SIZE = 0.00028  # metres, the standardised pixel size for scale denominators


def web_mercator(levels: int = 22) -> Document:
    """Return the set PM: EPSG:3857, 256-pixel tiles, level 0 is the world in one tile."""
    half = math.pi * _EARTH_RADIUS
    return synthetic(
        "PM",
        crs="EPSG:3857",
        origin=(-_rounded(half), _rounded(half)),
        cell_sizes=[half / 128 / 2**level for level in range(levels)],
        matrix_sizes=[(2**level, 2**level) for level in range(levels)],
    )


def geographic(levels: int = 20) -> Document:
    """Return the set 4326: EPSG:4326, 256-pixel tiles, level 0 is the world in 2 x 1 tiles."""
    return synthetic(
        "4326",
        crs="EPSG:4326",
        origin=(-180, 90),
        cell_sizes=[180 / 256 / 2**level for level in range(levels)],
        matrix_sizes=[(2 * 2**level, 2**level) for level in range(levels)],
        geographic=True,
    )


def synthetic(
    identifier: str,
    *,
    crs: str,
    origin: tuple[float, float],
    cell_sizes: Sequence[float],
    matrix_sizes: Sequence[tuple[int, int]] | None = None,
    tile_size: tuple[int, int] = (256, 256),
    geographic: bool = False,
    first: int = 0,
) -> Document:
    """Return a tile matrix set document with levels named by consecutive numbers.

    Args:
        identifier: the `id` field, which should equal the stem of the file.
        crs: code of the coordinate reference system.
        origin: x and y of the upper left corner of all levels, in units of the CRS.
        cell_sizes: size of a pixel per level, in units of the CRS, in the order of the ids.
        matrix_sizes: columns and rows of tiles per level; by default four by four tiles at the
            first level, and enough tiles to cover the same area at the others.
        tile_size: width and height of a tile in pixels.
        geographic: whether the units of the CRS are degrees.
        first: name of the first level.
    """
    if matrix_sizes is None:
        counts = [math.ceil(4 * cell_sizes[0] / cell_size) for cell_size in cell_sizes]
        matrix_sizes = [(count, count) for count in counts]
    unit = _METRES_PER_DEGREE if geographic else 1.0
    matrices: list[dict[str, Any]] = [
        {
            "id": str(first + level),
            "cellSize": _rounded(cell_size),
            "scaleDenominator": _rounded(cell_size * unit / _PIXEL_SIZE),
            "pointOfOrigin": list(origin),
            "tileWidth": tile_size[0],
            "tileHeight": tile_size[1],
            "matrixWidth": width,
            "matrixHeight": height,
        }
        for level, (cell_size, (width, height)) in enumerate(
            zip(cell_sizes, matrix_sizes, strict=True)
        )
    ]
    return {
        "id": identifier,
        "crs": crs,
        "orderedAxes": ["Lon", "Lat"] if geographic else ["X", "Y"],
        "tileMatrices": matrices,
    }


def _rounded(value: float) -> float:
    """Round to 15 significant digits, as in published sets."""
    return float(f"{value:.15g}")


def _national(identifier: str, crs: str, finest: float, levels: int) -> Document:
    """Return a set of halved cell sizes with its origin at (0, 12000000), as published by IGN."""
    cell_sizes = [finest * 2**level for level in reversed(range(levels))]
    counts = [math.ceil(12000000 / (256 * size)) for size in cell_sizes]
    return synthetic(
        identifier,
        crs=crs,
        origin=(0, 12000000),
        cell_sizes=cell_sizes,
        matrix_sizes=[(count, count) for count in counts],
    )


PUBLISHED: Mapping[str, Callable[[], Document]] = {
    "PM": web_mercator,
    "4326": geographic,
    "2154_10cm": lambda: _national("2154_10cm", "EPSG:2154", 0.1, 22),
    "2154_1m": lambda: _national("2154_1m", "EPSG:2154", 1, 18),
    "LAMB93_10cm": lambda: _national("LAMB93_10cm", "IGNF:LAMB93", 0.1, 22),
    "LAMB93_1m": lambda: _national("LAMB93_1m", "IGNF:LAMB93", 1, 18),
}
"""Published sets by name, computed from their definitions."""
