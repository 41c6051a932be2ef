"""Contour lines of a grid (marching squares)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mastaba_demo.noise import Field

# Key: which corners of a cell are above the value (bits: 1 upper left, 2 upper right, 4 lower
# right, 8 lower left). Value: start and end sides of each line segment (0 top, 1 right,
# 2 bottom, 3 left). Higher ground is on the right of a line.
_SEGMENTS: dict[int, tuple[tuple[int, int], ...]] = {
    1: ((0, 3),),
    2: ((1, 0),),
    3: ((1, 3),),
    4: ((2, 1),),
    5: ((0, 3), (2, 1)),
    6: ((2, 0),),
    7: ((2, 3),),
    8: ((3, 2),),
    9: ((0, 2),),
    10: ((1, 0), (3, 2)),
    11: ((1, 2),),
    12: ((3, 1),),
    13: ((0, 1),),
    14: ((3, 0),),
}


def trace(field: Field, value: float) -> list[NDArray[np.float64]]:
    """Return the lines along which a field has a value.

    Returns:
        arrays of shape (points, 2): fractional column and row of each point, in nodes.
        Closed lines repeat their first point.
    """
    columns = field.shape[1]
    above = field > value
    pattern = above[:-1, :-1] * 1 + above[:-1, 1:] * 2 + above[1:, 1:] * 4 + above[1:, :-1] * 8
    cells = np.flatnonzero((pattern > 0) & (pattern < 15))
    if not len(cells):
        return []
    cell_rows, cell_columns = np.divmod(cells, columns - 1)
    patterns = pattern.ravel()[cells]
    node = cell_rows * columns + cell_columns
    # Sides are named after their upper or left node; odd names run downward.
    sides = np.stack((2 * node, 2 * node + 3, 2 * (node + columns), 2 * node + 1))
    following: dict[int, int] = {}
    for code, segments in _SEGMENTS.items():
        which = patterns == code
        for start, end in segments:
            following.update(
                zip(sides[start][which].tolist(), sides[end][which].tolist(), strict=True)
            )
    return [_points(field, value, chain) for chain in _chains(following)]


def _chains(following: dict[int, int]) -> list[list[int]]:
    inner = set(following.values())
    chains: list[list[int]] = []
    # Open lines start where no other segment ends. The remaining lines are closed.
    starts = [side for side in following if side not in inner]
    while following:
        side = starts.pop() if starts else next(iter(following))
        chain = [side]
        while side in following:
            side = following.pop(side)
            chain.append(side)
        chains.append(chain)
    return chains


def _points(field: Field, value: float, chain: list[int]) -> NDArray[np.float64]:
    sides = np.array(chain)
    columns = field.shape[1]
    down = sides % 2 == 1
    row, column = np.divmod(sides // 2, columns)
    flat = field.ravel().astype(np.float64)
    first = flat[sides // 2]
    second = flat[sides // 2 + np.where(down, columns, 1)]
    part = (value - first) / (second - first)
    return np.stack((column + np.where(down, 0, part), row + np.where(down, part, 0)), axis=-1)
