"""Storage keys of slabs, from their column and row (pyramid.md section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class SlabLayout(Protocol):
    """Where the slabs of a level are stored."""

    def key(self, slab_col: int, slab_row: int) -> str:
        """Return the key of the slab in a column and row, which are not negative."""


@dataclass(frozen=True, slots=True)
class PathLayout:
    """Files in ``path_depth`` directories named by the base-36 digits of both indices.

    Attributes:
        directory: image directory of the level, without trailing slash.
        path_depth: 0 to 8.
    """

    directory: str
    path_depth: int

    def key(self, slab_col: int, slab_row: int) -> str:
        """Return the key of the slab in a column and row."""
        col, row = _base36(slab_col), _base36(slab_row)
        length = max(self.path_depth + 1, len(col), len(row))
        pairs = [a + b for a, b in zip(col.zfill(length), row.zfill(length), strict=True)]
        # The first directory takes all leading pairs of digits beyond the depth.
        split = length - self.path_depth
        return f"{self.directory}/{'/'.join([''.join(pairs[:split]), *pairs[split:]])}.tif"


@dataclass(frozen=True, slots=True)
class PrefixLayout:
    """Objects named ``<prefix>_<column>_<row>`` in decimal.

    Attributes:
        prefix: image or mask prefix of the level.
    """

    prefix: str

    def key(self, slab_col: int, slab_row: int) -> str:
        """Return the key of the slab in a column and row."""
        return f"{self.prefix}_{slab_col}_{slab_row}"


def _base36(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if not number:
            return digits
