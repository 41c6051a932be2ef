"""One level of an export: its tiles, and the order in which they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mastaba.api.catalogue import TileMatrix
    from mastaba_export.selection import Integers, Selection
    from mastaba_export.sources import DrawnTiles, StoredTiles


@dataclass(frozen=True, slots=True, eq=False)
class ExportLevel:
    """One level of an export.

    Attributes:
        zoom: number of the level in the archive.
        selection: its tiles.
        source: reads or draws them.
        rows, columns: of its blocks, in the order of work.
        is_mask: whether the tiles are the masks of those of another level, in a smaller pyramid.
    """

    matrix: TileMatrix
    zoom: int
    selection: Selection
    source: StoredTiles | DrawnTiles
    rows: Integers
    columns: Integers
    is_mask: bool = False
