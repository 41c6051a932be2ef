"""One layer of a map in its style, ready to draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mastaba.model.bbox import BoundingBox
from mastaba.model.layer import Layer
from mastaba.model.settings import MapSettings
from mastaba.model.style import Style
from mastaba.render.layer_map import DrawingMemory, Extent, LayerMap
from mastaba.render.map_request import MapImage, MapLayer
from mastaba.render.mosaic import LevelPixels
from mastaba.render.relief import METRES_PER_DEGREE, RELIEF_STYLES, apply_relief, relief_nodata
from mastaba.render.styles import apply_colorize, apply_palette, apply_terrain_rgb

_BYTES_OUT: Final = ("terrainrgb", "colorize")
_STYLING: Final = dict.fromkeys(RELIEF_STYLES, 160) | {
    "terrainrgb": 64,
    "colorize": 48,
    "palette": 16,
}
"""Upper estimate of the bytes per pixel that applying a style takes."""


class StyledLayer:
    """Decides at once how to draw a layer, and draws it on request.

    Hillshade, slope and aspect are computed from a map one pixel larger on each side, so
    neighbouring maps fit together.
    """

    def __init__(
        self,
        entry: MapLayer,
        levels: Mapping[str, LevelPixels],
        extent: Extent,
        *,
        same_crs: bool,
        resolution_factor: float,
    ) -> None:
        self._style = entry.style
        self._relief = relief_name(entry.style)
        self._extent = extent
        self._map = LayerMap(
            entry.layer,
            levels,
            extent if self._relief is None else _widened(extent),
            same_crs=same_crs,
            resolution_factor=resolution_factor,
        )

    @property
    def strip_height(self) -> int:
        """Number of rows that can be drawn at a time; see `LayerMap.strip_height`."""
        return self._map.strip_height

    def check(self, settings: MapSettings) -> None:
        """Refuse a map that takes too many tiles; see `LayerMap.check`."""
        self._map.check(settings)

    def check_strips(self, settings: MapSettings, cuts: Sequence[slice]) -> None:
        """Refuse a map whose strips take too much memory; see `LayerMap.check_strips`."""
        self._map.check_strips(settings, self._with_margin(cuts))

    def memory(self, cuts: Sequence[slice]) -> DrawingMemory:
        """Return upper estimates of the bytes needed to draw ranges of rows."""
        memory = self._map.memory(self._with_margin(cuts))
        blank = self.blank.pixels
        pixels = max(rows.stop - rows.start for rows in cuts) * self._extent.width
        names = [] if self._style is None else [*self._style.processing]
        if self._style is not None and self._style.palette is not None:
            names.append("palette")
        styling = pixels * sum(_STYLING[name] for name in names)
        return replace(
            memory,
            drawing=max(memory.drawing, memory.drawn + styling),
            drawn=memory.drawn + pixels * (blank.shape[2] * blank.itemsize + 1),
        )

    @property
    def is_empty(self) -> bool:
        """Whether all pixels are nodata; see `LayerMap.is_empty`."""
        return self._map.is_empty

    def version(self) -> str | None:
        """Return a text that changes with the stored tiles; see `LayerMap.version`."""
        return self._map.version()

    def modified(self) -> float | None:
        """Return when the slabs were last modified; see `LevelPixels.modified`."""
        return self._map.modified()

    @property
    def blank(self) -> MapImage:
        """A pixel without data, with the channels, sample type and nodata value of the style."""
        image = self._map.blank
        if self._style is None:
            return image
        if self._relief is not None:
            nodata = relief_nodata(self._relief, self._style.processing[self._relief])
            image = MapImage(np.full((1, 1, 1), nodata, np.float32), image.valid, (nodata,))
        return _coloured(self._style, image)

    def strips(self, cuts: Sequence[slice]) -> Iterator[MapImage]:
        """Yield ranges of rows in the style; see `LayerMap.strips`."""
        style = self._style
        for image in self._map.strips(self._with_margin(cuts)):
            if style is None:
                yield image
            elif self._relief is None:
                yield _coloured(style, image)
            else:
                yield _coloured(style, self._relieved(image, style, self._relief))

    def _with_margin(self, cuts: Sequence[slice]) -> Sequence[slice]:
        """Return the rows of the unstyled map from which some rows are computed."""
        if self._relief is None:
            return cuts
        # Row 0 of the larger map is one row above row 0 of the map itself.
        return [slice(rows.start, rows.stop + 2) for rows in cuts]

    def _relieved(self, image: MapImage, style: Style, name: str) -> MapImage:
        extent, bbox = self._extent, self._extent.bbox
        metres = METRES_PER_DEGREE if extent.crs.is_geographic else 1.0
        values, valid = apply_relief(
            name,
            style.processing[name],
            image.pixels[:, :, 0].astype(np.float32, copy=False),
            image.valid,
            (bbox.xmax - bbox.xmin) / extent.width * metres,
            (bbox.ymax - bbox.ymin) / extent.height * metres,
        )
        nodata = relief_nodata(name, style.processing[name])
        return MapImage(values[:, :, np.newaxis], valid, (nodata,))


def is_bytes(layer: Layer, style: Style | None) -> bool:
    """Return whether the pixels of a layer in a style are 8-bit rather than floats."""
    if style is not None and (style.palette or any(n in style.processing for n in _BYTES_OUT)):
        return True
    return layer.pyramid.format.sample == "uint8" and relief_name(style) is None


def relief_name(style: Style | None) -> str | None:
    """Return which of `RELIEF_STYLES` a style computes, or None."""
    if style is None:
        return None
    return next((name for name in RELIEF_STYLES if name in style.processing), None)


def _widened(extent: Extent) -> Extent:
    bbox = extent.bbox
    cell_x = (bbox.xmax - bbox.xmin) / extent.width
    cell_y = (bbox.ymax - bbox.ymin) / extent.height
    wider = BoundingBox(
        bbox.xmin - cell_x, bbox.ymin - cell_y, bbox.xmax + cell_x, bbox.ymax + cell_y
    )
    return replace(extent, bbox=wider, width=extent.width + 2, height=extent.height + 2)


def _coloured(style: Style, image: MapImage) -> MapImage:
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
        destination = settings.get("destination", (255, 255, 255, 0))
        return MapImage(apply_colorize(settings, pixels), valid, tuple(map(float, destination)))
    return image
