"""Halving of images: the mean of 2 x 2 pixels."""

from __future__ import annotations

import numpy as np

from mastaba_build.pixels import Raster, Samples


def halved(raster: Raster, *, has_alpha: bool) -> Raster:
    """Return an image of half the width and height.

    A pixel is the mean of the valid ones among four; bytes are rounded half to even, so that the
    brightness does not drift from level to level. It is valid if any of the four is. With alpha,
    colours are weighted by alpha, and alpha is the mean of the four.

    Args:
        raster: its width and height are even.
    """
    samples, valid = raster
    quads = valid[0::2, 0::2], valid[0::2, 1::2], valid[1::2, 0::2], valid[1::2, 1::2]
    any_valid = quads[0] | quads[1] | quads[2] | quads[3]
    parts = _four(samples)
    if has_alpha:
        if samples.dtype == np.uint8 and (samples[:, :, -1] == 255).all():
            return Raster(_mean_of_four(parts), any_valid)
        return Raster(_weighted(parts, quads), any_valid)
    if valid.all():
        return Raster(_mean_of_four(parts), any_valid)
    count = sum(quad.astype(np.uint8) for quad in quads)
    divisor = np.maximum(count, 1)[:, :, np.newaxis]
    # Invalid samples are 0, so they do not change a sum.
    if samples.dtype == np.uint8:
        total = sum(part.astype(np.uint16) for part in parts)
        # In float32, an exact half of a sum of at most 1020 stays one.
        mean = np.rint(total / divisor.astype(np.float32)).astype(np.uint8)
    else:
        mean = (_float_sum(parts) / divisor).astype(samples.dtype)
    return Raster(mean, any_valid)


def _four(samples: Samples) -> tuple[Samples, Samples, Samples, Samples]:
    return samples[0::2, 0::2], samples[0::2, 1::2], samples[1::2, 0::2], samples[1::2, 1::2]


def _mean_of_four(parts: tuple[Samples, ...]) -> Samples:
    if parts[0].dtype != np.uint8:
        mean: Samples = (_float_sum(parts) / 4).astype(parts[0].dtype)
        return mean
    total = parts[0].astype(np.uint16)
    for part in parts[1:]:
        total += part
    # Half to even: 4k + 2 becomes k if k is even, otherwise k + 1.
    rounding = total >> 2
    rounding &= 1
    total += rounding
    total += 1
    total >>= 2
    return total.astype(np.uint8)


def _float_sum(parts: tuple[Samples, ...]) -> Samples:
    total = parts[0].astype(np.float64)
    for part in parts[1:]:
        total += part
    return total


def _weighted(parts: tuple[Samples, ...], quads: tuple[Samples, ...]) -> Samples:
    alphas = [
        np.where(quad, part[:, :, -1], 0).astype(np.float64)
        for part, quad in zip(parts, quads, strict=True)
    ]
    alpha = alphas[0] + alphas[1] + alphas[2] + alphas[3]
    divisor = np.where(alpha > 0, alpha, 1)[:, :, np.newaxis]
    colours = sum(
        part[:, :, :-1] * weight[:, :, np.newaxis]
        for part, weight in zip(parts, alphas, strict=True)
    )
    result = np.concatenate([colours / divisor, alpha[:, :, np.newaxis] / 4], axis=2)
    mean: Samples = np.rint(result).astype(parts[0].dtype)
    return mean
