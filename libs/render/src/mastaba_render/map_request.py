"""Requests to the rendering engine, and its results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.model.layer import Layer
from mastaba.model.style import Style

Pixels = npt.NDArray[Any]
"""Array of shape (rows, columns, channels), dtype uint8 or float32, top row first."""
Mask = npt.NDArray[np.bool_]
"""Array of shape (rows, columns), dtype bool, top row first."""

WHITE: Final = (255, 255, 255)
LUMINANCE: Final = np.array([0.2125, 0.7154, 0.0721], np.float32)
"""Weights of red, green and blue for grey (ITU-R BT.709)."""


@dataclass(frozen=True, slots=True)
class MapLayer:
    """One layer of a map in one style.

    Attributes:
        layer: a raster layer.
        style: one of its styles; None for the values of the pyramid.
        ranges: lowest and highest stored values that are shown, both included; pixels with other
            values have no data. Empty to show all.
    """

    layer: Layer
    style: Style | None
    ranges: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class MapRequest:
    """A map.

    Attributes:
        layers: raster layers, the bottom one first.
        bbox: outer edges of the border pixels, x before y, in units of ``crs``.
        crs: CRS of the map.
        width: pixels.
        height: pixels.
        resolution_factor: multiplies the wanted resolution for the choice of the level (DPI / 90.7
            in WMS).
    """

    layers: tuple[MapLayer, ...]
    bbox: BoundingBox
    crs: CRS
    width: int
    height: int
    resolution_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Background:
    """What a map shows where it has no data.

    Attributes:
        colour: red, green, blue; None if the request gives none, which means white in picture
            formats and nodata in data formats.
        transparent: whether picture formats keep an alpha channel, 0 where there is no data.
    """

    colour: tuple[int, int, int] | None = None
    transparent: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class MapImage:
    """The pixels of a map before they are flattened for a format.

    Attributes:
        pixels: shape (height, width, channels), dtype uint8 or float32. uint8: 1 grey, 2 grey
            and alpha, 3 RGB, 4 RGBA, colours not premultiplied. float32: values.
        valid: shape (height, width), False where there is no data; None if all is data.
            Pixels without data hold the nodata value.
        nodata: one value per channel.
        encodes_numbers: whether colours encode numbers (terrain-RGB), which must not be mixed
            with a background that was not requested.
    """

    pixels: Pixels
    valid: Mask | None
    nodata: tuple[float, ...]
    encodes_numbers: bool = False
