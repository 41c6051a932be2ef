"""The value of one pixel of a map, the same as in the whole map but at the cost of one pixel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mastaba.catalogue import Catalogue
from mastaba.model.layer import Layer
from mastaba.render.layer_map import Extent, LayerMap
from mastaba.render.local_positions import LocalPositions
from mastaba.render.map_request import MapRequest
from mastaba.render.mosaic import LevelPixels
from mastaba.render.positions import CurvedPositions, Floats, StraightPositions
from mastaba.render.tile_cache import TileCache


def pixel_value(
    catalogue: Catalogue, tiles: TileCache, request: MapRequest, layer: Layer, row: int, column: int
) -> npt.NDArray[Any]:
    """Return the unstyled value of a layer in one pixel of a map.

    Level, kernel and position are those of the whole map, so the value is the one the map shows.

    Args:
        catalogue: catalogue of the layer.
        tiles: decoded tiles cached by the renderer.
        request: the map; its layers are ignored.
        layer: a raster layer.
        row, column: position of the pixel, from the upper left corner.

    Returns:
        shape (channels,), uint8 or float32; the nodata value where there is no data.

    Raises:
        InvalidParameterError: the pixel needs more source tiles than a map may.
        SlabFormatError, StorageError: the data cannot be read.
    """
    native = layer.pyramid.tile_matrix_set.crs
    part = PixelOfMap(
        layer,
        _levels(catalogue, tiles, layer),
        Extent(request.bbox, request.crs, request.width, request.height),
        same_crs=catalogue.settings.equivalences.equal(request.crs.code, native.code),
        resolution_factor=request.resolution_factor,
    )
    part.narrow(row, column)
    part.check(catalogue.settings.map)
    part.check_strips(catalogue.settings.map, [slice(0, 1)])
    value: npt.NDArray[Any] = part.draw().pixels[0, 0]
    return value


def _levels(catalogue: Catalogue, tiles: TileCache, layer: Layer) -> Mapping[str, LevelPixels]:
    return {
        name: LevelPixels(layer.pyramid, reader, tiles)
        for name, reader in catalogue.readers[layer.id].items()
    }


class PixelOfMap(LayerMap):
    """The map of one layer, reduced to one pixel."""

    def narrow(self, row: int, column: int) -> None:
        """Reduce the map to one of its pixels."""
        positions, part = self._positions, self._part
        self._extent = replace(self._extent, width=1, height=1)
        self._part = None
        if positions is None or part is None:
            return
        top, bottom, left, right = part
        if not (top <= row < bottom and left <= column < right):
            return
        self._part = (0, 1, 0, 1)
        row, column = row - top, column - left
        if isinstance(positions, StraightPositions):
            self._positions = replace(
                positions,
                columns=positions.columns[column : column + 1],
                rows=positions.rows[row : row + 1],
                ratios_x=_one(positions.ratios_x, column),
                ratios_y=_one(positions.ratios_y, row),
            )
            return
        if isinstance(positions, LocalPositions):
            only: CurvedPositions | LocalPositions = positions.only(row, column)
        else:
            only = _only(positions, row, column)
        self._positions = only
        if only.placed() is not None:
            self._part = None


def _one(ratios: Floats | None, place: int) -> Floats | None:
    return None if ratios is None else ratios[place : place + 1]


def _only(positions: CurvedPositions, row: int, column: int) -> CurvedPositions:
    """Return the positions of one pixel as a grid of one point."""
    line = positions.cut(row, row)
    start = np.zeros(1)
    return replace(
        positions,
        across=start,
        down=start,
        columns=np.array([[np.interp(column, line.across, line.columns[0])]]),
        rows=np.array([[np.interp(column, line.across, line.rows[0])]]),
    )
