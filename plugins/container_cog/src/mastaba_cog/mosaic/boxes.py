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
        order = np.lexsort((y, strip))
        leaves = -(-count // _IN_LEAF)
        # No box meets those that fill the last leaf.
        sorted_boxes = np.full((4, leaves * _IN_LEAF), np.nan)
        sorted_boxes[:, :count] = boxes[order].T
        self._boxes = sorted_boxes.reshape(4, leaves, _IN_LEAF)
        self._order = np.full((leaves, _IN_LEAF), -1, np.int64)
        self._order.reshape(-1)[:count] = order
        self._leaves = np.concatenate(
            [np.nanmin(self._boxes[:2], axis=2), np.nanmax(self._boxes[2:], axis=2)]
        )
        self._count = count

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._order.nbytes + self._boxes.nbytes + self._leaves.nbytes

    def meeting(self, xmin: float, ymin: float, xmax: float, ymax: float) -> Numbers:
        """Return the numbers of the boxes that share more than an edge with a box, ascending."""
        leaves = np.flatnonzero(_meet(self._leaves, xmin, ymin, xmax, ymax))
        found: Numbers = self._order[leaves][_meet(self._boxes[:, leaves], xmin, ymin, xmax, ymax)]
        found.sort()
        return found


def _meet(
    boxes: Floats, xmin: float, ymin: float, xmax: float, ymax: float
) -> npt.NDArray[np.bool_]:
    left, bottom, right, top = boxes
    found: npt.NDArray[np.bool_] = (left < xmax) & (right > xmin) & (bottom < ymax) & (top > ymin)
    return found
