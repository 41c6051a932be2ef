"""Rendering of blocks of tiles: one evaluation of the terrain serves all layers of a block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mastaba_demo.features import Features, vector_tile
from mastaba_demo.imagery import imagery
from mastaba_demo.light import MARGIN, inner
from mastaba_demo.noise import Field, Window
from mastaba_demo.rivers import opacity
from mastaba_demo.settings import TILE_SIZE
from mastaba_demo.terrain import Terrain, World, evaluate
from mastaba_demo.topographic import relief, topographic
from mastaba_writer.deflate import deflater
from mastaba_writer.tile_encoder import encode_tile

FORMATS = {
    "imagery": "TIFF_JPG90_UINT8",
    "topographic": "TIFF_PNG_UINT8",
    "elevation": "TIFF_ZIP_FLOAT32",
    "relief": "TIFF_PNG_UINT8",
    "features": "TIFF_PBF_MVT",
}
CHANNELS = {"imagery": 3, "topographic": 3, "elevation": 1, "relief": 1, "features": 0}
# Rounding step of stored elevations in metres, by level: a finer step would only store noise.
_STEPS = (20, 20, 20, 20, 20, 20, 10, 10, 10, 5, 4, 2, 1)

# The fastest: zlib would take a quarter of the time of a block, for tiles smaller by a fifth.
_DEFLATE = deflater("isal")

TileKey = tuple[str, int, int, int]
"""Layer, level, tile row, tile column."""


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders blocks of one world."""

    world: World
    features: Features

    def block(self, level: int, window: Window) -> dict[TileKey, bytes]:
        """Return the encoded tiles of all layers in a window, which is aligned to tiles."""
        terrain = evaluate(window, self.world, MARGIN)
        rivers = self.features.rivers
        seen = opacity(rivers, window, level, thinnest=0.0)
        drawn = opacity(rivers, window, level, thinnest=1.0)
        tiles: dict[TileKey, bytes] = {}
        size = TILE_SIZE
        for top in range(0, window.size, size):
            for left in range(0, window.size, size):
                tile = Window(window.world, window.left + left, window.top + top, size)
                inside = (slice(top, top + size), slice(left, left + size))
                ground = terrain.part(left, top, size)
                images = _images(ground, level, seen[inside], drawn[inside])
                place = (level, tile.top // size, tile.left // size)
                for layer, image in images.items():
                    tiles[layer, *place] = encode_tile(FORMATS[layer], image, _DEFLATE)
                data = vector_tile(ground.elevation, MARGIN, tile, level, self.features)
                if data:
                    tiles["features", *place] = data
        return tiles


def _images(
    terrain: Terrain, level: int, seen: Field, drawn: Field
) -> dict[str, NDArray[np.generic]]:
    return {
        "imagery": imagery(terrain, level, seen),
        "topographic": topographic(terrain, level, drawn),
        "elevation": _stored(inner(terrain.elevation, terrain), level),
        "relief": relief(terrain, level),
    }


def _stored(elevation: Field, level: int) -> Field:
    """Round elevations to the step of the level, or to five times that step at sea."""
    step = np.float32(_STEPS[min(level, 12)])
    steps: Field = np.where(elevation > 0, step, 5 * step)
    result: Field = np.round(elevation / steps) * steps
    return result
