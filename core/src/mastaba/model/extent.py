"""Extents of layers: the boxes that all documents contain (layer.md section 4)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import lru_cache, reduce
from typing import Final

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS, WGS84, Equivalences
from mastaba.model.layer import Layer
from mastaba.model.pyramid import Level, Pyramid

_SCREEN: Final = 1024
"""Pixels on each side, about the size of a web map."""

# Codes whose box is exactly the geographic one (conformance.md W-19).
_GEOGRAPHIC: Final = ("CRS:84", "EPSG:4326")


def pyramid_bbox(pyramid: Pyramid) -> BoundingBox:
    """Return the box around the data of all levels, CRS of the tile matrix set.

    The tiles of a coarse level extend beyond the data that it shares with finer levels, up to the
    whole world. So a coarser level counts only if it has more tiles than the finer ones need.
    """
    if pyramid.bbox is not None:
        return pyramid.bbox
    finest = pyramid.finest
    box = finest.matrix.bbox_of(finest.limits)
    for level in reversed(list(pyramid.levels.values())):
        needed = level.matrix.limits_of(box)
        if needed is None or needed.intersection(level.limits) != level.limits:
            box = box.union(level.matrix.bbox_of(level.limits))
    return box


def bbox_in(layer: Layer, crs: CRS, equivalences: Equivalences | None = None) -> BoundingBox | None:
    """Return the box of a layer in a CRS, x before y.

    A layer that extends beyond the area of use of the CRS is clipped to it: outside, coordinates
    are meaningless and may be infinite.

    Args:
        equivalences: CRSs that count as equal.

    Returns:
        None if no part of the layer is in the area of use of the CRS.
    """
    native = layer.pyramid.tile_matrix_set.crs
    if crs.code in _GEOGRAPHIC:
        return layer.geographic_bbox
    if crs == native or (equivalences and equivalences.equal(crs.code, native.code)):
        return layer.native_bbox
    return _cut(layer.geographic_bbox, crs)


# Many layers have the same extent, and transformations are slow.
@lru_cache(maxsize=1024)
def _cut(geographic: BoundingBox, crs: CRS) -> BoundingBox | None:
    boxes = []
    for area in crs.areas_of_use:
        part = geographic.intersection(area)
        if part is not None:
            with contextlib.suppress(ValueError):
                boxes.append(WGS84.transform_bbox(part, crs))
    return reduce(BoundingBox.union, boxes) if boxes else None


def geographic_extent(layers: Iterable[Layer]) -> BoundingBox | None:
    """Return the box around layers, WGS 84 degrees; None for no layers."""
    boxes = [layer.geographic_bbox for layer in layers]
    return reduce(BoundingBox.union, boxes) if boxes else None


def whole_view(layer: Layer) -> Level:
    """Return the level that shows the whole layer at once: the finest that fits on a screen."""
    box = layer.native_bbox
    side = max(box.xmax - box.xmin, box.ymax - box.ymin)
    fitting = (
        level
        for level in reversed(list(layer.pyramid.levels.values()))
        if side < (_SCREEN + 0.5) * level.matrix.cell_size
    )
    return next(fitting, layer.pyramid.coarsest)
