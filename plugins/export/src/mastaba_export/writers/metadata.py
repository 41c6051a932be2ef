"""What an archive says about its layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mastaba.api.catalogue import WGS84, BoundingBox, geographic_bbox
from mastaba_ows.offers import credits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mastaba_export.levels import ExportLevel
    from mastaba_export.plan import ExportPlan

_LEAST = 1e-7
"""Degrees; a box without extent is widened by it, because readers refuse such a box."""


def bounds_of(plan: ExportPlan) -> BoundingBox:
    """Return the box of the tiles, as far as the layer has data there, in degrees.

    Coarser levels may have tiles where the finest one has none: readers skip what is outside.
    """
    found, layer = _tiles_box(plan, plan.levels[-1]), plan.layer.geographic_bbox
    common = layer if found is None else (found.intersection(layer) or found)
    for level in reversed(plan.levels[:-1]):
        try:
            inside = level.matrix.limits_of(WGS84.transform_bbox(common, plan.tile_matrix_set.crs))
        except ValueError:
            continue
        limits = level.selection.limits
        if inside is None or inside.intersection(limits) != limits:
            common = common.union(_tiles_box(plan, level) or common)
    return BoundingBox(
        common.xmin,
        common.ymin,
        max(common.xmax, common.xmin + _LEAST),
        max(common.ymax, common.ymin + _LEAST),
    )


def _tiles_box(plan: ExportPlan, level: ExportLevel) -> BoundingBox | None:
    """Return the box of the tiles of a level in degrees; None if it has none."""
    box = level.matrix.bbox_of(level.selection.limits)
    try:
        return geographic_bbox(box, plan.tile_matrix_set.crs)
    except ValueError:
        return None


def described(plan: ExportPlan, changed: Sequence[str] = ()) -> dict[str, Any]:
    """Return name, description, attribution, version, kind and vector layers.

    The attribution is that of the layer, and of the sources in the area.
    """
    layer = plan.layer
    found: dict[str, Any] = {
        "name": layer.title or layer.key,
        "description": layer.abstract,
        "version": layer.pyramid.generation,
        "type": "baselayer",
    }
    names = [] if layer.attribution is None else [layer.attribution.title]
    if plan.site is not None:
        names.append(credits_of(plan.site, layer, bounds_of(plan)))
    found["attribution"] = "; ".join(filter(None, names))
    if layer.is_vector:
        found["vector_layers"] = vector_layers(plan)
    if changed:
        found["changed_slabs"] = list(changed)
    return {key: value for key, value in found.items() if value != ""}


def vector_layers(plan: ExportPlan) -> list[dict[str, Any]]:
    """Return the tables of vector tiles as MBTiles and PMTiles describe them."""
    found: dict[str, dict[str, Any]] = {}
    for level in plan.levels:
        for table in plan.layer.pyramid.levels[level.matrix.id].tables:
            one = found.setdefault(
                table.name, {"id": table.name, "fields": {}, "minzoom": level.zoom}
            )
            one["minzoom"] = min(one["minzoom"], level.zoom)
            one["maxzoom"] = max(one.get("maxzoom", 0), level.zoom)
            for attribute in table.attributes:
                kind = attribute.type.lower()
                is_number = any(word in kind for word in ("int", "real", "double", "float"))
                text = "Boolean" if "bool" in kind else "Number" if is_number else "String"
                one["fields"][attribute.name] = text
    return list(found.values())


def zooms(plan: ExportPlan) -> tuple[int, int]:
    """Return the least and the greatest zoom."""
    found = [level.zoom for level in plan.levels]
    return min(found), max(found)
