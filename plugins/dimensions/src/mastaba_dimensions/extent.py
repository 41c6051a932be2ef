"""The extent of a layer with variants, as far as their list says which tiles they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from types import MappingProxyType

from mastaba.api.catalogue import Layer, TileLimits, TileMatrix, geographic_bbox
from mastaba_dimensions.listing import Row

_Listed = dict[str, list[Sequence[int]]]
"""Limits as lists say them, by tile matrix identifier."""


def widened(layer: Layer, rows: Iterable[Row], bbox: Mapping[str, float] | None) -> Layer:
    """Return a layer whose documents show the extent of all variants.

    Args:
        rows: the variants. If one does not say its tiles, the layer is returned as it is.
        bbox: that the descriptor sets for the layer.
    """
    known = layer.pyramid.tile_matrix_set.matrices
    listed, finest = _limits_of(rows, known)
    if not listed:
        return layer
    own = {name: level.limits for name, level in layer.pyramid.levels.items()}
    limits: dict[str, TileLimits] = {}
    for name in sorted({*own, *listed} & known.keys(), key=lambda one: -known[one].cell_size):
        whole = reduce(_united, [of[name] for of in (own, listed) if name in of])
        within = known[name].limits_of(layer.native_bbox) if bbox else known[name].all_tiles
        clipped = None if within is None else whole.intersection(within)
        if clipped is not None:
            limits[name] = clipped
    layer = replace(layer, tile_limits=MappingProxyType(limits))
    if bbox:
        return layer
    native = layer.native_bbox
    for name, tiles in finest.items():
        inside = tiles.intersection(known[name].all_tiles)
        native = native if inside is None else native.union(known[name].bbox_of(inside))
    # As in the box of one pyramid, coarser levels count only if they have more tiles than needed.
    for name, tiles in reversed(limits.items()):
        needed = known[name].limits_of(native)
        if needed is None or needed.intersection(tiles) != tiles:
            native = native.union(known[name].bbox_of(tiles))
    if native == layer.native_bbox:
        return layer
    geographic = geographic_bbox(native, layer.pyramid.tile_matrix_set.crs)
    return replace(layer, native_bbox=native, geographic_bbox=geographic)


def _limits_of(
    rows: Iterable[Row], known: Mapping[str, TileMatrix]
) -> tuple[dict[str, TileLimits], dict[str, TileLimits]]:
    """Return the tile limits of all variants together, and those of the finest level of each.

    Both are empty if a variant does not say them. A level may be the finest one of some variants,
    and have more tiles in others.

    Args:
        known: the tile matrices by their identifiers.
    """
    of_all: _Listed = {}
    of_finest: _Listed = {}
    # Most variants have the same levels.
    finest: dict[tuple[str, ...], str | None] = {}
    for row in rows:
        levels = row.get("levels")
        if not levels:
            return {}, {}
        names = tuple(levels)
        if names not in finest:
            usable = [name for name in names if name in known]
            finest[names] = min(usable, key=lambda one: known[one].cell_size, default=None)
        name = finest[names]
        if name is not None:
            of_finest.setdefault(name, []).append(levels[name])
        for one, limits in levels.items():
            of_all.setdefault(one, []).append(limits)
    return _around(of_all), _around(of_finest)


def _around(listed: _Listed) -> dict[str, TileLimits]:
    found = {}
    for name, limits in listed.items():
        first_row, last_row, first_col, last_col = zip(*limits, strict=True)
        found[name] = TileLimits(min(first_row), max(last_row), min(first_col), max(last_col))
    return found


def _united(one: TileLimits, other: TileLimits) -> TileLimits:
    """Return the smallest limits around both."""
    return TileLimits(
        min(one.min_row, other.min_row),
        max(one.max_row, other.max_row),
        min(one.min_col, other.min_col),
        max(one.max_col, other.max_col),
    )
