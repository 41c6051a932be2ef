"""The rendering engine: maps of layers in any extent, CRS and style."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy.typing as npt

from mastaba.catalogue import Catalogue
from mastaba.errors import InvalidParameterError
from mastaba.model.layer import Layer
from mastaba.model.settings import MapSettings
from mastaba_render.admission import Admission
from mastaba_render.float_pictures import FloatPictures
from mastaba_render.layer_map import LayerMap, PreparedMap
from mastaba_render.map_request import MapImage, MapLayer, MapRequest
from mastaba_render.mosaic import LevelPixels
from mastaba_render.native import Window
from mastaba_render.styles import is_bytes
from mastaba_render.tile_cache import TileCache
from mastaba_server.threads.recent import Recent

_FURTHEST: Final = 1e10
"""CRS units. No CRS has larger coordinates, and arithmetic overflows beyond 1e300."""

_SMALLEST: Final = 1e-12
"""Fraction of a coordinate; a shorter side of an extent is lost in rounding."""


class Renderer:
    """Renders maps of one catalogue. Shared by all threads.

    Callers draw and encode the map of a request inside ``admission.map``.

    Args:
        catalogue: what is published.
        tiles: cache of decoded tiles to use instead of a new one.

    Attributes:
        tiles: cache of decoded tiles.
        admission: admits maps in order while there is room.
    """

    def __init__(self, catalogue: Catalogue, tiles: TileCache | None = None) -> None:
        self._catalogue = catalogue
        self._settings = catalogue.settings.map
        self.tiles = TileCache(catalogue.decoded_tiles_size) if tiles is None else tiles
        self.admission = Admission(catalogue.map_limits)
        self._levels: dict[str, dict[str, LevelPixels]] = {}
        self._variants: Recent[tuple[Layer, dict[str, LevelPixels]]] = Recent(catalogue.opened.most)
        self._float_pictures = FloatPictures()

    def of(self, catalogue: Catalogue) -> Renderer:
        """Return a renderer of another catalogue with the caches and limits of this one."""
        renderer = Renderer(catalogue, self.tiles)
        renderer.admission = self.admission
        return renderer

    def apart(self) -> Renderer:
        """Return a renderer that waits its turn with this one, and keeps no decoded tiles.

        For work that reads much and does not return to it.
        """
        renderer = Renderer(self._catalogue, TileCache(0))
        renderer.admission = self.admission
        return renderer

    def prepare(self, request: MapRequest, limits: MapSettings | None = None) -> PreparedMap:
        """Decide how to draw a map, and refuse one beyond the limits.

        Args:
            limits: limits to use instead of those of the catalogue.

        Raises:
            InvalidParameterError: sizes, number of layers, source tiles or bytes beyond the
                limits; layers whose pixels have different sample types.
        """
        limits = limits or self._settings
        _check_size(request, limits)
        entries = request.layers
        if len(entries) > 1 and len({is_bytes(entry.layer, entry.style) for entry in entries}) > 1:
            raise InvalidParameterError(
                "8-bit images and float values cannot be combined in one map", "LAYERS"
            )
        layers = [self._layer_map(request, entry) for entry in entries]
        return PreparedMap(layers, request.width, request.height, limits)

    def in_picture(self, entry: MapLayer) -> MapLayer:
        """Return a layer in a style that a picture format can hold; see `FloatPictures.styled`."""
        if is_bytes(entry.layer, entry.style):
            return entry
        return self._float_pictures.styled(entry, self.level_pixels(entry.layer))

    def value_range(self, layer: Layer) -> tuple[float, float] | None:
        """Return the extremes of a raster layer's values; see `FloatPictures.whole_range`."""
        return self._float_pictures.whole_range(layer, self.level_pixels(layer))

    def render(self, request: MapRequest) -> MapImage:
        """Prepare and draw a map. Raises what `prepare` and `PreparedMap.draw` raise."""
        return self.prepare(request).draw()

    def pixel_value(
        self, request: MapRequest, layer: Layer, row: int, column: int
    ) -> npt.NDArray[Any]:
        """Return the unstyled value of a layer in one pixel of a map, at the cost of one pixel.

        Level, kernel and position are those of the whole map, so the value is the one the map
        shows.

        Args:
            request: the map; its layers are ignored.
            layer: a raster layer.
            row, column: position of the pixel, from the upper left corner.

        Returns:
            shape (channels,), uint8 or float32; the nodata value where there is no data.

        Raises:
            InvalidParameterError: the map needs too many source tiles.
            SlabFormatError, StorageError: the data cannot be read.
        """
        drawn = self._layer_map(request, MapLayer(layer, None))
        drawn.check(self._settings)
        drawn.narrow(row, column)
        value: npt.NDArray[Any] = PreparedMap([drawn], 1, 1, self._settings).draw().pixels[0, 0]
        return value

    def stored_value(
        self, layer: Layer, tile_matrix: str, row: int, column: int
    ) -> npt.NDArray[Any]:
        """Return the value of one stored pixel, shape (channels,), uint8 or float32.

        Args:
            layer: a raster layer.
            tile_matrix: identifier of one of its levels.
            row, column: position in the matrix, from its upper left corner, pixels.

        Raises:
            SlabFormatError, StorageError: the data cannot be read.
        """
        window = Window(row, row + 1, column, column + 1)
        value: npt.NDArray[Any] = self.level_pixels(layer)[tile_matrix].read(window).pixels[0, 0]
        return value

    def _layer_map(self, request: MapRequest, entry: MapLayer) -> LayerMap:
        native = entry.layer.pyramid.tile_matrix_set.crs
        levels = self.level_pixels(entry.layer)
        equal = self._catalogue.settings.equivalences.equal
        same_crs = request.crs is native or equal(request.crs.code, native.code)
        return LayerMap(entry, levels, request, same_crs=same_crs)

    def level_pixels(self, layer: Layer) -> Mapping[str, LevelPixels]:
        """Return the pixels of a raster layer by tile matrix identifier, coarse to fine."""
        if layer.readers is not None:
            known = self._variants.get(layer.key)
            if known is None or known[0] is not layer:
                known = self._variants.add(layer.key, (layer, self._opened(layer)))
            return known[1]
        levels = self._levels.get(layer.id)
        if levels is None:
            # Two threads may create it at a time; the second replaces an equal one.
            levels = self._levels[layer.id] = self._opened(layer)
        return levels

    def _opened(self, layer: Layer) -> dict[str, LevelPixels]:
        readers = self._catalogue.readers_of(layer)
        return {
            name: LevelPixels(layer.pyramid, reader, self.tiles) for name, reader in readers.items()
        }


def _check_size(request: MapRequest, settings: MapSettings) -> None:
    """Refuse too many layers or pixels, and extents beyond the range of arithmetic."""
    if len(request.layers) > settings.max_layers:
        raise InvalidParameterError(
            f"at most {settings.max_layers} layers may be requested at once", "LAYERS"
        )
    for name, size, limit in (
        ("WIDTH", request.width, settings.max_width),
        ("HEIGHT", request.height, settings.max_height),
    ):
        if not 1 <= size <= limit:
            raise InvalidParameterError(f"{name} must be from 1 to {limit}", name)
    bbox = request.bbox
    reach = max(map(abs, (bbox.xmin, bbox.ymin, bbox.xmax, bbox.ymax)))
    sides = min(bbox.xmax - bbox.xmin, bbox.ymax - bbox.ymin)
    # In this form the condition also refuses NaN.
    if not (reach <= _FURTHEST and sides > _SMALLEST * reach):
        raise InvalidParameterError("BBOX is not an extent on the ground", "BBOX")
    if request.width * request.height > settings.max_pixels:
        raise InvalidParameterError(f"the map has more than {settings.max_pixels} pixels", "WIDTH")
