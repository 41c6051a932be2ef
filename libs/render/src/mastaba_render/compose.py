"""Merging of layers (resampling.md section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba_render.map_request import LUMINANCE, MapImage, Mask

Bytes = npt.NDArray[np.uint8]
Float32 = npt.NDArray[np.float32]

_MIXING: Final = 88
"""Bytes per pixel while 8-bit layers are merged: colours and alpha as floats."""


def merge(images: Sequence[MapImage]) -> MapImage:
    """Return several images as one, the first at the bottom.

    The result has as many channels as the image with the most. Where a layer has no data, the
    layers below show; where no layer has data, the result has none.

    Args:
        images: all uint8 or all float32, of the same size.
    """
    channels = max(image.pixels.shape[2] for image in images)
    bottom = images[0]
    if bottom.pixels.dtype == np.float32:
        return _merge_values(images, channels)
    height, width, _ = bottom.pixels.shape
    colour = np.zeros((height, width, 3), np.float32)
    alpha = np.zeros((height, width, 1), np.float32)
    for image in images:
        above, cover = _split(image)
        total = cover + alpha * (1.0 - cover)
        weight = np.divide(cover, total, out=np.zeros_like(total), where=total > 0)
        colour += (above - colour) * weight
        alpha = total
    valid = _any_valid([image.valid for image in images])
    pixels, nodata = _joined(colour, alpha, channels), _nodata(bottom.nodata, channels)
    if valid is not None:
        pixels[~valid] = nodata
    return MapImage(pixels, valid, nodata, any(image.encodes_numbers for image in images))


def merge_memory(blank: MapImage) -> int:
    """Return an upper estimate of the bytes per pixel that merging several images takes."""
    pixels = blank.pixels
    return _MIXING if pixels.dtype == np.uint8 else 2 * pixels.shape[2] * pixels.itemsize + 2


def joined(images: Sequence[MapImage], axis: int) -> MapImage:
    """Return images of the same kind joined vertically (axis 0) or side by side (axis 1)."""
    first = images[0]
    if len(images) == 1:
        return first
    valid = None
    if any(image.valid is not None for image in images):
        masks = [
            np.ones(image.pixels.shape[:2], np.bool_) if image.valid is None else image.valid
            for image in images
        ]
        valid = np.concatenate(masks, axis)
    pixels = np.concatenate([image.pixels for image in images], axis)
    return MapImage(pixels, valid, first.nodata, first.encodes_numbers)


def _nodata(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """Return a nodata colour with more channels; transparent if it gains alpha."""
    if channels == len(values):
        return values
    has_alpha = len(values) in (2, 4)
    colour = values[:-1] if has_alpha else values
    alpha = values[-1:] if has_alpha else (0.0,)
    if channels > 2:
        colour = colour if len(colour) > 1 else colour * 3
    return (colour + alpha)[:channels]


def _merge_values(images: Sequence[MapImage], channels: int) -> MapImage:
    bottom = images[0]
    pixels = np.repeat(bottom.pixels, channels // bottom.pixels.shape[2], axis=2)
    for image in images[1:]:
        values = np.broadcast_to(image.pixels, pixels.shape)
        if image.valid is None:
            pixels = values.copy()
        else:
            pixels[image.valid] = values[image.valid]
    return MapImage(pixels, _any_valid([image.valid for image in images]), bottom.nodata)


def _any_valid(masks: Sequence[Mask | None]) -> Mask | None:
    found = np.zeros((), np.bool_)
    for mask in masks:
        if mask is None:
            return None
        found = found | mask
    return None if found.all() else found


def _split(image: MapImage) -> tuple[Float32, Float32]:
    """Return colours, 0 to 255, and alpha, 0 to 1; 0 where there is no data."""
    pixels = image.pixels
    channels = pixels.shape[2]
    colour = pixels[:, :, :3] if channels > 2 else pixels[:, :, :1]
    colour = np.broadcast_to(colour.astype(np.float32), (*pixels.shape[:2], 3))
    if channels in (2, 4):
        alpha = pixels[:, :, -1:].astype(np.float32) / 255.0
    else:
        alpha = np.ones((*pixels.shape[:2], 1), np.float32)
    if image.valid is not None:
        alpha = alpha * image.valid[:, :, np.newaxis]
    return colour, alpha


def _joined(colour: Float32, alpha: Float32, channels: int) -> Bytes:
    """Return a merged image with the channels of the output, truncated to bytes."""
    # The small addend keeps rounding errors from lowering an integral value by one.
    if channels < 3:
        colour = (colour @ LUMINANCE)[:, :, np.newaxis]
    parts = [colour, alpha * 255.0] if channels in (2, 4) else [colour * alpha]
    return (np.concatenate(parts, axis=2) + np.float32(1e-3)).astype(np.uint8)
