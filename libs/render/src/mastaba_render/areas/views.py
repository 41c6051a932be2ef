"""A layer that shows an area: its readers, its levels and its boxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from hashlib import blake2b
from types import MappingProxyType
from typing import Final

from mastaba.containers.reader import TileReader
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.model.layer import Layer
from mastaba.model.pyramid import Level
from mastaba_render.areas.area import Area, Cut
from mastaba_render.areas.level import LevelArea
from mastaba_render.areas.projected import Edges, projected
from mastaba_render.areas.reader import MaskedLevelReader

_TOLERANCE: Final = 0.25
"""Pixels of the finest level by which an edge may deviate from its place."""


def masked_readers(
    layer: Layer, readers: Mapping[str, TileReader], area: Area, cut: Cut = Cut.MASK
) -> Mapping[str, TileReader]:
    """Return the readers of a layer that shows an area.

    Args:
        layer: the result of `narrowed`, or that layer with fewer levels.
        readers: of the whole levels, by tile matrix identifier.

    Returns:
        A `MaskedLevelReader` for each level of the layer.
    """
    edges = _edges_of(layer, area)
    pyramid = layer.pyramid
    return MappingProxyType(
        {
            name: MaskedLevelReader(
                readers[name], level, pyramid, LevelArea(level.matrix, edges, _cut(layer, cut))
            )
            for name, level in pyramid.levels.items()
        }
    )


def narrowed(layer: Layer, area: Area, cut: Cut = Cut.MASK) -> Layer | None:
    """Return a layer with the levels, limits and boxes of an area; None if nothing is left.

    Feature info of another server is left out: it knows nothing of the area.

    Its generation, and that of its pyramid, change with the area: they are in ETags, and in what
    identifies a map.

    Raises:
        ValueError: the area has too many edges in the CRS of the layer.
    """
    box = area.bbox
    geographic = None if box is None else layer.geographic_bbox.intersection(box)
    if geographic is None:
        return None
    edges = _edges_of(layer, area)
    pyramid, matrices = layer.pyramid, layer.pyramid.tile_matrix_set.matrices
    native: BoundingBox | None = layer.native_bbox
    for part in edges():
        if native is not None:
            native = None if part.bbox is None else native.intersection(part.bbox)
    levels: dict[str, Level] = {}
    for name, level in pyramid.levels.items():
        limits = LevelArea(level.matrix, edges, _cut(layer, cut)).limits(level.limits)
        if limits is not None:
            levels[name] = replace(level, limits=limits)
    if native is None or not levels:
        return None
    # What documents say of all variants together.
    of_variants = {
        name: limits
        for name, whole in layer.tile_limits.items()
        if (limits := LevelArea(matrices[name], edges, _cut(layer, cut)).limits(whole)) is not None
    }
    info = layer.feature_info
    if info is not None and info.url is not None:
        # Another server answers with whole features, and with those near a point.
        info = None
    digest = blake2b(f"{area.digest} {_cut(layer, cut)}".encode(), digest_size=4).hexdigest()
    shown = replace(
        pyramid,
        levels=MappingProxyType(levels),
        generation=f"{pyramid.generation}-a{digest}",
        update=None,
    )
    return replace(
        layer,
        pyramid=shown,
        native_bbox=native,
        geographic_bbox=geographic,
        tile_limits=MappingProxyType(of_variants),
        feature_info=info,
        generation=f"{layer.generation}-a{digest}",
    )


def _cut(layer: Layer, cut: Cut) -> Cut:
    # Features are not clipped.
    return Cut.DROP if layer.is_vector and cut is Cut.MASK else cut


def _edges_of(layer: Layer, area: Area) -> Callable[[], Sequence[Edges]]:
    """Return a function that returns the edges of an area for all levels of a layer."""
    pyramid, matrices = layer.pyramid, layer.pyramid.tile_matrix_set.matrices
    boxes = [one.matrix.bbox_of(one.limits) for one in pyramid.levels.values()]
    boxes += [matrices[name].bbox_of(limits) for name, limits in layer.tile_limits.items()]
    box = reduce(BoundingBox.union, boxes)
    tolerance = _TOLERANCE * pyramid.finest.matrix.cell_size
    crs = pyramid.tile_matrix_set.crs
    return lambda: _edges(area, crs, box, tolerance)


# The levels of a layer share them, and often its neighbours do.
@lru_cache(maxsize=64)
def _edges(area: Area, crs: CRS, box: BoundingBox, tolerance: float) -> Sequence[Edges]:
    return [projected(part, crs, box, tolerance) for part in area.parts]
