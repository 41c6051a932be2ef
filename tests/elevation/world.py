"""A tiny world of heights, and a sampler in plain Python that knows nothing of slabs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from mastaba_writer.pyramids import LevelPlan
from mastaba_writer.tile_matrix_sets import synthetic

NODATA = -99999.0
TILE = 16
HALF = math.pi * 6378137.0

GEOGRAPHIC = synthetic(
    "G16",
    crs="EPSG:4326",
    origin=(-180, 90),
    cell_sizes=[180 / TILE / 2**level for level in range(8)],
    matrix_sizes=[(2 * 2**level, 2**level) for level in range(8)],
    tile_size=(TILE, TILE),
    geographic=True,
)
MERCATOR = synthetic(
    "M16",
    crs="EPSG:3857",
    origin=(-HALF, HALF),
    cell_sizes=[2 * HALF / TILE / 2**level for level in range(12)],
    matrix_sizes=[(2**level, 2**level) for level in range(12)],
    tile_size=(TILE, TILE),
)
LAMBERT = synthetic(
    "L16",
    crs="EPSG:2154",
    origin=(900000, 6600000),
    cell_sizes=[40, 20, 10],
    matrix_sizes=[(16, 16), (32, 32), (64, 64)],
    tile_size=(TILE, TILE),
)


@dataclass(frozen=True, eq=False)
class Ground:
    """One layer of the world.

    Attributes:
        document: its tile matrix set.
        plans: its levels.
        base: height around which the ground lies.
        gaps: tiles (level, row, column) that are not stored; a slab is one tile.
    """

    name: str
    document: dict[str, object]
    plans: tuple[LevelPlan, ...]
    base: float
    gaps: frozenset[tuple[str, int, int]] = frozenset()
    has_holes: bool = True

    def tile(self, level: str, row: int, col: int) -> npt.NDArray[np.float32] | None:
        if (level, row, col) in self.gaps:
            return None
        i = np.arange(col * TILE, (col + 1) * TILE)[np.newaxis, :]
        j = np.arange(row * TILE, (row + 1) * TILE)[:, np.newaxis]
        heights = self.base + 300 * np.sin(i / 7) + 200 * np.cos(j / 5) + (i * 31 + j * 17) % 13
        heights = heights + 0.001 * int(level)
        if self.has_holes:
            heights[((i // 3) % 11 == 4) & ((j // 2) % 9 == 5)] = NODATA
        return np.asarray(heights, np.float32)

    def stored(self, level: str, row: int, col: int) -> npt.NDArray[np.float32] | None:
        """Return a tile inside the limits; None if none is stored there."""
        return _stored(self, level, row, col)

    def matrix(self, level: str) -> tuple[float, float, float, int]:
        """Return cell size, x and y of the origin, and tiles in a full turn (0 if none)."""
        return _matrix(self, level)

    def pixel(self, level: str, column: int, row: int) -> float | None:
        """Return a stored pixel; None without a height."""
        around = self.matrix(level)[3]
        tile_col, tile_row = column // TILE, row // TILE
        if around:
            tile_col %= around
        tile = self.stored(level, tile_row, tile_col)
        value = None if tile is None else float(tile[row % TILE, column % TILE])
        return None if value == NODATA else value

    def is_stored(self, level: str, column: int, row: int) -> bool:
        around = self.matrix(level)[3]
        tile_col = column // TILE
        return (
            self.stored(level, row // TILE, tile_col % around if around else tile_col) is not None
        )

    @property
    def names(self) -> list[str]:
        """Levels, finest first."""
        return [plan.id for plan in reversed(self.plans)]


@cache
def _matrix(ground: Ground, level: str) -> tuple[float, float, float, int]:
    matrices = ground.document["tileMatrices"]
    assert isinstance(matrices, list)
    matrix = next(item for item in matrices if item["id"] == level)
    around = 0 if ground.document["crs"] == "EPSG:2154" else matrix["matrixWidth"]
    x, y = matrix["pointOfOrigin"]
    return matrix["cellSize"], x, y, around


@cache
def _stored(ground: Ground, level: str, row: int, col: int) -> npt.NDArray[np.float32] | None:
    plan = next(plan for plan in ground.plans if plan.id == level)
    inside = plan.min_row <= row <= plan.max_row and plan.min_col <= col <= plan.max_col
    return ground.tile(level, row, col) if inside else None


def plain_sample(
    ground: Ground, x: float, y: float, method: str = "bilinear", *, strict: bool = False
) -> tuple[float | None, str | None]:
    """Return the height at a position in the CRS of a ground, and the level it comes from."""
    for level in ground.names[:4]:
        cell, left, top, _ = ground.matrix(level)
        across, down = (x - left) / cell, (top - y) / cell
        total = value = 0.0
        missing = False
        if method == "nearest":
            plan = next(plan for plan in ground.plans if plan.id == level)
            right, bottom = (plan.max_col + 1) * TILE, (plan.max_row + 1) * TILE
            taps = [
                (math.floor(across) - (across == right), math.floor(down) - (down == bottom), 1.0)
            ]
        else:
            i, j = math.floor(across - 0.5), math.floor(down - 0.5)
            f, g = across - 0.5 - i, down - 0.5 - j
            taps = [
                (i, j, (1 - f) * (1 - g)),
                (i + 1, j, f * (1 - g)),
                (i, j + 1, (1 - f) * g),
                (i + 1, j + 1, f * g),
            ]
        for column, row, weight in taps:
            if weight:
                found = ground.pixel(level, column, row)
                if found is None:
                    missing = True
                else:
                    total += weight
                    value += weight * found
        if total >= 0.5 and not (strict and missing):
            return value / total, level
        if ground.is_stored(level, math.floor(across), math.floor(down)):
            return None, None
    return None, None


WORLD = Ground(
    "world",
    GEOGRAPHIC,
    tuple(LevelPlan(str(n), 0, 2**n - 1, 0, 2 * 2**n - 1) for n in range(4)),
    100.0,
    frozenset({("3", 1, 2), ("3", 5, 9), ("2", 2, 4), ("3", 0, 0)}),
)
ALPS = Ground(
    "alps",
    LAMBERT,
    (
        LevelPlan("0", 0, 1, 0, 1),
        LevelPlan("1", 0, 3, 0, 3),
        LevelPlan("2", 0, 7, 0, 7),
    ),
    2000.0,
    frozenset({("2", 3, 3), ("2", 3, 4), ("1", 1, 1)}),
)
MERC = Ground(
    "merc",
    MERCATOR,
    (LevelPlan("5", 10, 13, 14, 19), LevelPlan("6", 20, 27, 28, 39)),
    500.0,
    frozenset({("6", 22, 30), ("6", 23, 31)}),
)
GROUNDS = (WORLD, ALPS, MERC)
