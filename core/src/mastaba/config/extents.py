"""The extent of a layer: its own box, or that of its pyramid."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import WGS84, geographic_bbox
from mastaba.model.extent import pyramid_bbox
from mastaba.model.pyramid import Level, Pyramid


def with_extent(
    bbox: dict[str, float] | None, pyramid: Pyramid, file: str
) -> tuple[Pyramid, BoundingBox, BoundingBox]:
    """Return the pyramid inside the configured box, and its native and geographic box.

    Args:
        bbox: WGS 84 degrees, as in the descriptor.

    Raises:
        ValueError: the box is invalid, or contains no tile of a level.
    """
    crs = pyramid.tile_matrix_set.crs
    if bbox is None:
        native = pyramid_bbox(pyramid)
        geographic = geographic_bbox(native, crs)
    else:
        sides = (float(bbox[side]) for side in ("west", "south", "east", "north"))
        geographic = BoundingBox(*sides)
        if geographic.xmin > geographic.xmax or geographic.ymin > geographic.ymax:
            raise ValueError("its west is east of its east, or its south north of its north")
        native = WGS84.transform_bbox(geographic, crs)
        pyramid = _narrowed(pyramid, native, f"{file}: $.bbox")
    if not native.is_finite:
        raise ValueError("its coordinates are too large")
    return pyramid, native, geographic


def _narrowed(pyramid: Pyramid, bbox: BoundingBox, named_by: str) -> Pyramid:
    """Return the pyramid with only the tiles that meet a bbox in its native CRS."""
    levels: dict[str, Level] = {}
    for identifier, level in pyramid.levels.items():
        limits = level.matrix.limits_of(bbox)
        common = None if limits is None else limits.intersection(level.limits)
        if common is None:
            raise ValueError(f"it contains no tile of level {identifier}")
        if common != level.limits:
            level = replace(level, limits=common, limits_from=named_by)
        levels[identifier] = level
    return replace(pyramid, levels=MappingProxyType(levels))
