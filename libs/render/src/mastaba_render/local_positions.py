"""Positions and kernel ratios of maps whose scale varies: near the poles, or rotated.

One ratio for a whole map causes aliasing in one part of it and blur in another. Here each position
has its own ratios: the lengths of the gradients of the source column and of the source row over the
pixels of the map. Positions and ratios are computed on a grid of 8 × 8 pixels that is anchored at
the origin of the CRS of the map, not at a corner of the map. So they depend only on the place on
the ground and the size of a pixel, and adjacent maps show the same pixels there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mastaba_render.map_request import Mask
from mastaba_render.native import Floats, Window
from mastaba_render.sampling import GridPositions

Transform = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""Returns source columns and rows at map positions x and y, pixels from the corner of the map."""

# The side of a block of `mastaba_render.native.Grid`.
_PITCH: Final = 8
# Allowed error of an interpolated position in source pixels; in map pixels if the map shrinks.
_UNEVEN: Final = 1.0 / 8.0
# A block is not interpolated if the ratios of its corners differ by more than this factor.
_STEEP: Final = 1.25
# A step this many times longer than the one on the other side is a jump, not a gradient.
_LEAP: Final = 4.0
# Most blocks whose pixels are all transformed, so that a map costs at most a million points.
_MOST_BLOCKS: Final = (1 << 20) // (_PITCH * _PITCH)
# Fraction of a pixel to which the first corner of a block is rounded, so the others are exact.
_EXACT: Final = 1 << 20


def local_positions(
    place: Transform,
    size: tuple[int, int],
    start: tuple[float, float],
    turn: float,
    *,
    wraps: bool,
    largest: float,
) -> GridPositions | None:
    """Return the positions of a map.

    Args:
        place: returns source columns and rows at positions in the map.
        size: width and height of the map.
        start: left and upper edge of the map, in its pixels from the origin of its CRS (rows
            downward).
        turn: length of a full turn of the Earth in source columns; infinite if there is none.
        wraps: whether columns repeat after a turn.
        largest: upper limit for the ratios. A single pixel, such as one at a pole, may cover a
            large part of the source.

    Returns:
        None if no pixel has a position in the source CRS.
    """
    across, down = _nodes(start[0], size[0]), _nodes(start[1], size[1])
    corners = place(*np.meshgrid(across + 0.5, down + 0.5))
    with np.errstate(invalid="ignore"):
        ratios, uneven, leap = _node_fields(corners, turn, largest)
        spread = np.maximum(_spread(ratios[0]), _spread(ratios[1]))
        bent = leap | _corners(uneven).any(axis=0) | (spread > _STEEP)
    across, down = across[1:-1], down[1:-1]
    # If there are too many, take the worst ones.
    order = np.flatnonzero(bent)
    if order.size > _MOST_BLOCKS:
        badness = np.nan_to_num(spread, nan=np.inf).ravel()[order]
        order = np.sort(order[np.argsort(-badness, kind="stable")[:_MOST_BLOCKS]])
    rows, columns = np.divmod(order, len(across) - 1)
    details = _details(place, down[rows], across[columns], turn, largest)
    fields = np.stack([*(values[1:-1, 1:-1] for values in corners), *ratios])
    if order.size == bent.size and not np.isfinite(details[:, 0] + details[:, 1]).any():
        return None
    blocks = np.full(bent.shape, -1, np.int32)
    blocks[rows, columns] = np.arange(order.size)
    wrap = turn if wraps else 0.0
    return GridPositions(
        across,
        down,
        fields,
        part=Window(0, size[1], 0, size[0]),
        ratios=(median_of(ratios[0]), median_of(ratios[1])),
        complete=bool(np.isfinite(details[:, :2]).all() and order.size == np.count_nonzero(bent)),
        blocks=blocks,
        details=details,
        wrap=wrap,
        centre=_centre(np.append(fields[0], details[:, 0]), wrap) if wrap else 0.0,
    )


def _nodes(start: float, size: int) -> Floats:
    """Return the corners of the blocks that a map touches along one axis, and one beyond each end.

    Args:
        start: position of the edge of the first pixel, in pixels from the origin of the CRS.
        size: pixels of the map.

    Returns:
        positions in the map; 0 is the centre of its first pixel.
    """
    first, last = (np.floor((start + i + 0.5) / _PITCH) for i in (0, size - 1))
    # Rounded, so that a pixel on the corner belongs to the same block in every map.
    corner = np.round((first * _PITCH - start - 0.5) * _EXACT) / _EXACT
    nodes: Floats = corner + _PITCH * np.arange(-1, int(last - first) + 3)
    return nodes


def median_of(ratios: Floats) -> float:
    """Return the median of the ratios that are finite; 1 without any."""
    known = ratios[np.isfinite(ratios)]
    return float(np.median(known)) if known.size else 1.0


def gradients(found: tuple[Floats, Floats], turn: float) -> tuple[Floats, Floats]:
    """Return the kernel ratios at single positions of a map; not finite where undefined.

    Args:
        found: source columns and rows, each of shape (5, ...): at the positions, and half a pixel
            to the left, to the right, above and below.
        turn: as for `local_positions`.

    Returns:
        ratios along source columns and rows, of shape (...).
    """
    ratios = []
    with np.errstate(invalid="ignore"):
        for values, period in zip(found, (turn, np.inf), strict=True):
            middle, *ends = values
            left, right, above, below = (_step(end - middle, period) for end in ends)
            ratios.append(2.0 * np.hypot(_typical(left, right), _typical(above, below)))
    return ratios[0], ratios[1]


def _node_fields(
    corners: tuple[Floats, Floats], turn: float, largest: float
) -> tuple[tuple[Floats, Floats], Mask, Mask]:
    """Return ratios at all nodes except the outer ones, and two masks.

    They are true for uneven nodes, and for blocks with a jump between two corners.
    """
    ratios = []
    uneven = np.zeros(tuple(side - 2 for side in corners[0].shape), np.bool_)
    for values, period in zip(corners, (turn, np.inf), strict=True):
        raw = np.diff(values, axis=1), np.diff(values, axis=0)
        wide, high = (_step(steps, period) for steps in raw)
        left, right = wide[1:-1, :-1], wide[1:-1, 1:]
        above, below = high[:-1, 1:-1], high[1:, 1:-1]
        ratio = np.hypot(_typical(left, right), _typical(above, below)) / _PITCH
        errors = (np.abs(right - left) + np.abs(below - above)) / 8.0
        # In this form, values that are not finite count as uneven.
        uneven |= ~(errors <= _UNEVEN * np.maximum(1.0, ratio))
        ratios.append(np.clip(ratio, 1.0, largest))
        if values is corners[0]:
            across = np.abs(wide - raw[0])[1:-1, 1:-1] > 0.0
            down = np.abs(high - raw[1])[1:-1, 1:-1] > 0.0
            leap = across[:-1] | across[1:] | down[:, :-1] | down[:, 1:]
    return (ratios[0], ratios[1]), uneven, leap


def _details(
    place: Transform, first_rows: Floats, first_columns: Floats, turn: float, largest: float
) -> Floats:
    """Return the fields of each pixel in some blocks, shape (blocks, 4, 8, 8).

    Args:
        first_rows, first_columns: upper left corners of the blocks.
    """
    steps = np.arange(-1, _PITCH + 1) + 0.5
    columns = np.ceil(first_columns)[:, np.newaxis, np.newaxis] + steps
    rows = np.ceil(first_rows)[:, np.newaxis, np.newaxis] + steps[:, np.newaxis]
    found = place(*np.broadcast_arrays(columns, rows))
    result = np.empty((len(first_rows), 4, _PITCH, _PITCH))
    with np.errstate(invalid="ignore"):
        for i, (values, period) in enumerate(zip(found, (turn, np.inf), strict=True)):
            wide, high = (_step(np.diff(values, axis=axis), period) for axis in (2, 1))
            across = _typical(wide[:, 1:-1, :-1], wide[:, 1:-1, 1:])
            down = _typical(high[:, :-1, 1:-1], high[:, 1:, 1:-1])
            ratio = np.hypot(across, down)
            result[:, i] = values[:, 1:-1, 1:-1]
            result[:, i + 2] = np.clip(np.where(np.isfinite(ratio), ratio, 1.0), 1.0, largest)
    return result


def _step(steps: Floats, period: float) -> Floats:
    """Return steps, taken the shorter way around the Earth."""
    return steps - period * np.round(steps / period) if np.isfinite(period) else steps


def _typical(one: Floats, other: Floats) -> Floats:
    """Return the mean length of the steps on both sides, or the shorter one next to a jump."""
    one, other = np.abs(one), np.abs(other)
    short = np.fmin(one, other)
    long = np.fmax(one, other)
    mean: Floats = np.where(long > _LEAP * short + 1.0, short, (one + other) / 2.0)
    return mean


def _corners(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values at the corners of each block, shape (4, blocks down, blocks across)."""
    return np.stack([values[:-1, :-1], values[:-1, 1:], values[1:, :-1], values[1:, 1:]])


def _spread(ratios: Floats) -> Floats:
    """Return the factor by which the ratios at the corners of each block differ."""
    corners = _corners(ratios)
    spread: Floats = corners.max(axis=0) / corners.min(axis=0)
    return spread


def _centre(columns: Floats, turn: float) -> float:
    """Return the middle of the shortest arc that contains all finite columns."""
    around = np.sort(columns[np.isfinite(columns)] % turn)
    gaps = np.diff(around, append=around[0] + turn)
    widest = int(np.argmax(gaps))
    return float(around[widest] + gaps[widest] / 2 - turn / 2)
