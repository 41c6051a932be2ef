"""Gradient noise over the world, and the grids on which it is evaluated.

The world is the unit square: x grows eastward and wraps, y grows southward. Noise is a function
of position only, so tiles and levels agree wherever they show the same place.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float32]
"""One value per node of a grid, shape (rows, columns)."""

_TABLE = 1024  # lattice nodes per period; the largest wavelengths wrap with the world instead
_MARGIN = 10  # nodes around the window, so that errors at the border never reach it


@functools.lru_cache(maxsize=4)
def _tables(seed: int) -> tuple[NDArray[np.int32], Field, Field]:
    """Return a permutation, repeated twice, and the gradients of its entries."""
    generator = np.random.default_rng(seed)
    order = np.tile(generator.permutation(_TABLE).astype(np.int32), 2)
    angles = order * (2 * np.pi / _TABLE)
    return order, np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def gradient_noise(x: NDArray[Any], y: NDArray[Any], frequency: int, seed: int, salt: int) -> Field:
    """Return gradient noise of a frequency (cycles per world), mostly within -1 and 1.

    Args:
        x: positions eastward, any shape that broadcasts with `y`.
        y: positions southward.
        frequency: lattice cells per side of the world, a power of two.
        seed: seed of the world.
        salt: distinguishes the noises of one world; also shifts the lattice, so that the nodes
            of different octaves (where the noise is 0) do not coincide.
    """
    order, gradient_x, gradient_y = _tables(seed)
    u, column = _split(x, frequency, 0.5 + 0.37 * salt)
    v, row = _split(y, frequency, 0.85 + 0.63 * salt)
    wrap = min(frequency, _TABLE) - 1
    next_column = (column + 1) & wrap
    column &= wrap
    row += 131 * salt
    upper = np.take(order, row & (_TABLE - 1))
    lower = np.take(order, (row + 1) & (_TABLE - 1))

    def corner(columns: NDArray[np.int32], rows: NDArray[np.int32], du: Field, dv: Field) -> Field:
        index = columns + rows
        value = np.take(gradient_x, index, mode="clip")
        value *= du
        other = np.take(gradient_y, index, mode="clip")
        other *= dv
        value += other
        return value

    fade_u, fade_v = _fade(u), _fade(v)
    right, down = u - 1, v - 1
    top = corner(column, upper, u, v)
    top += fade_u * (corner(next_column, upper, right, v) - top)
    bottom = corner(column, lower, u, down)
    bottom += fade_u * (corner(next_column, lower, right, down) - bottom)
    bottom -= top
    bottom *= fade_v
    top += bottom
    top *= np.float32(1.5)
    return top


def _split(position: NDArray[Any], frequency: int, shift: float) -> tuple[Field, NDArray[np.int32]]:
    """Return the position within a lattice cell, and the index of the cell."""
    lattice = position * position.dtype.type(frequency) + position.dtype.type(shift)
    cell = np.floor(lattice)
    part: Field = (lattice - cell).astype(np.float32, copy=False)
    return part, cell.astype(np.int32)


def lattice_phases(
    x: NDArray[Any], y: NDArray[Any], frequency: int, seed: int, salt: int
) -> tuple[Field, Field, list[list[Field]]]:
    """Return random phases of a lattice, and the positions of grid nodes within it.

    Args:
        x: positions eastward, one dimension.
        y: positions southward, one dimension.
        frequency: lattice cells per side of the world, a power of two.
        seed: seed of the world.
        salt: distinguishes the lattices of one world.

    Returns:
        the position within the cell along x, shape (1, columns), along y, shape (rows, 1), and
        the random phases, in radians, of the upper and lower corners (left, right) of the cell.
    """
    order, _, _ = _tables(seed)
    u, columns = _split(x, frequency, 0.31 * salt)
    v, rows = _split(y, frequency, 0.53 * salt)
    wrap = min(frequency, _TABLE) - 1

    def phases(down: int, right: int) -> Field:
        hashed = order[(rows + down + 57 * salt) & (_TABLE - 1)]
        index = order[hashed[:, np.newaxis] + ((columns + right) & wrap)]
        result: Field = index.astype(np.float32) * np.float32(2 * np.pi / _TABLE)
        return result

    corners = [[phases(0, 0), phases(0, 1)], [phases(1, 0), phases(1, 1)]]
    return u[np.newaxis, :], v[:, np.newaxis], corners


def lattice_values(column: NDArray[Any], row: NDArray[Any], seed: int) -> Field:
    """Return a random number from 0 to 1 for each lattice cell, given its column and row."""
    order, _, _ = _tables(seed)
    hashed = np.take(order, row.astype(np.int64) & (_TABLE - 1))
    hashed = np.take(order, hashed + (column.astype(np.int64) & (_TABLE - 1)))
    return hashed.astype(np.float32) / np.float32(_TABLE)


def _fade(t: Field) -> Field:
    result: Field = t * t * t * (t * (t * 6 - 15) + 10)
    return result


def smoothstep(low: float, high: float, value: NDArray[Any]) -> Field:
    """Return 0 below `low`, 1 above `high` (or the reverse if high < low), smooth between."""
    t = np.clip((value - np.float32(low)) / np.float32(high - low), 0, 1)
    result: Field = t * t * (3 - 2 * t)
    return result


@dataclass(frozen=True, slots=True)
class Window:
    """A square window of pixels at one level.

    Attributes:
        world: pixels per side of the world at this level (a power of two).
        left: first column.
        top: first row.
        size: number of rows and columns.
    """

    world: int
    left: int
    top: int
    size: int


@dataclass(frozen=True, slots=True)
class Grid:
    """A grid with a node every `step` pixels, over a window and a margin around it."""

    window: Window
    step: int

    @property
    def first_column(self) -> int:
        """Index, in steps, of the first column of nodes."""
        return self.window.left // self.step - _MARGIN

    @property
    def first_row(self) -> int:
        """Index, in steps, of the first row of nodes."""
        return self.window.top // self.step - _MARGIN

    @property
    def columns(self) -> int:
        """Number of columns of nodes."""
        return -(-(self.window.left + self.window.size) // self.step) + _MARGIN - self.first_column

    @property
    def rows(self) -> int:
        """Number of rows of nodes."""
        return -(-(self.window.top + self.window.size) // self.step) + _MARGIN - self.first_row

    def x(self) -> NDArray[np.float64]:
        """Return the positions of the columns (pixel centres), float64."""
        indices = np.arange(self.first_column, self.first_column + self.columns)
        return (indices * self.step + 0.5) / self.window.world

    def y(self) -> NDArray[np.float64]:
        """Return the positions of the rows (pixel centres), float64."""
        indices = np.arange(self.first_row, self.first_row + self.rows)
        return (indices * self.step + 0.5) / self.window.world

    def finer(self) -> Grid:
        """Return the grid with half the step."""
        return Grid(self.window, self.step // 2)

    def refine(self, field: Field) -> Field:
        """Interpolate a field at the nodes of the finer grid (cubic, exact at common nodes)."""
        finer = self.finer()
        field = _refine_rows(field, 2 * self.first_row - finer.first_row, finer.rows)
        transposed = np.ascontiguousarray(field.T)
        offset = 2 * self.first_column - finer.first_column
        return np.ascontiguousarray(_refine_rows(transposed, offset, finer.columns).T)

    def crop(self, field: Field, margin: int = 0) -> Field:
        """Return the part of a field that covers the window and `margin` pixels around it.

        The step of the grid must be 1.
        """
        edge = _MARGIN - margin
        return field[edge : edge + self.window.size + 2 * margin, edge:][
            :, : self.window.size + 2 * margin
        ]


def _refine_rows(field: Field, offset: int, count: int) -> Field:
    """Double the rows; `offset` is the index of the first given row among the returned rows."""
    doubled = np.empty((2 * len(field), field.shape[1]), np.float32)
    doubled[::2] = field
    middle = field[:-1] + field[1:]
    doubled[1:-1:2] = middle * np.float32(0.5)
    # Cubic through four nodes: (-1, 9, 9, -1) / 16.
    doubled[3:-3:2] += (middle[1:-1] * 2 - middle[:-2] - middle[2:]) * np.float32(1 / 16)
    doubled[-1] = doubled[-2]
    return doubled[-offset : count - offset]
