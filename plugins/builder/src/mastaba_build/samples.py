"""Pixels in memory: samples and their validity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Samples: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]


class Raster(NamedTuple):
    """Part of an image.

    Attributes:
        samples: shape (rows, columns, channels), the sample type of the pyramid. With 2 or 4
            channels, the last one is alpha. Samples that are not valid are 0.
        valid: shape (rows, columns), which pixels have data.
    """

    samples: Samples
    valid: Mask


@dataclass(frozen=True, slots=True)
class PixelType:
    """The pixels of a pyramid.

    Attributes:
        format: pyramid format, for example ``TIFF_PNG_UINT8``.
        channels: samples per pixel, 1 to 4.
        nodata: value of each channel in pixels without data.
        protects_nodata: whether no pixel with data is stored with the value of nodata: its last
            channel changes by one level.
    """

    format: str
    channels: int
    nodata: tuple[float, ...]
    protects_nodata: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32 if self.format.endswith("FLOAT32") else np.uint8)

    @property
    def has_alpha(self) -> bool:
        return self.channels in (2, 4)

    def blank(self, rows: int, columns: int) -> Raster:
        """Return a raster without data."""
        return Raster(
            np.zeros((rows, columns, self.channels), self.dtype), np.zeros((rows, columns), bool)
        )

    def stored(self, raster: Raster) -> Samples:
        """Return samples as they are stored, with the nodata value where there is no data."""
        samples, valid = raster
        if self.protects_nodata:
            same = valid & (samples == np.array(self.nodata, samples.dtype)).all(axis=2)
            if same.any():
                samples = samples.copy()
                last = self.nodata[-1]
                samples[same, -1] = last - 1 if last == 255 else last + 1
        if valid.all():
            return samples
        samples, missing = samples.copy(), ~valid
        for channel, value in enumerate(self.nodata):
            samples[:, :, channel][missing] = value
        return samples


def as_samples(values: npt.NDArray[np.floating[Any]], dtype: np.dtype[Any]) -> Samples:
    """Return computed values as samples; bytes are rounded half up and clipped, as in the core."""
    if dtype == np.uint8:
        return np.clip(np.floor(values + values.dtype.type(0.5)), 0, 255).astype(np.uint8)
    return values.astype(dtype, copy=False)


def flattened(samples: Samples, alpha: Samples, ground: tuple[float, ...]) -> Samples:
    """Return pixels with alpha, shape (rows, columns), on a background colour."""
    if (alpha == 255).all():
        return samples
    part = alpha[:, :, np.newaxis] / 255.0
    return as_samples(samples * part + np.array(ground) * (1 - part), samples.dtype)


def paste(lower: Raster, upper: Raster, top: int, left: int, *, has_alpha: bool) -> None:
    """Put a raster over part of another one, in place.

    Valid pixels replace those below. With alpha, a translucent pixel is blended with a valid pixel
    below it.
    """
    rows, columns = upper.valid.shape
    part = np.s_[top : top + rows, left : left + columns]
    below, valid = lower.samples[part], lower.valid[part]
    if has_alpha:
        blended = upper.valid & valid & (upper.samples[:, :, -1] < 255)
        if blended.any():
            mixed = _over(upper.samples[blended], below[blended])
            _copy(upper.samples, below, upper.valid)
            below[blended] = mixed
            valid |= upper.valid
            return
    if upper.valid.all():
        below[...] = upper.samples
    else:
        _copy(upper.samples, below, upper.valid)
    valid |= upper.valid


def fill(upper: Raster, lower: Raster, top: int, left: int) -> None:
    """Put a raster under part of another one, in place: only pixels that are not valid change.

    The result is that of `paste` in the other order, without alpha.
    """
    rows, columns = lower.valid.shape
    part = np.s_[top : top + rows, left : left + columns]
    above, valid = upper.samples[part], upper.valid[part]
    if not valid.any() and lower.valid.all():
        above[...] = lower.samples
        valid[...] = True
        return
    missing = lower.valid & ~valid
    _copy(lower.samples, above, missing)
    valid |= missing


def _copy(samples: Samples, into: Samples, where: Mask) -> None:
    """Copy some pixels; one channel at a time, which is ten times as fast as all of them."""
    for channel in range(samples.shape[2]):
        np.copyto(into[:, :, channel], samples[:, :, channel], where=where)


def _over(upper: Samples, lower: Samples) -> Samples:
    """Blend pixels with alpha, shape (n, channels)."""
    above, below = upper[:, -1:] / 255.0, lower[:, -1:] / 255.0
    alpha = above + below * (1 - above)
    colours = upper[:, :-1] * above + lower[:, :-1] * (below * (1 - above))
    colours /= np.where(alpha > 0, alpha, 1)
    return as_samples(np.concatenate([colours, alpha * 255], axis=1), upper.dtype)
