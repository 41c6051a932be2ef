"""TileMaps: a layer in one tile matrix set.

The TileMap of the set in which a layer is stored has the name of the layer. Those of its other
sets are named ``{layer}@{set}``, as GeoWebCache names them.

A TileMap has one origin, and clients expect that each level halves the cell size. So each level of
a set that is not a quadtree has a TileMap of its own, ``{layer}@{set}:{level}``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from mastaba.api.catalogue import whole_view
from mastaba.api.tiles import drawn_links

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
_LEVEL: Final = ":"
_SAFE: Final = f"{_JOINT};="
_TILES_ON_SCREEN: Final = 4


@dataclass(frozen=True, slots=True)
class OfferedTileMap:
    """A layer in one tile matrix set.

    Attributes:
        link: the offered part of a set; None for the set in which the layer is stored.
        level: the only level of this TileMap; None for all levels of the set.
    """

    layer: Layer
    link: TileMatrixSetLink | None = None
    level: str | None = None

    @property
    def name(self) -> str:
        """Name of the layer and, if needed, the set."""
        if self.link is None and self.level is None:
            return self.layer.key
        return f"{self.layer.key}{_JOINT}{self.tile_matrix_set.id}"

    @property
    def path(self) -> str:
        """Path segment in addresses: the name and the level, with escapes."""
        level = "" if self.level is None else f"{_LEVEL}{quote(self.level, safe='')}"
        return quote(self.name, safe=_SAFE) + level

    @property
    def title(self) -> str:
        """Title of the layer and, of a TileMap of one level, the level."""
        return self.layer.title + ("" if self.level is None else f" ({self.level})")

    @property
    def tile_matrix_set(self) -> TileMatrixSet:
        if self.link is None:
            return self.layer.pyramid.tile_matrix_set
        return self.link.tile_matrix_set

    @property
    def limits(self) -> dict[str, TileLimits]:
        """Limits of the tiles of each matrix, coarse to fine."""
        if self.link is not None:
            limits = dict(self.link.limits)
        else:
            limits = {name: level.limits for name, level in self.layer.pyramid.levels.items()}
            if self.layer.readers is None and self.layer.tile_limits:
                limits = dict(self.layer.tile_limits)
        return limits if self.level is None else {self.level: limits[self.level]}

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
        if self.link is None and self.level is None:
            return self.layer.native_bbox
        return self.finest.bbox_of(self.limits[self.finest.id])

    @property
    def whole(self) -> str:
        """The matrix that shows the whole layer at once."""
        if self.link is None and self.level is None:
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
    return [OfferedTileMap(layer), *(OfferedTileMap(layer, link) for link in drawn_links(layer))]


def single_levels(tile_map: OfferedTileMap) -> dict[str, OfferedTileMap]:
    """Return the TileMap of each level alone, coarse to fine; none if the set is a quadtree."""
    if tile_map.level is not None or tile_map.tile_matrix_set.is_quadtree:
        return {}
    return {level: replace(tile_map, level=level) for level in tile_map.limits}


def layer_and_set(name: str) -> tuple[str, str | None]:
    """Return the layer and the set that the name of a TileMap contains; None without a set."""
    layer, joint, tile_matrix_set = name.rpartition(_JOINT)
    return (layer, tile_matrix_set) if joint else (name, None)


def set_and_level(tiles: LayerTiles, name: str | None) -> tuple[str | None, str | None]:
    """Return the set and the level that the end of the name of a TileMap contains.

    Args:
        tiles: of the layer.
        name: what follows the layer.

    Returns:
        the set as in ``name``, which is not checked; the level, None for all of them.
    """
    # A set may have the joint of set and level in its identifier.
    if name is None or name in tiles.links or _LEVEL not in name:
        return name, None
    tile_matrix_set, _, level = name.partition(_LEVEL)
    return tile_matrix_set, level


def tile_map_in(tiles: LayerTiles, name: str | None) -> OfferedTileMap:
    """Return the TileMap of a layer in a set.

    Args:
        tiles: of the layer.
        name: set, and level if the TileMap has only one.

    Raises:
        UnknownNameError: the layer is not offered in the set, or the set has no such level.
        TileOutOfRangeError: the layer has no tiles in this level.
    """
    tile_matrix_set, level = set_and_level(tiles, name)
    link = tiles.link(tile_matrix_set)
    if level is not None:
        tiles.matrix(tile_matrix_set, level)  # raises
    return OfferedTileMap(tiles.layer, None if link is tiles.links[None] else link, level)
