"""Rows of a map while they are computed: float32, with room for a last pixel of four channels."""

from __future__ import annotations

from typing import Any

from numba import float32, types, uint8
from numba.extending import overload

SLACK = 4
"""Values that a row has more than its pixels."""


def finish(line: Any, row: Any) -> None:
    """Write a row into the map: as it is, or rounded half up and cut to what a byte holds.

    Args:
        line: float32, longer than `row` by `SLACK`.
        row: float32 or uint8, shape (values,).
    """
    raise NotImplementedError("only for compiled functions")


@overload(finish)
def _finish(line: Any, row: Any) -> Any:
    if row.dtype == types.uint8:

        def rounded(line: Any, row: Any) -> None:
            for x in range(len(row)):
                row[x] = uint8(min(max(line[x] + float32(0.5), float32(0)), float32(255)))

        return rounded

    def copied(line: Any, row: Any) -> None:
        for x in range(len(row)):
            row[x] = line[x]

    return copied
