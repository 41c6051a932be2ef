"""Styles applied to pixels (style.md sections 2 to 5)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mastaba.model.layer import Layer
from mastaba.model.style import Palette, Style
from mastaba_render import native
from mastaba_render.map_request import MapImage, Pixels
from mastaba_render.native import Bytes, Floats
from mastaba_render.relief import METRES_PER_DEGREE, RELIEF_STYLES, apply_relief, relief_nodata

_BYTES_OUT: Final = ("terrainrgb", "colorize")
_ENCODINGS: Final = {"mapbox": (-10000.0, 10.0), "terrarium": (-32768.0, 256.0)}
"""Least height, and numbers per metre (elevation.md 4.1)."""
_MOST: Final = 2**24 - 1
_STYLING: Final = dict.fromkeys(RELIEF_STYLES, 160) | {
    "terrainrgb": 64,
    "colorize": 48,
    "palette": 16,
}
"""Upper estimate of the bytes per pixel that applying a style takes."""


def relief_name(style: Style | None) -> str | None:
    """Return which of `RELIEF_STYLES` a style computes, or None."""
    if style is None:
        return None
    return next((name for name in RELIEF_STYLES if name in style.processing), None)


def is_bytes(layer: Layer, style: Style | None) -> bool:
    """Return whether the pixels of a layer in a style are 8-bit rather than floats."""
    if style is not None and (style.palette or any(n in style.processing for n in _BYTES_OUT)):
        return True
    return layer.pyramid.format.sample == "uint8" and relief_name(style) is None


def styling_memory(style: Style) -> int:
    """Return an upper estimate of the bytes per pixel that `styled` takes."""
    names = [*style.processing, *(["palette"] if style.palette is not None else [])]
    return sum(_STYLING[name] for name in names)


def styled(
    style: Style, image: MapImage, cell_x: float, cell_y: float, *, is_geographic: bool
) -> MapImage:
    """Return an image in a style.

    Args:
        image: one pixel larger on each side than the result if the style computes a relief.
        cell_x, cell_y: size of a pixel, CRS units.
        is_geographic: whether these are degrees.
    """
    name = relief_name(style)
    if name is not None:
        metres = METRES_PER_DEGREE if is_geographic else 1.0
        settings, elevations = style.processing[name], image.pixels[:, :, 0]
        values, valid = apply_relief(
            name, settings, elevations, image.valid, cell_x * metres, cell_y * metres
        )
        image = MapImage(values[:, :, np.newaxis], valid, (relief_nodata(name, settings),))
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


def apply_palette(palette: Palette, pixels: Pixels) -> Bytes:
    """Return the colours of one-channel pixels.

    8-bit values are looked up in a table of 256 colours, floats in the palette itself.

    Args:
        pixels: shape (height, width, 1).

    Returns:
        shape (height, width, 4), or 3 channels for a palette without alpha.
    """
    channels = 3 if palette.no_alpha else 4
    if pixels.dtype == np.uint8:
        return _table(palette)[pixels[:, :, 0], :channels]
    return _colours(palette, pixels[:, :, 0])[:, :, :channels]


@lru_cache(maxsize=256)
def _table(palette: Palette) -> Bytes:
    return _colours(palette, np.arange(256, dtype=np.float32)[:, np.newaxis])[:, 0]


@lru_cache(maxsize=256)
def _entries(palette: Palette) -> tuple[Floats, Floats]:
    """Return values, and colours with negative components set to 0, one row per entry."""
    values = np.array([entry.value for entry in palette.entries], dtype=np.float64)
    colours = np.array(
        [(e.red, e.green, e.blue, e.alpha) for e in palette.entries], dtype=np.float64
    )
    return values, np.maximum(colours, 0.0)


def _colours(palette: Palette, values: npt.NDArray[Any]) -> Bytes:
    steps, entries = _entries(palette)
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    found = native.colours(
        flat, steps, entries, rgb=palette.rgb_continuous, alpha=palette.alpha_continuous
    )
    return found.reshape(*values.shape, 4)


def apply_terrain_rgb(settings: Mapping[str, Any], pixels: Pixels) -> Bytes:
    """Return values encoded in three channels: height above a minimum, in steps.

    Args:
        settings: ``min_elevation`` (default -10000) and ``step`` (0.1), in units of the values, or
            ``encoding``, ``mapbox`` or ``terrarium``, which rounds to the nearest number.
        pixels: shape (height, width, 1).

    Returns:
        shape (height, width, 3); (0, 0, 0) for values below the minimum.
    """
    if "encoding" in settings:
        base, per_metre = _ENCODINGS[settings["encoding"]]
        numbers = np.floor((pixels[:, :, 0].astype(np.float64) - base) * per_metre + 0.5)
        steps = np.clip(numbers, 0, _MOST).astype(np.int64)
    else:
        minimum = np.float32(settings.get("min_elevation", -10000.0))
        step = np.float32(settings.get("step", 0.1))
        values = pixels[:, :, 0].astype(np.float32, copy=False)
        steps = ((np.maximum(values, minimum) - minimum) / step).astype(np.int64)
    # Each channel takes the lowest byte.
    return np.stack([steps >> 16, steps >> 8, steps], axis=-1).astype(np.uint8)


def apply_colorize(settings: Mapping[str, Any], pixels: Pixels) -> Bytes:
    """Return the pixels with one colour replaced by another.

    Args:
        settings: ``source`` and ``destination``, lists of 3 or 4 values; ``tolerance`` for each
            component.
        pixels: shape (height, width, length of ``source``).

    Returns:
        shape (height, width, length of ``destination``).
    """
    source = np.array(settings.get("source", (255, 255, 255)), np.int16)
    destination = np.array(settings.get("destination", (255, 255, 255, 0)), np.uint8)
    colours = pixels
    if pixels.dtype != np.uint8:
        # Rounded half up.
        colours = np.clip(pixels + np.float32(0.5), 0, 255).astype(np.uint8)
    distances = np.abs(colours.astype(np.int16) - source)
    matching = (distances <= settings.get("tolerance", 0)).all(axis=2)
    result = np.full((*matching.shape, len(destination)), 255, np.uint8)
    kept = min(len(destination), colours.shape[2])
    result[:, :, :kept] = colours[:, :, :kept]
    result[matching] = destination
    return result
