"""Contour lines of a grid, many at once (elevation.md 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import contourpy
import numpy as np
import numpy.typing as npt

from mastaba_elevation.queries.ground import Floats

Numbers = npt.NDArray[np.int64]

EXTENT: Final = 4096
"""Units on each side of a tile."""

_TIE: Final = 2.0**-10
"""Metres by which a line is above its height, so that flat ground of that height has none."""
_DIGITS: Final = 6
"""Of a unit; rounding errors that differ between two tiles must not become a whole unit."""


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Lines in units of a tile, x to the right and y downward.

    Attributes:
        points: of all lines, shape (n, 2).
        starts: first point of each line, and n, shape (m + 1,).
        heights: number of the height of each line, shape (m,).
    """

    points: Numbers
    starts: Numbers
    heights: Numbers

    @property
    def lengths(self) -> Numbers:
        """Number of points of each line."""
        return np.diff(self.starts)

    def kept(self, points: npt.NDArray[np.bool_]) -> Lines:
        """Return the lines of some of the points; those with a single point are left out."""
        if not len(points):
            return self
        counts = np.add.reduceat(points, self.starts[:-1], dtype=np.int64)
        return Lines(self.points[points], _starts(counts), self.heights).whole(counts >= 2)

    def whole(self, lines: npt.NDArray[np.bool_]) -> Lines:
        """Return some of the lines."""
        if lines.all():
            return self
        points = self.points[np.repeat(lines, self.lengths)]
        return Lines(points, _starts(self.lengths[lines]), self.heights[lines])

    def parts(self, height: int) -> list[Numbers]:
        """Return the lines of a height."""
        first, last = np.searchsorted(self.heights, [height, height + 1])
        starts = self.starts[first : last + 1].tolist()
        return [self.points[a:b] for a, b in pairwise(starts)]


def traced(grid: Floats, heights: Sequence[float], border: int, intervals: int) -> Lines:
    """Return the contour lines of a grid.

    Higher ground is on the right of a line, as it is seen on a map.

    Args:
        grid: metres, rows from the north; NaN in holes.
        heights: metres, ascending.
        border: intervals around the tile on each side.
        intervals: of the tile on each side.
    """
    masked = np.ma.masked_invalid(grid) if np.isnan(grid).any() else grid
    generator = contourpy.contour_generator(
        z=masked,
        name="serial",
        corner_mask=True,
        line_type=contourpy.LineType.ChunkCombinedOffset,
    )
    points, counts, numbers = [], [], []
    levels = generator.multi_lines([height + _TIE for height in heights])
    for number, lines in enumerate(levels):
        # There is one chunk, the whole grid.
        for found, offsets in zip(*lines, strict=True):
            if found is not None and offsets is not None:
                points.append(found)
                counts.append(np.diff(np.asarray(offsets, np.int64)))
                numbers.append(np.full(len(offsets) - 1, number))
    if not points:
        empty = np.zeros(0, np.int64)
        return Lines(empty.reshape(0, 2), np.zeros(1, np.int64), empty)
    places = (np.concatenate(points) - border) * (EXTENT / intervals)
    units = np.floor(np.round(places, _DIGITS) + 0.5).astype(np.int64)
    found = Lines(units, _starts(np.concatenate(counts)), np.concatenate(numbers))
    return without_repeats(found)


def without_repeats(lines: Lines) -> Lines:
    """Return lines without points that are equal to the previous one."""
    if not len(lines.points):
        return lines
    is_new = np.ones(len(lines.points), np.bool_)
    x, y = lines.points.T
    is_new[1:] = (x[1:] != x[:-1]) | (y[1:] != y[:-1])
    is_new[lines.starts[:-1]] = True
    return lines if is_new.all() else lines.kept(is_new)


def without_small_rings(lines: Lines, size: int) -> Lines:
    """Return lines without closed ones whose box is smaller than a size on both sides."""
    if not len(lines.points):
        return lines
    first, last = lines.points[lines.starts[:-1]], lines.points[lines.starts[1:] - 1]
    lowest = np.minimum.reduceat(lines.points, lines.starts[:-1])
    highest = np.maximum.reduceat(lines.points, lines.starts[:-1])
    is_small = (first == last).all(axis=1) & (highest - lowest < size).all(axis=1)
    return lines.whole(~is_small)


def simplified(lines: Lines, tolerance: float) -> Lines:
    """Return lines with fewer points (Douglas and Peucker), all of them at the same time.

    Points on the sides of the tile stay, so that both tiles have the same ones.

    Args:
        tolerance: units by which a point that is left out may be beside the line.
    """
    count = len(lines.points)
    if not count:
        return lines
    stays = ((lines.points == 0) | (lines.points == EXTENT)).any(axis=1)
    stays[lines.starts[:-1]] = stays[lines.starts[1:] - 1] = True
    points = lines.points.astype(np.float64)
    todo = np.flatnonzero(~stays)
    while len(todo):
        kept = np.flatnonzero(stays)
        number = np.searchsorted(kept, todo)
        squared = _squared_distances(points[todo], points[kept[number - 1]], points[kept[number]])
        firsts = np.flatnonzero(np.diff(number, prepend=-1))
        widths = np.diff(firsts, append=len(todo))
        furthest = np.repeat(np.maximum.reduceat(squared, firsts), widths)
        is_open = furthest > tolerance * tolerance
        splits = is_open & (squared == furthest)
        stays[todo[splits]] = True
        todo = todo[is_open & ~splits]
    return without_repeats(lines.kept(stays))


def _squared_distances(points: Floats, starts: Floats, ends: Floats) -> Floats:
    """Return the squared distances of points to straight lines between two others."""
    along, there = ends - starts, points - starts
    length = (along * along).sum(axis=1)
    share = (there * along).sum(axis=1) / np.where(length > 0, length, 1.0)
    away = there - np.clip(share, 0.0, 1.0)[:, np.newaxis] * along
    return np.asarray((away * away).sum(axis=1))


def _starts(counts: npt.ArrayLike) -> Numbers:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
