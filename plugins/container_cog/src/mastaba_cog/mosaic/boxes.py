"""Boxes that are found by place, in arrays that all processes of a server share."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

_IN_LEAF: Final = 64
"""Boxes that are compared one by one."""


class BoxIndex:
    """Finds the boxes that meet another one.

    A tree of two levels (Leutenegger et al., STR, 1997): boxes that are near are in one leaf. Plain
    arrays, because a process that is forked must not copy them, and threads need no lock.

    Args:
        boxes: shape (boxes, 4): xmin, ymin, xmax, ymax.
    """

    def __init__(self, boxes: Floats) -> None:
        count = len(boxes)
        x, y = boxes[:, 0] + boxes[:, 2], boxes[:, 1] + boxes[:, 3]
        strips = max(1, math.ceil(math.sqrt(count / _IN_LEAF)))
        strip = np.empty(count, np.int64)
        strip[np.argsort(x, kind="stable")] = np.arange(count) * strips // max(1, count)
        self._order = np.lexsort((y, strip))
        self._boxes = np.ascontiguousarray(boxes[self._order].T)
        starts = np.arange(0, count, _IN_LEAF)
        low = [np.minimum.reduceat(one, starts) for one in self._boxes[:2]] if count else []
        high = [np.maximum.reduceat(one, starts) for one in self._boxes[2:]] if count else []
        self._leaves = np.array([*low, *high]) if count else np.empty((4, 0))

    def __len__(self) -> int:
        return len(self._order)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._order.nbytes + self._boxes.nbytes + self._leaves.nbytes

    def meeting(self, xmin: float, ymin: float, xmax: float, ymax: float) -> Numbers:
        """Return the numbers of the boxes that share more than an edge with a box, ascending."""
        leaves = np.flatnonzero(_meet(self._leaves, xmin, ymin, xmax, ymax))
        parts = [slice(leaf * _IN_LEAF, (leaf + 1) * _IN_LEAF) for leaf in leaves.tolist()]
        if not parts:
            return np.empty(0, np.int64)
        if len(parts) > len(self._leaves[0]) // 2:
            parts = [slice(None)]
        found = [
            self._order[part][_meet(self._boxes[:, part], xmin, ymin, xmax, ymax)] for part in parts
        ]
        together = np.concatenate(found)
        together.sort()
        return together


def _meet(
    boxes: Floats, xmin: float, ymin: float, xmax: float, ymax: float
) -> npt.NDArray[np.bool_]:
    left, bottom, right, top = boxes
    found: npt.NDArray[np.bool_] = (left < xmax) & (right > xmin) & (bottom < ymax) & (top > ymin)
    return found
