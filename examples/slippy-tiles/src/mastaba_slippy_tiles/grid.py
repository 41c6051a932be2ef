"""The grid of the web: square tiles in EPSG:3857, four times as many at each zoom."""

import math

from mastaba.api.catalogue import CRS, Layer, TileMatrix

WEB_MERCATOR = CRS.from_code("EPSG:3857")
_HALF = math.pi * 6378137.0  # metres from the centre to an edge of the world


def matrix(zoom: int) -> TileMatrix:
    cell_size = 2 * _HALF / 256 / 2**zoom
    return TileMatrix(str(zoom), cell_size, -_HALF, _HALF, 256, 256, 2**zoom, 2**zoom)


def level_of(layer: Layer, zoom: TileMatrix) -> str | None:
    """Return the level whose stored tiles are PNG tiles of this zoom; None without one."""
    stored = layer.pyramid.tile_matrix_set
    if stored.crs != WEB_MERCATOR or layer.pyramid.format.media_type != "image/png":
        return None
    for level in layer.pyramid.levels.values():
        if all(map(math.isclose, _place(level.matrix), _place(zoom))):
            return level.matrix.id
    return None


def _place(matrix: TileMatrix) -> tuple[float, ...]:
    corner = (matrix.origin_x, matrix.origin_y)
    return (*corner, matrix.cell_size, matrix.tile_width, matrix.tile_height)
