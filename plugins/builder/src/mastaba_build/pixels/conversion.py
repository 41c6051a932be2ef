"""Bands of a source as samples of the pyramid, and which of its pixels have data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor

import numpy as np

from mastaba_build.errors import SourceError
from mastaba_build.samples import Mask, PixelType, Raster, Samples, as_samples, flattened
from mastaba_build.sources.source import Source

_EXACT = 1 << 24
"""Integers up to this value are exact in float32."""
_MASKED = 128
"""Masks may have been compressed with losses: values from here on are data."""
_LUMINANCE = (0.2125, 0.7154, 0.0721)


def converted(
    source: Source,
    pixel_type: PixelType,
    bands: Samples,
    alpha: Samples | None,
    mask: Samples | None,
    palette: Samples | None,
    missing: Mask | None,
) -> Raster:
    """Return part of a source as samples of the pyramid.

    Args:
        bands: colours, shape (bands, rows, columns).
        alpha, mask: shape (rows, columns).
        palette: shape (n, 4), the colours of one band.
        missing: which pixels have no data.

    Raises:
        SourceError: a value does not fit into the sample type of the pyramid.
    """
    valid: Mask = np.ones(bands.shape[1:], bool) if missing is None else ~missing
    if mask is not None:
        valid &= mask >= _MASKED
    if bands.dtype.kind == "f":
        valid &= np.isfinite(bands).all(axis=0)
        bands = np.where(valid, bands, 0)
    if palette is not None:
        colours = palette[bands[0]]
        bands, alpha = np.moveaxis(colours[:, :, :3], -1, 0), colours[:, :, 3]
    samples = _scaled(source, pixel_type, np.moveaxis(bands, 0, -1))
    samples = _with_colours(samples, 3 if pixel_type.channels >= 3 else 1)
    if alpha is not None and pixel_type.dtype == np.float32:
        valid &= alpha > 0  # colours are blended, values are not
    elif alpha is not None:
        alpha = _eight_bits(alpha)
        if not pixel_type.has_alpha:
            valid &= alpha > 0
            samples = flattened(samples, alpha, pixel_type.nodata)
    if pixel_type.has_alpha:
        opaque = np.full(valid.shape, 255, np.uint8) if alpha is None else alpha
        samples = np.concatenate([samples, opaque[:, :, np.newaxis]], axis=2)
    if not valid.all():
        samples = np.where(valid[:, :, np.newaxis], samples, samples.dtype.type(0))
    return Raster(np.ascontiguousarray(samples), valid)


def palette_of(colours: Mapping[int, tuple[int, ...]], dtype: str) -> Samples:
    """Return the colours of all indices of a sample type, shape (n, 4)."""
    palette = np.zeros((1 << 16 if dtype == "uint16" else 256, 4), np.uint8)
    for index, colour in colours.items():
        palette[index] = colour
    return palette


def nodata_mask(source: Source, bands: Samples) -> Mask | None:
    """Return which pixels have the nodata value of their source; None if it has none.

    Args:
        bands: shape (bands, rows, columns).
    """
    if source.nodata is None and not source.nodata_ranges:
        return None
    missing: Mask = np.zeros(bands.shape[1:], bool)
    if source.nodata is not None:
        reach = source.tolerance
        missing = _all_between(bands, [(one - reach, one + reach) for one in source.nodata])
    for bounds in source.nodata_ranges:
        missing |= _all_between(bands, [bounds] * len(bands))
    return missing


def _all_between(bands: Samples, bounds: Sequence[tuple[float, float]]) -> Mask:
    """Return where each band is between two values, shape (rows, columns)."""
    found: Mask = np.ones(bands.shape[1:], bool)
    for band, (low, high) in zip(bands, bounds, strict=True):
        if np.isnan(low):
            found &= np.isnan(band) if band.dtype.kind == "f" else False
        elif band.dtype.kind == "f":
            # 0.1 in a file of 32 bits is not 0.1 in 64 bits.
            with np.errstate(over="ignore"):
                lowest, highest = band.dtype.type(low), band.dtype.type(high)
            found &= (band >= lowest) & (band <= highest)
        else:
            limits = np.iinfo(band.dtype)
            low, high = max(low, float(limits.min)), min(high, float(limits.max))
            found &= (band >= ceil(low)) & (band <= floor(high)) if low <= high else False
    return found


def _scaled(source: Source, pixel_type: PixelType, bands: Samples) -> Samples:
    if source.scale is not None:
        low, high = np.array(source.scale, np.float64).T
        values = (bands.astype(np.float64) - low) * (255 / (high - low))
        return as_samples(values, np.dtype(np.uint8)).astype(pixel_type.dtype, copy=False)
    is_wide = bands.dtype.kind in "iu" and bands.dtype.itemsize > 2
    if is_wide and np.abs(bands.astype(np.int64)).max(initial=0) > _EXACT:
        raise SourceError(f"{source.path}: contains integers too large for FLOAT32")
    return bands.astype(pixel_type.dtype, copy=False)


def _eight_bits(alpha: Samples) -> Samples:
    if alpha.dtype == np.uint8:
        return alpha
    if alpha.dtype == np.uint16:
        return as_samples(alpha * np.float64(255 / 65535), np.dtype(np.uint8))
    return np.where(alpha > 0, 255, 0).astype(np.uint8)


def _with_colours(samples: Samples, colours: int) -> Samples:
    if samples.shape[2] == colours:
        return samples
    if samples.shape[2] == 1:
        return np.repeat(samples, 3, axis=2)
    grey: Samples = np.trunc(samples @ np.array(_LUMINANCE)).astype(samples.dtype)
    return grey[:, :, np.newaxis]
