"""Right-triangulated irregular networks, one level of triangles at a time (elevation.md 5.4).

A grid of 2^k + 1 samples per side is two right triangles. A triangle splits at the midpoint of its
hypotenuse, into two triangles of half the area, down to triangles between three neighbours.

All grids are flat arrays of n · n samples, rows from the south to the north, columns from the west
to the east.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba_elevation.queries.ground import Floats

Numbers = npt.NDArray[np.intp]

_SAGITTA: Final = 1.0 / 8.0
_SHARE: Final = 0.5
"""The sagitta halves with each level, so half of each adds up to the largest one."""


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """Triangles of one size that can be split; n of them, with m different midpoints.

    Attributes:
        corners: left end of the hypotenuse, right angle, and right end, counter-clockwise; shape
            (3, n).
        midpoint: of the hypotenuse, shape (n,).
        midpoints: each once, shape (m,).
        ends: of the hypotenuses of ``midpoints``, shape (2, m).
        below: midpoints of the triangles into which those at ``midpoints`` split, shape (4, m);
            None at the smallest triangles that can be split.
        across, up: squared extent of these hypotenuses in samples, shape (m,).
    """

    corners: Numbers
    midpoint: Numbers
    midpoints: Numbers
    ends: Numbers
    below: Numbers | None
    across: Floats
    up: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Hierarchy:
    """All triangles of a grid.

    Attributes:
        size: samples per side.
        levels: the largest triangles first. Triangle t of one level splits into the triangles 2 t
            and 2 t + 1 of the next one.
        smallest: corners of the triangles that cannot be split, shape (3, n).
        edge: whether a sample is on an edge of the grid, shape (size²,).
    """

    size: int
    levels: tuple[_Level, ...]
    smallest: Numbers
    edge: npt.NDArray[np.bool_]


@lru_cache(maxsize=8)
def hierarchy(size: int) -> Hierarchy:
    """Return the triangles of a grid.

    Args:
        size: samples per side, 2^k + 1 with k at least 1.
    """
    last = size - 1
    if size < 3 or last & (last - 1):
        raise ValueError(f"a grid of {size} samples per side cannot be halved down to single cells")
    left = np.array([[0, 0], [last, last]])
    right = np.array([[last, last], [0, 0]])
    apex = np.array([[last, 0], [0, last]])
    found: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []
    for _ in range(2 * (last.bit_length() - 1)):
        middle = (left + right) // 2
        found.append((left, right, apex, middle))
        # Each triangle is followed by its sibling.
        left, right, apex = (
            np.stack([apex, right], axis=1).reshape(-1, 2),
            np.stack([left, apex], axis=1).reshape(-1, 2),
            np.repeat(middle, 2, axis=0),
        )
    levels: list[_Level] = []
    for number, (left_end, right_end, corner, middle) in enumerate(found):
        flat = _flat(middle, size)
        order = np.argsort(flat, kind="stable")
        midpoints, starts, counts = np.unique(flat[order], return_index=True, return_counts=True)
        one, other = order[starts], order[starts + counts - 1]
        below = None
        if number + 1 < len(found):
            children = _flat(found[number + 1][3], size)
            below = np.stack([children[2 * t + side] for t in (one, other) for side in (0, 1)])
        extent = (right_end - left_end)[one].astype(np.float64) ** 2
        levels.append(
            _Level(
                np.stack([_flat(ends, size) for ends in (left_end, corner, right_end)]),
                flat,
                midpoints,
                np.stack([_flat(left_end, size)[one], _flat(right_end, size)[one]]),
                below,
                np.ascontiguousarray(extent[:, 0]),
                np.ascontiguousarray(extent[:, 1]),
            )
        )
    edge = np.zeros((size, size), np.bool_)
    edge[[0, -1], :] = edge[:, [0, -1]] = True
    smallest = np.stack([_flat(ends, size) for ends in (left, apex, right)])
    return Hierarchy(size, tuple(levels), smallest, edge.ravel())


def errors(triangles: Hierarchy, heights: Floats, bend: tuple[float, float]) -> Floats:
    """Return for each sample the error bound of leaving its triangles unsplit.

    The bound of a midpoint is its own distance to the hypotenuse plus the largest bound of the
    triangles below. So no sample below is further from the unsplit triangle. (The maximum instead
    of the sum would be no bound.) It is infinite for samples on an edge, which are always used.

    Args:
        heights: metres, shape (size²,).
        bend: from `bend_of`; it grows with the square of the length.

    Returns:
        metres, shape (size²,); 0 at the four corners, which are no midpoints.
    """
    bounds = np.zeros(len(heights))
    bounds[triangles.edge] = np.inf
    for level in reversed(triangles.levels):
        ends = heights[level.ends]
        bound = np.abs(heights[level.midpoints] - (ends[0] + ends[1]) / 2)
        bound += bend[0] * level.across
        bound += bend[1] * level.up
        if level.below is not None:
            bound += bounds[level.below].max(axis=0)
        np.maximum(bound, bounds[level.midpoints], out=bound)
        bounds[level.midpoints] = bound
    return bounds


def triangulate(triangles: Hierarchy, bounds: Floats, most: float) -> Numbers:
    """Return the largest triangles whose error is at most ``most``, counter-clockwise.

    No sample is in the middle of an edge of another triangle, because a bound is never below those
    of smaller triangles at the same place.

    Args:
        bounds: from `errors`.

    Returns:
        numbers of samples, shape (n, 3); neighbours are near each other.
    """
    is_used = bounds > most
    depth = len(triangles.levels)
    active: Numbers = np.arange(2)
    corners, places = [], []
    for number, level in enumerate(triangles.levels):
        splits = is_used[level.midpoint[active]]
        whole = active[~splits]
        corners.append(level.corners[:, whole])
        places.append(whole << (depth - number))
        first = active[splits] * 2
        active = np.concatenate([first, first + 1])
    corners.append(triangles.smallest[:, active])
    places.append(active)
    order = np.argsort(np.concatenate(places), kind="stable")
    return np.ascontiguousarray(np.concatenate(corners, axis=1)[:, order].T)


def bend_of(size: int, width: float, height: float, radius: float) -> tuple[float, float]:
    """Return what one sample of a hypotenuse adds to its error because the ground bends, metres.

    Args:
        width, height: of the whole grid on the ground, metres.
        radius: of the Earth, metres.
    """
    east, north = width / (size - 1), height / (size - 1)
    part = _SAGITTA * _SHARE / radius
    return east * east * part, north * north * part


def _flat(points: Numbers, size: int) -> Numbers:
    return points[:, 1] * size + points[:, 0]
