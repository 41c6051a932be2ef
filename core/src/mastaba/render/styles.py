"""Styles applied to pixels (style.md sections 3 to 5)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mastaba.model.style import Palette
from mastaba.render import native
from mastaba.render.map_request import Pixels
from mastaba.render.resample import to_bytes

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]


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
        settings: ``min_elevation`` (default -10000) and ``step`` (0.1), in units of the values.
        pixels: shape (height, width, 1).

    Returns:
        shape (height, width, 3); (0, 0, 0) for values below the minimum.
    """
    minimum = np.float32(settings.get("min_elevation", -10000.0))
    step = np.float32(settings.get("step", 0.1))
    values = pixels[:, :, 0].astype(np.float32, copy=False)
    steps = ((np.maximum(values, minimum) - minimum) / step).astype(np.int64)
    return np.stack([(steps >> 16) & 255, (steps >> 8) & 255, steps & 255], axis=-1).astype(
        np.uint8
    )


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
    colours = pixels if pixels.dtype == np.uint8 else to_bytes(pixels.copy())
    distances = np.abs(colours.astype(np.int16) - source)
    matching = (distances <= settings.get("tolerance", 0)).all(axis=2)
    result = np.full((*matching.shape, len(destination)), 255, np.uint8)
    kept = min(len(destination), colours.shape[2])
    result[:, :, :kept] = colours[:, :, :kept]
    result[matching] = destination
    return result
