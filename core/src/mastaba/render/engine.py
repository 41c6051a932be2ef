"""The rendering engine: maps of layers in any extent, CRS and style."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from threadpoolctl import ThreadpoolController

from mastaba.catalogue import Catalogue
from mastaba.errors import InvalidParameterError
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.model.layer import Layer
from mastaba.model.style import Style
from mastaba.render.compose import merge
from mastaba.render.layer_map import Extent, LayerMap
from mastaba.render.limits import check_size
from mastaba.render.mosaic import LevelPixels
from mastaba.render.relief import METRES_PER_DEGREE, RELIEF_STYLES, apply_relief
from mastaba.render.request import MapImage, MapLayer, MapRequest
from mastaba.render.styles import apply_colorize, apply_palette, apply_terrain_rgb
from mastaba.render.tile_cache import TileCache

_BYTES_OUT: Final = ("terrainrgb", "colorize")


class Renderer:
    """Renders maps of one catalogue. Shared by all threads."""

    def __init__(self, catalogue: Catalogue) -> None:
        # The products of small matrices are fastest on one thread; more of them only wait for
        # each other.
        ThreadpoolController().limit(limits=1, user_api="blas")
        self._catalogue = catalogue
        self._settings = catalogue.settings.map
        self.tiles = TileCache(catalogue.decoded_tiles_size)
        self._levels: dict[str, dict[str, LevelPixels]] = {}

    def check(self, request: MapRequest) -> None:
        """Refuse a map that asks too much, before any of it is done.

        Raises:
            InvalidParameterError: sizes, number of layers, source tiles or bytes beyond the
                limits; layers whose pixels have different sample types.
        """
        check_size(request, self._settings)
        if len({is_bytes(entry.layer, entry.style) for entry in request.layers}) > 1:
            raise InvalidParameterError(
                "8-bit pictures and float values cannot go into one map", "LAYERS"
            )
        for entry in request.layers:
            self._layer_map(request, entry).check(self._settings)

    def render(self, request: MapRequest) -> MapImage:
        """Return the pixels of a map.

        Raises:
            InvalidParameterError: it takes more source tiles or bytes than the limits allow.
            SlabFormatError, StorageError: the data cannot be read.
        """
        return merge([self._styled(request, entry) for entry in request.layers])

    def _styled(self, request: MapRequest, entry: MapLayer) -> MapImage:
        relief = _relief_name(entry.style)
        if relief is not None:
            assert entry.style is not None
            image = self._relief(request, entry, relief, entry.style)
        else:
            image = self._drawn(request, entry)
        return image if entry.style is None else _apply(entry.style, image)

    def _drawn(self, request: MapRequest, entry: MapLayer) -> MapImage:
        layer_map = self._layer_map(request, entry)
        layer_map.check(self._settings)
        return layer_map.draw()

    def _relief(self, request: MapRequest, entry: MapLayer, name: str, style: Style) -> MapImage:
        """Return hillshade, slope or aspect: drawn of a map one pixel larger on each side."""
        bbox, width, height = request.bbox, request.width, request.height
        cell_x, cell_y = (bbox.xmax - bbox.xmin) / width, (bbox.ymax - bbox.ymin) / height
        wider = replace(
            request,
            bbox=BoundingBox(
                bbox.xmin - cell_x, bbox.ymin - cell_y, bbox.xmax + cell_x, bbox.ymax + cell_y
            ),
            width=width + 2,
            height=height + 2,
        )
        image = self._drawn(wider, entry)
        metres = METRES_PER_DEGREE if request.crs.is_geographic else 1.0
        values, valid = apply_relief(
            name,
            style.processing[name],
            image.pixels[:, :, 0].astype(np.float32, copy=False),
            image.valid,
            cell_x * metres,
            cell_y * metres,
        )
        return MapImage(values[:, :, np.newaxis], valid, (_relief_nodata(style, name),))

    def _layer_map(self, request: MapRequest, entry: MapLayer) -> LayerMap:
        layer = entry.layer
        return LayerMap(
            layer,
            self._level_pixels(layer),
            Extent(request.bbox, request.crs, request.width, request.height),
            same_crs=self._same_crs(request.crs, layer),
            resolution_factor=request.resolution_factor,
        )

    def _same_crs(self, crs: CRS, layer: Layer) -> bool:
        native = layer.pyramid.tile_matrix_set.crs
        return self._catalogue.settings.equivalences.equal(crs.code, native.code)

    def _level_pixels(self, layer: Layer) -> dict[str, LevelPixels]:
        levels = self._levels.get(layer.id)
        if levels is None:
            # Two threads may make it at a time; the second takes the place of an equal one.
            levels = self._levels[layer.id] = {
                name: LevelPixels(layer.pyramid, reader, self.tiles)
                for name, reader in self._catalogue.readers[layer.id].items()
            }
        return levels


def is_bytes(layer: Layer, style: Style | None) -> bool:
    """Tell whether the pixels of a layer in a style are 8-bit, and not floats."""
    if style is not None and (style.palette or any(n in style.processing for n in _BYTES_OUT)):
        return True
    return layer.pyramid.format.sample == "uint8" and _relief_name(style) is None


def _relief_name(style: Style | None) -> str | None:
    if style is None:
        return None
    return next((name for name in RELIEF_STYLES if name in style.processing), None)


def _relief_nodata(style: Style, name: str) -> float:
    key, default = {
        "estompage": ("estompage_nodata", 0.0),
        "pente": ("slope_nodata", 0.0),
        "exposition": ("aspect_nodata", -1.0),
    }[name]
    return float(style.processing[name].get(key, default))


def _apply(style: Style, image: MapImage) -> MapImage:
    """Return an image in a style that works on single pixels (style.md section 2)."""
    pixels, valid = image.pixels, image.valid
    if style.palette is not None:
        colours = apply_palette(style.palette, pixels)
        lowest = style.palette.entries[0]
        nodata = (lowest.red, lowest.green, lowest.blue, max(lowest.alpha, 0))
        return MapImage(colours, valid, tuple(map(float, nodata[: colours.shape[2]])))
    if "terrainrgb" in style.processing:
        colours = apply_terrain_rgb(style.processing["terrainrgb"], pixels)
        if valid is not None:
            colours[~valid] = 0
        return MapImage(colours, valid, (0.0, 0.0, 0.0), encodes_numbers=True)
    if "colorize" in style.processing:
        settings = style.processing["colorize"]
        colours = apply_colorize(settings, pixels)
        destination = settings.get("destination", (255, 255, 255, 0))
        return MapImage(colours, valid, tuple(map(float, destination)))
    return image
