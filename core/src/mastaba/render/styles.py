"""What styles make of pixels (style.md sections 3 to 5)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mastaba.model.style import Palette
from mastaba.render import compiled
from mastaba.render.request import Pixels
from mastaba.render.resample import to_bytes

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

_TRUNCATION: Final = 1e-9


def apply_palette(palette: Palette, pixels: Pixels) -> Bytes:
    """Return the colours of one-channel pixels.

    8-bit values are looked up in a table of 256 colours; floats are looked up as they are.

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
    """Return the values, and the colours clipped to what a byte holds, one row each."""
    values = np.array([entry.value for entry in palette.entries], dtype=np.float64)
    colours = np.array(
        [(e.red, e.green, e.blue, e.alpha) for e in palette.entries], dtype=np.float64
    )
    return values, np.maximum(colours, 0.0)


def _colours(palette: Palette, values: npt.NDArray[Any]) -> Bytes:
    steps, entries = _entries(palette)
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    find = compiled.colours if compiled.AVAILABLE else colours_in_numpy
    found: Bytes = find(flat, steps, entries, palette.rgb_continuous, palette.alpha_continuous)
    return found.reshape(*values.shape, 4)


def colours_in_numpy(
    values: npt.NDArray[np.float32], steps: Floats, entries: Floats, rgb: bool, alpha: bool
) -> Bytes:
    """Return the colours of values.

    Args:
        values: shape (n,).
        steps: ascending values of the palette.
        entries: shape (steps, 4), red, green, blue and alpha at each step.
        rgb, alpha: whether colours and alpha are interpolated between steps.

    Returns:
        shape (n, 4); values beyond either end have the colour of that end.
    """
    flat = values.astype(np.float64)
    below = np.clip(np.searchsorted(steps, flat, side="right") - 1, 0, len(steps) - 1)
    above = np.minimum(below + 1, len(steps) - 1)
    width = np.where(above > below, steps[above] - steps[below], 1.0)
    part = np.clip((flat - steps[below]) / width, 0.0, 1.0)
    result = entries[below]
    if rgb:
        result[:, :3] += (entries[above, :3] - result[:, :3]) * part[:, np.newaxis]
    if alpha:
        result[:, 3] += (entries[above, 3] - result[:, 3]) * part
    return (result + _TRUNCATION).astype(np.uint8)


def apply_terrain_rgb(settings: Mapping[str, Any], pixels: Pixels) -> Bytes:
    """Return values coded in three channels: height above a minimum, in steps.

    Args:
        settings: ``min_elevation`` (-10000) and ``step`` (0.1), in units of the values.
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
