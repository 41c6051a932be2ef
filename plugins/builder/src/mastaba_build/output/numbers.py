"""Numbers of sources, and slabs of them, as the documents of a pyramid name them."""

from __future__ import annotations

from typing import NamedTuple

LARGEST = 1 << 24
"""The largest number that FLOAT32 represents, as all smaller ones."""


class SourceKey(NamedTuple):
    """What identifies a source: its numbers are equal if these are.

    Attributes:
        path: of the file.
        identity: fingerprint of the file, as in `Source`.
        polygon: of the polygon in it, as in `Polygon`; empty for the file itself.
    """

    path: str
    identity: str
    polygon: str = ""


class Share(NamedTuple):
    """The pixels of a source in a slab.

    Attributes:
        number: of the source.
        pixels: their count.
        min_row, max_row, min_col, max_col: of these pixels, in the matrix.
    """

    number: int
    pixels: int
    min_row: int
    max_row: int
    min_col: int
    max_col: int


class NumberedSlab(NamedTuple):
    """A stored slab of source numbers.

    Attributes:
        size, md5: of the stored slab.
        shares: of the sources, by ascending numbers.
        holder: root of the pyramid that contains it; None for that of the pyramid itself.
    """

    size: int
    md5: str
    shares: tuple[Share, ...]
    holder: str | None = None
