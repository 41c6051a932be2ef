"""TileMaps: a layer in one tile matrix set.

The TileMap of the set in which a layer is stored has the name of the layer. Those of its other
sets are named ``{layer}@{set}``, as GeoWebCache names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import links, whole_view

if TYPE_CHECKING:
    from mastaba.api.catalogue import (
        BoundingBox,
        Layer,
        TileLimits,
        TileMatrix,
        TileMatrixSet,
        TileMatrixSetLink,
    )
    from mastaba.api.tiles import LayerTiles

_JOINT: Final = "@"
_TILES_ON_SCREEN: Final = 4


@dataclass(frozen=True, slots=True)
class OfferedTileMap:
    """A layer in one tile matrix set.

    Attributes:
        link: the offered part of a set; None for the set in which the layer is stored.
    """

    layer: Layer
    link: TileMatrixSetLink | None = None

    @property
    def name(self) -> str:
        """Name in addresses."""
        if self.link is None:
            return self.layer.id
        return f"{self.layer.id}{_JOINT}{self.link.tile_matrix_set.id}"

    @property
    def tile_matrix_set(self) -> TileMatrixSet:
        if self.link is None:
            return self.layer.pyramid.tile_matrix_set
        return self.link.tile_matrix_set

    @property
    def limits(self) -> dict[str, TileLimits]:
        """Limits of the tiles of each matrix, coarse to fine."""
        if self.link is not None:
            return dict(self.link.limits)
        return {name: level.limits for name, level in self.layer.pyramid.levels.items()}

    @property
    def matrices(self) -> list[TileMatrix]:
        """Matrices with tiles, coarse to fine."""
        return [self.tile_matrix_set.matrices[name] for name in self.limits]

    @property
    def finest(self) -> TileMatrix:
        return self.matrices[-1]

    @property
    def bbox(self) -> BoundingBox:
        """Extent in the CRS of the set; outside the stored set, of the finest tiles."""
        if self.link is None:
            return self.layer.native_bbox
        return self.finest.bbox_of(self.limits[self.finest.id])

    @property
    def whole(self) -> str:
        """The matrix that shows the whole layer at once."""
        if self.link is None:
            return whole_view(self.layer).matrix.id
        fitting = [
            name
            for name, limits in self.limits.items()
            if limits.max_row - limits.min_row < _TILES_ON_SCREEN
            and limits.max_col - limits.min_col < _TILES_ON_SCREEN
        ]
        return fitting[-1] if fitting else next(iter(self.limits))


def tile_maps_of(layer: Layer) -> list[OfferedTileMap]:
    """Return the TileMaps of a layer, that of the set in which it is stored first."""
    return [OfferedTileMap(layer), *(OfferedTileMap(layer, link) for link in links(layer))]


def layer_and_set(name: str) -> tuple[str, str | None]:
    """Return the layer and the set that the name of a TileMap contains; None without a set."""
    layer, joint, tile_matrix_set = name.rpartition(_JOINT)
    return (layer, tile_matrix_set) if joint else (name, None)


def tile_map_in(tiles: LayerTiles, tile_matrix_set: str | None) -> OfferedTileMap:
    """Return the TileMap of a layer in a set.

    Raises:
        UnknownNameError: the layer is not offered in the set.
    """
    link = tiles.link(tile_matrix_set)
    return OfferedTileMap(tiles.layer, None if link is tiles.links[None] else link)
