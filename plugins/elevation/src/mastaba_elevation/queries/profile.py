"""Profiles: heights along a line (elevation.md 1.5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from mastaba_elevation.queries.ground import Floats, metres_per_unit, to_degrees
from mastaba_elevation.queries.lines import AUTO, EVEN, FILL, Line
from mastaba_elevation.queries.sampling import Samples

if TYPE_CHECKING:
    from mastaba_elevation.queries.datasets import Dataset

SampleLine: TypeAlias = Callable[[Floats, Floats], Samples]
"""Samples points in the CRS of a line."""

MINMAX: Final = "minmax"
_FEWEST: Final = 4
"""Points of a profile that keeps peaks: both ends, one low, one high."""


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Points along a line with their heights.

    Attributes:
        x, y, distances: shape (n,).
        samples: their heights.
        times: Unix seconds, shape (n,), or None.
    """

    x: Floats
    y: Floats
    distances: Floats
    samples: Samples
    times: Floats | None = None

    def only(self, chosen: npt.NDArray[np.int64]) -> Profile:
        """Return some of the points."""
        found = self.samples
        samples = Samples(found.heights[chosen], found.layers[chosen], found.levels[chosen])
        times = None if self.times is None else self.times[chosen]
        return Profile(self.x[chosen], self.y[chosen], self.distances[chosen], samples, times)


def finest_step(dataset: Dataset, line: Line) -> float:
    """Return the smallest cell of a dataset at the middle of a line, metres."""
    middle = len(line.x) // 2
    _, latitude = to_degrees(line.crs, line.x[middle : middle + 1], line.y[middle : middle + 1])
    where = float(latitude[0]) if math.isfinite(latitude[0]) else 0.0
    return min(
        float(layer.layer.pyramid.finest.matrix.cell_size * metres_per_unit(layer.crs, where))
        for layer in dataset.layers
    )


def profile(line: Line, sampled: SampleLine, mode: str, count: int, step: float) -> Profile:
    """Return a profile.

    Args:
        sampled: samples points.
        mode: one of `lines.MODES`; ``auto`` takes a point per cell, at most ``count``.
        count: number of points.
        step: smallest useful distance between points, metres.
    """
    if mode == AUTO:
        mode, count = FILL, max(2, min(count, _whole(line.length / step) + 1))
    x, y = line.points(mode, count)
    return Profile(x, y, line.distances(x, y), sampled(x, y))


def peaks(line: Line, sampled: SampleLine, count: int, step: float, most: int) -> Profile:
    """Return a profile that keeps the highest and the lowest points of a finer one.

    Args:
        count: number of points at most.
        step: smallest useful distance between points, metres.
        most: number of points of the finer profile at most.
    """
    wanted = max(2, min(most, _whole(line.length / step) + 1))
    fine = profile(line, sampled, EVEN, max(wanted, count), step)
    return with_peaks(fine, count)


def _whole(number: float) -> int:
    return math.ceil(min(number, 1e9)) if math.isfinite(number) else 0


def _extremes(heights: Floats, count: int) -> npt.NDArray[np.int64]:
    """Return both ends and, in each of count / 2 - 1 bins, the lowest and the highest point."""
    total = len(heights)
    if total <= count:
        return np.arange(total)
    edges = np.linspace(0, total, max(1, count // 2 - 1) + 1).astype(np.int64)
    chosen = {0, total - 1}
    for start, end in pairwise(edges.tolist()):
        part = heights[start:end]
        if np.isnan(part).all():
            # A hole stays visible.
            chosen.add(int(start))
        else:
            chosen |= {int(start + np.nanargmin(part)), int(start + np.nanargmax(part))}
    return np.array(sorted(chosen))


def with_peaks(found: Profile, count: int) -> Profile:
    """Return a profile of at most ``count`` points, or 4, that keeps the peaks of a finer one."""
    return found.only(_extremes(found.samples.heights, max(count, _FEWEST)))


def simplified(found: Profile, tolerance: float) -> Profile:
    """Return a profile without points that change its shape by less than a tolerance.

    Douglas and Peucker, on distance and height. The edges of holes are kept.

    Args:
        tolerance: metres, measured vertically.
    """
    heights, along = found.samples.heights, found.distances
    keep = np.zeros(len(heights), np.bool_)
    known = ~np.isnan(heights)
    change = np.flatnonzero(np.diff(known)) + 1
    for start, end in zip(
        np.concatenate([[0], change]), np.concatenate([change, [len(heights)]]), strict=True
    ):
        keep[[start, end - 1]] = True
        waiting = [(int(start), int(end) - 1)] if known[start] else []
        while waiting:
            first, last = waiting.pop()
            if last - first < 2:
                continue
            part = slice(first + 1, last)
            run = along[last] - along[first]
            slope = (heights[last] - heights[first]) / run if run > 0 else 0.0
            off = np.abs(heights[part] - heights[first] - slope * (along[part] - along[first]))
            worst = int(off.argmax())
            if off[worst] > tolerance:
                middle = first + 1 + worst
                keep[middle] = True
                waiting += [(first, middle), (middle, last)]
    return found.only(np.flatnonzero(keep))


def ascent_and_descent(heights: Floats, hysteresis: float = 0.0) -> tuple[float, float]:
    """Return the sums of the positive and of the negative differences, both positive.

    Args:
        heights: NaN for holes, which are not bridged.
        hysteresis: metres; a change counts once it exceeds them.
    """
    if hysteresis <= 0.0:
        changes = np.diff(heights)
        changes = changes[~np.isnan(changes)]
        return float(changes[changes > 0].sum()), float(abs(changes[changes < 0].sum()))
    up = down = 0.0
    base = math.nan
    for height in heights.tolist():
        if math.isnan(height) or math.isnan(base):
            base = height
        elif height - base > hysteresis:
            up, base = up + height - base, height
        elif base - height > hysteresis:
            down, base = down + base - height, height
    return up, down
