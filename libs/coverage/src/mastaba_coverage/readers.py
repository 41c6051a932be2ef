"""What is stored of the levels of a layer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mastaba.api.containers import TileReader


def has_masks(readers: Iterable[TileReader]) -> bool:
    """Return whether all levels have masks, so that a GeoTIFF of them may have one."""
    return all(reader.masks is not None for reader in readers)
