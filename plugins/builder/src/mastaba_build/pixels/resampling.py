"""Resampling of source cells with gaps: only valid ones count."""

from __future__ import annotations

import numpy as np

from mastaba_build.pixels.placement import Placement, Rectangle
from mastaba_build.samples import Mask, Raster, as_samples
from mastaba_render.api.resampling import GridPositions, MapRows, bounded

_ENOUGH = 0.5
"""A pixel is valid if valid cells have at least this share of its weight."""
_VISIBLE = 1e-3
"""Pixels with less alpha have no colour."""


def resampled(
    cells: Raster, origin: tuple[int, int], placement: Placement, *, has_alpha: bool
) -> Raster | None:
    """Return the part of a tile in a placement from the source cells around its window.

    Cells that are not valid, or outside the source, do not count: the other weights are scaled to a
    sum of 1. With alpha, colours are weighted by alpha.

    Args:
        origin: row and column of the first cell.

    Returns:
        None if no cell of the window is valid.
    """
    positions, (top, bottom, left, right) = placement.positions, _window(placement)
    inner = np.s_[top - origin[0] : bottom - origin[0], left - origin[1] : right - origin[1]]
    samples, valid = cells.samples[inner], cells.valid[inner]
    is_complete = bool(valid.all())
    if not is_complete and not valid.any():
        return None
    is_opaque = not has_alpha or bool((samples[:, :, -1] == 255).all())
    shape = placement.part[1] - placement.part[0], placement.part[3] - placement.part[2]
    rows = slice(0, shape[0])
    if isinstance(positions, GridPositions):
        # The loops find their way in the larger image.
        window, start = cells.samples, origin
        placed = positions.placed(rows)
    elif positions.aligned:
        return Raster(samples.copy(), valid.copy())
    else:
        window, start = samples, (top, left)
        placed = None
    if is_complete and is_opaque:
        drawn = positions.sampler(placement.kernel, rows, *start)(window)
        return Raster(drawn, np.ones(shape, bool) if placed is None else placed)
    return _partial(samples, valid, placement, placed, has_alpha=has_alpha)


def is_full(
    cells: Raster, origin: tuple[int, int], placement: Placement, *, has_alpha: bool
) -> bool:
    """Return whether all cells of the window of a placement are valid and opaque.

    Args:
        origin: row and column of the first cell.
    """
    top, bottom, left, right = _window(placement)
    inner = np.s_[top - origin[0] : bottom - origin[0], left - origin[1] : right - origin[1]]
    is_opaque = not has_alpha or bool((cells.samples[inner][:, :, -1] == 255).all())
    return is_opaque and bool(cells.valid[inner].all())


def _window(placement: Placement) -> Rectangle:
    assert placement.window is not None
    return placement.window


def _partial(
    samples: np.ndarray[tuple[int, ...], np.dtype[np.uint8 | np.float32]],
    valid: Mask,
    placement: Placement,
    placed: Mask | None,
    *,
    has_alpha: bool,
) -> Raster:
    """Return a part of a tile from cells of which some are not valid, or translucent."""
    positions, kernel, (top, _, left, _) = (
        placement.positions,
        placement.kernel,
        _window(placement),
    )
    rows = slice(0, placement.part[1] - placement.part[0])
    sample = positions.sampler(kernel, rows, top, left)
    height, width, channels = samples.shape
    colours = channels - 1 if has_alpha else channels
    # Without alpha, the sum of the weights is the share of valid cells.
    weighted = np.empty((height, width, colours + 1), np.float32)
    weights = weighted[:, :, colours]
    weights[...] = valid
    if has_alpha:
        weights *= samples[:, :, -1]
        weights *= np.float32(1 / 255)
    for channel in range(colours):
        np.multiply(samples[:, :, channel], weights, out=weighted[:, :, channel])
    sums = sample(weighted)
    total = sums[:, :, colours]
    if has_alpha and not valid.all():
        share = sample(valid.astype(np.float32)[:, :, np.newaxis])[:, :, 0]
    else:
        share = np.ones_like(total) if has_alpha else total
    found = share >= _ENOUGH
    if placed is not None:
        found &= placed
    visible = found & (total > (_VISIBLE if has_alpha else 0))
    divisor = np.where(visible, total, np.float32(np.inf))
    result = np.empty((*found.shape, channels), samples.dtype)
    values = (sums[:, :, :colours] / divisor[:, :, np.newaxis]).astype(np.float32, copy=False)
    counts = valid & (samples[:, :, -1] > 0) if has_alpha else valid
    gaps = visible & (total != 1)
    source = samples[:, :, :colours].astype(np.float32)
    bounded(MapRows(positions, kernel, rows, top, left), source, counts, values, gaps)
    result[:, :, :colours] = as_samples(values, samples.dtype)
    if has_alpha:
        alpha = np.where(found, np.clip(total / np.maximum(share, _ENOUGH), 0, 1), 0)
        result[:, :, -1] = as_samples(alpha * np.float32(255), samples.dtype)
    return Raster(result, found)
