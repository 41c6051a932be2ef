"""Blocks of tiles, whose requests are counted (access.md section 6.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from mastaba_usage.cells import Cell

SHIFT: Final = 6
"""Binary logarithm of the rows and columns of a block, in tiles."""


class Block(NamedTuple):
    """A block of tiles of one level.

    Attributes:
        level: identifier of the tile matrix.
        row, col: of the block, from the upper left corner of the matrix.
        hits: tiles that were sent, or not changed.
    """

    level: str
    row: int
    col: int
    hits: int


def name_of(row: int, col: int) -> str:
    """Return the name of a block in a file of counters.

    Args:
        row, col: of the block.
    """
    return f"{row}/{col}"


def place_of(cell: Cell) -> tuple[int, int] | None:
    """Return row and column of a block from its cell; None for a cell of all that had no room."""
    row, slash, col = cell.ability.partition("/")
    return (int(row), int(col)) if slash and cell.level else None
