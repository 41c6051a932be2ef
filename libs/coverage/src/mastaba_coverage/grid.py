"""The grid of a coverage: the cells of one level of a layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from mastaba.api.catalogue import CRS, BoundingBox, Layer, Level, TileMatrix
from mastaba.api.containers import TileReader
from mastaba_coverage.cells import Cells, cells_between
from mastaba_render.api.maps import tiles_around, turn_of

_FURTHEST: Final = 1e15
"""Cells. Beyond it, numbers of cells are not exact."""
_ALIGNED: Final = 1 / 256
"""Cells by which a box may differ from the cells of a level."""
_PART: Final = 0.01
"""The part of a cell that is not counted."""


@dataclass(frozen=True, slots=True, eq=False)
class CoverageGrid:
    """The cells of one level.

    Attributes:
        level: the level.
        reader: reader of its tiles.
        window: the cells that the layer has: its tile limits, cut by its data window and its box in
            whole cells.
        is_post: whether a value belongs to the point in the middle of its cell.
        around: tiles in a full turn of the Earth, after which columns repeat; 0 if they do not.
    """

    level: Level
    reader: TileReader
    window: Cells
    is_post: bool
    around: int = 0

    @property
    def matrix(self) -> TileMatrix:
        """The tile matrix of the level."""
        return self.level.matrix

    @property
    def stored(self) -> Cells:
        """The cells of its tiles: the tile limits, cut by the data window."""
        return _limits(self.level)

    def cells(self, box: BoundingBox) -> Cells | None:
        """Return the cells that a box selects, or None if there are none.

        Args:
            box: in the CRS of the layer; closed, and perhaps without extent.
        """
        found = _cells_of(self.matrix, box, is_post=self.is_post)
        return None if found is None else found.intersection(self.window)

    def cells_across(self, box: BoundingBox) -> Cells | None:
        """Return the cells that a box across the antimeridian selects, or None.

        Columns beyond the antimeridian go on counting, if the box meets cells on both sides of it.

        Args:
            box: its east is beyond the edge of the CRS.

        Raises:
            ValueError: the columns of the grid do not repeat after a full turn.
        """
        found = _cells_of(self.matrix, box, is_post=self.is_post)
        if found is None:
            return None
        turn = self.around * self.matrix.tile_width
        if not turn:
            raise ValueError("the columns of the grid do not repeat")
        western = found.intersection(self.window)
        moved = replace(found, left=found.left - turn, right=found.right - turn)
        eastern = moved.intersection(self.window)
        if western is None or eastern is None:
            return western or eastern
        return replace(western, right=eastern.right + turn)

    def cell_at(self, x: float, y: float) -> tuple[int, int] | None:
        """Return row and column of the cell at a position, or None outside the coverage."""
        matrix = self.matrix
        column, row = (
            (x - matrix.origin_x) / matrix.cell_size,
            (matrix.origin_y - y) / matrix.cell_size,
        )
        if not (abs(column) < _FURTHEST and abs(row) < _FURTHEST):
            return None
        window = self.window
        # The far edges belong to the last cells.
        left = window.right - 1 if column == window.right else math.floor(column)
        top = window.bottom - 1 if row == window.bottom else math.floor(row)
        inside = window.left <= left < window.right and window.top <= top < window.bottom
        return (top, left) if inside else None

    def is_beyond(self, cells: Cells) -> bool:
        """Return whether columns of cells are beyond the antimeridian."""
        return 0 < self.around * self.matrix.tile_width < cells.right

    def edges(self, cells: Cells) -> BoundingBox:
        """Return the outer edges of cells, in the CRS of the layer."""
        matrix = self.matrix
        return BoundingBox(
            matrix.origin_x + cells.left * matrix.cell_size,
            matrix.origin_y - cells.bottom * matrix.cell_size,
            matrix.origin_x + cells.right * matrix.cell_size,
            matrix.origin_y - cells.top * matrix.cell_size,
        )

    def bounds(self, cells: Cells) -> BoundingBox:
        """Return the box that describes cells: their outer edges, or the first and last posts."""
        box = self.edges(cells)
        half = self.matrix.cell_size / 2 if self.is_post else 0.0
        return BoundingBox(box.xmin + half, box.ymin + half, box.xmax - half, box.ymax - half)


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """The stored values of a raster layer.

    Attributes:
        layer: the layer.
        grids: by tile matrix identifier, coarse to fine.
        fields: names of the channels.
    """

    layer: Layer
    grids: Mapping[str, CoverageGrid]
    fields: tuple[str, ...]

    @classmethod
    def of(cls, layer: Layer, readers: Mapping[str, TileReader]) -> Coverage:
        """Return the coverage of a raster layer.

        Args:
            readers: of the levels, by tile matrix identifier.

        Raises:
            ValueError: the layer has no cell inside its box.
        """
        grids = {}
        finest, crs = layer.pyramid.finest, layer.pyramid.tile_matrix_set.crs
        for name, level in layer.pyramid.levels.items():
            window = _within_a_turn(_limits(level), level.matrix, turn_of(crs))
            box = _cells_of(level.matrix, layer.native_bbox, is_post=False)
            common = None if box is None else window.intersection(box)
            if common is not None:
                # Coarser levels hold averages of areas.
                is_post = level is finest and layer.registration == "post"
                around = tiles_around(level.matrix, crs)
                grids[name] = CoverageGrid(level, readers[name], common, is_post, around)
        if finest.matrix.id not in grids:
            raise ValueError(f"the layer {layer.id} has no cell inside its box")
        return cls(layer, grids, _fields(layer))

    @property
    def finest(self) -> CoverageGrid:
        """The grid with the smallest cells."""
        return self.grids[self.layer.pyramid.finest.matrix.id]

    @property
    def crs(self) -> CRS:
        """CRS of the layer."""
        return self.layer.pyramid.tile_matrix_set.crs

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the values, uint8 or float32, little-endian."""
        return np.dtype(self.layer.pyramid.format.sample).newbyteorder("<")

    @property
    def unit(self) -> str | None:
        """Unit of heights; None if the values are not known to be such."""
        vertical = _vertical(self.layer)
        return None if vertical is None else vertical.get("unit", "m")

    @property
    def vertical(self) -> str | None:
        """Code of the vertical or compound CRS of heights in metres; None if it is not known."""
        return (_vertical(self.layer) or {}).get("crs") if self.unit == "m" else None

    @property
    def nodata(self) -> tuple[float, ...]:
        """The value where nothing is stored, one for each field."""
        raster = self.layer.pyramid.raster
        assert raster is not None
        return raster.nodata


def cells_of_box(
    coverage: Coverage, box: BoundingBox, columns: int, rows: int
) -> tuple[CoverageGrid, Cells] | None:
    """Return the level and the cells that a box and a size describe, if there are such."""
    for grid in coverage.grids.values():
        matrix = grid.matrix
        size = matrix.cell_size
        left, right = ((x - matrix.origin_x) / size for x in (box.xmin, box.xmax))
        top, bottom = ((matrix.origin_y - y) / size for y in (box.ymax, box.ymin))
        edges = (left, right, top, bottom)
        if not all(abs(edge - round(edge)) <= _ALIGNED for edge in edges):
            continue
        found = Cells(round(top), round(bottom), round(left), round(right))
        if (found.columns, found.rows) == (columns, rows):
            return grid, found
    return None


def _limits(level: Level) -> Cells:
    limits, matrix = level.limits, level.matrix
    bottom, right = (
        (limits.max_row + 1) * matrix.tile_height,
        (limits.max_col + 1) * matrix.tile_width,
    )
    if level.window is not None:
        right, bottom = min(right, level.window[0]), min(bottom, level.window[1])
    return Cells(
        limits.min_row * matrix.tile_height, bottom, limits.min_col * matrix.tile_width, right
    )


def _within_a_turn(window: Cells, matrix: TileMatrix, turn: float) -> Cells:
    """Return a window without the columns that have the places of its first ones again.

    They are in the last tiles of a set whose tiles do not end at the antimeridian.

    Args:
        turn: of the Earth along x, CRS units; infinite, or any number, if x does not repeat.
    """
    columns = turn / matrix.cell_size
    # A set around the Earth has no tile more than it needs.
    if not columns > matrix.matrix_width * matrix.tile_width / 2 or not math.isfinite(columns):
        return window
    return replace(window, right=min(window.right, window.left + math.ceil(columns - _PART)))


def _cells_of(matrix: TileMatrix, box: BoundingBox, *, is_post: bool) -> Cells | None:
    size = matrix.cell_size
    down = (matrix.origin_y - box.ymax) / size, (matrix.origin_y - box.ymin) / size
    across = (box.xmin - matrix.origin_x) / size, (box.xmax - matrix.origin_x) / size
    # In this form the condition also refuses NaN.
    if not all(abs(value) < _FURTHEST for value in (*down, *across)):
        whole = matrix.matrix_height * matrix.tile_height, matrix.matrix_width * matrix.tile_width
        down = max(down[0], -1.0), min(down[1], whole[0] + 1.0)
        across = max(across[0], -1.0), min(across[1], whole[1] + 1.0)
        if not all(abs(value) < _FURTHEST for value in (*down, *across)):
            return None
    rows = cells_between(*down, is_post=is_post)
    columns = cells_between(*across, is_post=is_post)
    found = Cells(*rows, *columns)
    return found if found.rows > 0 and found.columns > 0 else None


def _vertical(layer: Layer) -> Mapping[str, Any] | None:
    """Return what the descriptor says about heights, a key of the elevation service."""
    return layer.own.get("vertical")


def _fields(layer: Layer) -> tuple[str, ...]:
    raster = layer.pyramid.raster
    assert raster is not None
    if layer.pyramid.format.sample == "float32":
        return ("value",) if _vertical(layer) is None else ("elevation",)
    colours = ("gray",) if raster.channels < 3 else ("red", "green", "blue")
    return colours if raster.channels % 2 else (*colours, "alpha")
