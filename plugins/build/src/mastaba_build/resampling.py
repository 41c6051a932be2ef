"""Resampling of a window with gaps: only valid pixels count."""

from __future__ import annotations

import numpy as np

from mastaba.api.resampling import GridPositions, Sampler
from mastaba_build.pixels import Raster, as_samples
from mastaba_build.placement import Placement

_ENOUGH = 0.5
"""A pixel is valid if valid pixels have at least this share of its weight."""


def resampled(window: Raster, placement: Placement, kernel: str, *, has_alpha: bool) -> Raster:
    """Return the part of a tile in a placement from its window of source cells.

    Taps without data, or outside the source, do not count: the other weights are scaled to a sum
    of 1. With alpha, colours are weighted by alpha.
    """
    positions = placement.positions
    top, bottom, left, right = placement.part
    rows = slice(0, bottom - top)
    sample = positions.sampler(kernel, rows, placement.window[0], placement.window[2])
    samples, valid = window
    if isinstance(positions, GridPositions):
        placed = positions.placed(rows)
    else:
        placed = None
        if positions.aligned:
            return window
    everywhere = np.ones((bottom - top, right - left), bool) if placed is None else placed
    if valid.all() and not (has_alpha and (samples[:, :, -1] < 255).any()):
        return _cut(Raster(sample(samples), everywhere))
    share = _share(valid, sample)
    weights = valid.astype(np.float32)
    if has_alpha:
        weights *= samples[:, :, -1].astype(np.float32) / np.float32(255)
    colours = samples[:, :, :-1] if has_alpha else samples
    weighted = sample(
        np.concatenate([colours * weights[:, :, np.newaxis], weights[:, :, np.newaxis]], axis=2)
    )
    found = everywhere & (share >= _ENOUGH)
    total = weighted[:, :, -1:]
    visible = found[:, :, np.newaxis] & (total > (1e-3 if has_alpha else 0))
    means = np.divide(
        weighted[:, :, :-1], total, out=np.zeros_like(weighted[:, :, :-1]), where=visible
    )
    if has_alpha:
        alpha = np.where(found, np.clip(total[:, :, 0] / np.maximum(share, _ENOUGH), 0, 1), 0) * 255
        means = np.concatenate([means, alpha[:, :, np.newaxis].astype(np.float32)], axis=2)
    return _cut(Raster(as_samples(means, samples.dtype), found))


def _share(
    valid: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], sample: Sampler
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    if valid.all():
        return np.ones(1, np.float32)
    result: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = sample(
        valid.astype(np.float32)[:, :, np.newaxis]
    )[:, :, 0]
    return result


def _cut(raster: Raster) -> Raster:
    """Return a raster whose samples are 0 where they are not valid."""
    if raster.valid.all():
        return raster
    raster.samples[~raster.valid] = 0
    return raster
