"""The edges of polygons in another CRS, in which they are curves."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mastaba.model.bbox import WORLD, BoundingBox
from mastaba.model.crs import CRS, geographic_bbox, transform_points
from mastaba_render.areas.area import TURN, PolygonSet

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_EDGES: Final = 4_000_000
"""Of an area in another CRS."""
_MARGIN: Final = 1.0
"""Degrees. Polygons are cut this far outside of the level: projections end somewhere."""
_LONGEST: Final = 5.0
"""Degrees, or a part of the polygons: a longer edge may be curved in two directions."""
_PIECES: Final = 8
_ROUNDS: Final = 24
_PROBES: Final = 0.5, 0.21
"""Where the deviation of an edge is tested."""


class Edges(NamedTuple):
    """Edges of closed rings; each polygon follows the even-odd rule, and all are united.

    Attributes:
        x0, y0, x1, y1: from and to; CRS units.
        polygon: number of the polygon of each edge.
        low, high: of the two y.
    """

    x0: Floats
    y0: Floats
    x1: Floats
    y1: Floats
    polygon: Integers
    low: Floats
    high: Floats

    def between(self, low: float, high: float) -> Edges:
        """Return the edges that touch a range of y."""
        chosen = np.flatnonzero((self.high >= low) & (self.low <= high))
        return Edges(
            self.x0[chosen],
            self.y0[chosen],
            self.x1[chosen],
            self.y1[chosen],
            self.polygon[chosen],
            self.low[chosen],
            self.high[chosen],
        )

    @property
    def bbox(self) -> BoundingBox | None:
        """The box around the edges; None for no edges."""
        if not self.x0.size:
            return None
        x = self.x0.min(), self.x1.min(), self.x0.max(), self.x1.max()
        return BoundingBox(
            float(min(x[:2])), float(self.low.min()), float(max(x[2:])), float(self.high.max())
        )


def projected(part: PolygonSet, crs: CRS, level: BoundingBox, tolerance: float) -> Edges:
    """Return the edges of polygons in a CRS.

    Args:
        level: box of the tiles that may be asked about, CRS units.
        tolerance: by which an edge may deviate from the curve, CRS units.

    Raises:
        ValueError: they have too many edges.
    """
    rings = [(ring, number) for number, one in enumerate(part.polygons) for ring in one]
    points = np.concatenate([ring[:-1] for ring, _ in rings])
    lengths = [len(ring) - 1 for ring, _ in rings]
    ring = np.repeat(np.arange(len(rings)), lengths)
    polygon = np.repeat(np.array([number for _, number in rings]), lengths)
    if part.crs.is_geographic:
        points, ring, polygon = _on_globe(points, ring, polygon, _hull(crs, level))
    if not len(points):
        return _edges(np.zeros((0, 4)), np.zeros(0, np.int64))
    source = np.hstack([points, points[_following(ring)]])
    if part.crs == crs:
        return _edges(source, polygon)
    longest = _LONGEST if part.crs.is_geographic else float(np.ptp(points, axis=0).max()) / _PIECES
    source, polygon = _split(source, polygon, longest)
    return _curved(source, polygon, part.crs, crs, tolerance)


def _hull(crs: CRS, level: BoundingBox) -> BoundingBox:
    try:
        hull = geographic_bbox(level, crs)
    except ValueError:
        return WORLD
    wide = BoundingBox(
        hull.xmin - _MARGIN, hull.ymin - _MARGIN, hull.xmax + _MARGIN, hull.ymax + _MARGIN
    )
    return wide.intersection(WORLD) or WORLD


def _on_globe(
    points: Floats, ring: Integers, polygon: Integers, hull: BoundingBox
) -> tuple[Floats, Integers, Integers]:
    """Return the parts of rings inside a box; what is beyond the antimeridian is moved."""
    found: list[tuple[Floats, Integers, Integers]] = []
    for number, shift in enumerate((0.0, -TURN, TURN)):
        moved = points + np.array([shift, 0.0])
        if not (
            moved[:, 0].min() <= hull.xmax
            and moved[:, 0].max() >= hull.xmin
            and (number == 0 or np.abs(points[:, 0]).max() > TURN / 2)
        ):
            continue
        # Each copy is a polygon of its own.
        offset = number * (int(polygon.max()) + 1)
        one = moved, ring + number * (int(ring.max()) + 1), polygon + offset
        for axis, low, high in ((0, hull.xmin, hull.xmax), (1, hull.ymin, hull.ymax)):
            one = _clipped(*one, axis, low, 1.0)
            one = _clipped(*one, axis, high, -1.0)
        found.append(one)
    if not found:
        return points[:0], ring[:0], polygon[:0]
    return (
        np.concatenate([one[0] for one in found]),
        np.concatenate([one[1] for one in found]),
        np.concatenate([one[2] for one in found]),
    )


def _clipped(
    points: Floats, ring: Integers, polygon: Integers, axis: int, limit: float, sign: float
) -> tuple[Floats, Integers, Integers]:
    """Return rings cut at a line; parts of one ring stay joined along the line.

    Args:
        sign: 1 to keep what is above the limit, -1 to keep what is below.
    """
    above = sign * (points[:, axis] - limit)
    if not len(points) or (above >= 0).all():
        return points, ring, polygon
    after = _following(ring)
    crosses = (above >= 0) != (above[after] >= 0)
    share = np.zeros(len(points))
    np.divide(above, above - above[after], out=share, where=crosses)
    met = points + share[:, np.newaxis] * (points[after] - points)
    met[:, axis] = limit
    kept = np.stack([above >= 0, crosses], axis=1)
    both = np.stack([points, met], axis=1)[kept]
    numbers = np.repeat(np.arange(len(points)), kept.sum(axis=1))
    return both, ring[numbers], polygon[numbers]


def _following(ring: Integers) -> Integers:
    """Return the number of the point after each point of its ring."""
    count = len(ring)
    after = np.arange(1, count + 1)
    is_last = np.append(ring[1:] != ring[:-1], [True])
    first = np.concatenate([[0], np.flatnonzero(is_last)[:-1] + 1])
    after[is_last] = first
    return after


def _split(source: Floats, polygon: Integers, longest: float) -> tuple[Floats, Integers]:
    """Return edges of which none is longer than a length."""
    length = np.abs(source[:, 2:] - source[:, :2]).max(axis=1)
    counts = np.maximum(np.ceil(length / max(longest, 1e-12)), 1).astype(np.int64)
    if counts.sum() > MOST_EDGES:
        raise ValueError("the area has too many edges")
    if (counts == 1).all():
        return source, polygon
    numbers = np.repeat(np.arange(len(source)), counts)
    step = np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts)
    total = counts[numbers]
    start, end = source[numbers, :2], source[numbers, 2:]
    # Neighbours must have exactly the same point in common.
    one = start + (step / total)[:, np.newaxis] * (end - start)
    other = start + ((step + 1) / total)[:, np.newaxis] * (end - start)
    is_end = step + 1 == total
    other[is_end] = end[is_end]
    return np.hstack([one, other]), polygon[numbers]


def _curved(source: Floats, polygon: Integers, one: CRS, other: CRS, tolerance: float) -> Edges:
    """Return edges in another CRS, divided until they follow their curves."""
    target = np.hstack([_moved(source[:, :2], one, other), _moved(source[:, 2:], one, other)])
    done: list[tuple[Floats, Integers]] = []
    count = 0
    for _ in range(_ROUNDS):
        deviates = np.zeros(len(source), np.bool_)
        for share in _PROBES:
            found = _moved(source[:, :2] + share * (source[:, 2:] - source[:, :2]), one, other)
            chord = target[:, :2] + share * (target[:, 2:] - target[:, :2])
            with np.errstate(invalid="ignore"):
                deviates |= np.hypot(*(found - chord).T) > tolerance
        done.append((target[~deviates], polygon[~deviates]))
        source, target, polygon = source[deviates], target[deviates], polygon[deviates]
        count += len(done[-1][0])
        if not len(source):
            break
        if count + 2 * len(source) > MOST_EDGES:
            raise ValueError(f"the area has more than {MOST_EDGES:,} edges in {other.code}")
        middle = source[:, :2] + 0.5 * (source[:, 2:] - source[:, :2])
        there = _moved(middle, one, other)
        source = np.concatenate(
            [np.hstack([source[:, :2], middle]), np.hstack([middle, source[:, 2:]])]
        )
        target = np.concatenate(
            [np.hstack([target[:, :2], there]), np.hstack([there, target[:, 2:]])]
        )
        polygon = np.concatenate([polygon, polygon])
    done.append((target, polygon))
    target = np.concatenate([item[0] for item in done])
    polygon = np.concatenate([item[1] for item in done])
    # Where a polygon has no place in the CRS, nothing of it is shown.
    lost = np.unique(polygon[~np.isfinite(target).all(axis=1)])
    known = ~np.isin(polygon, lost)
    return _edges(target[known], polygon[known])


def _moved(points: Floats, one: CRS, other: CRS) -> Floats:
    return np.stack(transform_points(one, other, points[:, 0], points[:, 1]), axis=1)


def _edges(ends: Floats, polygon: Integers) -> Edges:
    x0, y0, x1, y1 = (np.ascontiguousarray(ends[:, number]) for number in range(4))
    return Edges(x0, y0, x1, y1, polygon.astype(np.int64), np.minimum(y0, y1), np.maximum(y0, y1))
