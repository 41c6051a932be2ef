"""The tiles or strips of a TIFF image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_STRIP: Final = 256 * 1024
"""Bytes of a strip before compression."""


@dataclass(frozen=True, slots=True)
class TileShape:
    """How an image is divided.

    Attributes:
        width, height: cells of a tile; a strip is as wide as the image.
        is_tiled: whether there are tiles, which are always whole. The last strip ends with the
            image.
    """

    width: int
    height: int
    is_tiled: bool = True

    @classmethod
    def strips(cls, columns: int, cell: int, step: int = 1, most: int | None = None) -> TileShape:
        """Return strips for an image.

        Args:
            columns: of the image.
            cell: bytes of a cell.
            step: the number of rows is a multiple of it.
            most: rows; None for no limit.
        """
        rows = _STRIP // (columns * cell)
        rows = rows if most is None else min(rows, most)
        return cls(columns, max(1, rows // step) * step, False)

    def across(self, columns: int) -> int:
        """Return the number of tiles side by side."""
        return -(-columns // self.width)

    def down(self, rows: int) -> int:
        """Return the number of tiles one below the other."""
        return -(-rows // self.height)

    def height_of(self, row: int, rows: int) -> int:
        """Return the height of a tile.

        Args:
            row: its row.
            rows: cells of the image.
        """
        return self.height if self.is_tiled else min(self.height, rows - row * self.height)
