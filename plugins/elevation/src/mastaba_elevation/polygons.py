"""Which pixels are inside a polygon (elevation.md 1.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.ground import Floats

Booleans = npt.NDArray[np.bool_]
Ring = Floats
"""Shape (n, 2), x and y; closed: the last point equals the first."""

_FINER: Final = 8
"""Parts of a pixel along each axis, where a polygon is small."""
_MOST_CROSSINGS: Final = 2_000_000
_MOST_POINTS: Final = 400_000


def closed(points: Floats) -> Ring:
    """Return a ring whose last point is the first."""
    if len(points) and (points[0] != points[-1]).any():
        return np.concatenate([points, points[:1]])
    return points


def densified(ring: Ring, longest: float, most: int = _MOST_POINTS) -> Ring:
    """Return a ring with further points, so that no edge is longer.

    Raises:
        TooMuchError: it would have more points than ``most``.
    """
    lengths = np.hypot(*np.diff(ring, axis=0).T)
    with np.errstate(over="ignore"):
        wanted = np.maximum(np.ceil(lengths / longest), 1)
    if not np.isfinite(wanted).all() or wanted.sum() > most:
        raise TooMuchError("the geometry has too many points, or is too long")
    parts = wanted.astype(np.int64)
    edges = np.repeat(np.arange(len(parts)), parts)
    starts = np.cumsum(parts) - parts
    along = (np.arange(len(edges)) - starts[edges]) / parts[edges]
    points = ring[edges] + along[:, np.newaxis] * (ring[edges + 1] - ring[edges])
    return np.concatenate([points, ring[-1:]])


def inside(
    rings: Sequence[Ring],
    top: int,
    bottom: int,
    left: int,
    right: int,
    finer: int = 1,
    *,
    union: bool = False,
) -> Booleans:
    """Return which pixels have their centre inside (even-odd rule).

    Args:
        rings: in pixels; 0 is the left or upper edge of the first one.
        top, bottom, left, right: window; the last row and column are not included.
        finer: parts of a pixel along each axis that are looked at instead of the pixel.
        union: whether a centre inside of any ring is inside. The rings have the same direction.

    Returns:
        shape ((bottom - top) · finer, (right - left) · finer).

    Raises:
        TooMuchError: the polygon crosses too many rows.
    """
    rows, columns = (bottom - top) * finer, (right - left) * finer
    # Centres of rows are at whole numbers, and an edge owns its upper end.
    offset = np.array([left, top])
    starts, ends = (
        (np.concatenate([ring[part] for ring in rings]) - offset) * finer - 0.5
        for part in (slice(None, -1), slice(1, None))
    )
    first = np.clip(np.ceil(np.minimum(starts[:, 1], ends[:, 1])), 0, rows).astype(np.int64)
    last = np.clip(np.ceil(np.maximum(starts[:, 1], ends[:, 1])), 0, rows).astype(np.int64)
    counts = last - first
    if counts.sum() > _MOST_CROSSINGS:
        raise TooMuchError("the polygon has too many edges")
    edges = np.repeat(np.arange(len(counts)), counts)
    row = first[edges] + np.arange(len(edges)) - (np.cumsum(counts) - counts)[edges]
    x, y = starts[edges].T
    across, down = (ends - starts)[edges].T
    column = np.clip(np.ceil(x + (row - y) * (across / down)), 0, columns).astype(np.int64)
    if union:
        turns = np.zeros((rows, columns + 1), np.int32)
        np.add.at(turns, (row, column), np.where(down > 0, 1, -1))
        return np.asarray(np.add.accumulate(turns, axis=1)[:, :columns] != 0)
    toggles = np.zeros((rows, columns + 1), np.bool_)
    # An even number of crossings at one place cancels out.
    np.bitwise_xor.at(toggles, (row, column), True)
    return np.bitwise_xor.accumulate(toggles, axis=1)[:, :columns]


def coverage(rings: Sequence[Ring], top: int, bottom: int, left: int, right: int) -> Floats:
    """Return the part of each pixel that is inside, from 8 × 8 places in it."""
    fine = inside(rings, top, bottom, left, right, _FINER)
    shape = (bottom - top, _FINER, right - left, _FINER)
    return np.asarray(fine.reshape(shape).mean(axis=(1, 3)))
