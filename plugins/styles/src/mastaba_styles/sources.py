"""Sources of styles: the tiles of a layer (MapLibre Style Specification, "Sources")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mastaba.api.catalogue import Codec, whole_view
from mastaba.api.web import anchor
from mastaba_ows.offers import zoom_tiles, zooms

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site


def source_of(layer: Layer, site: Site) -> dict[str, Any] | None:
    """Return the source of a layer.

    None if no service offers its tiles by zoom, column and row, or clients cannot draw them.
    """
    tile_format = layer.pyramid.format
    if not (tile_format.is_vector or tile_format.is_picture):
        return None
    template, found = zoom_tiles(site, layer), zooms(layer)
    if not template or found is None:
        return None
    box = layer.geographic_bbox
    source: dict[str, Any] = {
        "type": "vector" if tile_format.is_vector else "raster",
        "tiles": [template],
        "minzoom": found[0],
        "maxzoom": found[1],
        "bounds": [round(edge, 7) for edge in (box.xmin, box.ymin, box.xmax, box.ymax)],
    }
    if tile_format.codec is Codec.MLT:
        source["encoding"] = "mlt"
    if not tile_format.is_vector:
        source["tileSize"] = layer.pyramid.finest.matrix.tile_width
    if layer.attribution:
        # Clients show it as HTML.
        source["attribution"] = anchor(layer.attribution.url, layer.attribution.title)
    return source


def why(layer: Layer) -> str:
    """Return why a layer has no source."""
    tile_format = layer.pyramid.format
    if not (tile_format.is_vector or tile_format.is_picture):
        return f"its tiles are {tile_format.media_type}, not pictures or vector tiles"
    if zooms(layer) is None:
        used = layer.pyramid.tile_matrix_set.id
        return f"clients of styles need zooms of Web Mercator, and its tile matrix set is {used}"
    return "no service offers its tiles by zoom, column and row; enable tms or ogcapi"


def tables_of(layer: Layer) -> dict[str, Any]:
    """Return the tables of a layer by name, each as in the finest level that has it."""
    levels = layer.pyramid.levels.values()
    return {table.name: table for level in levels for table in level.tables}


def first_view(layer: Layer) -> dict[str, Any]:
    """Return the members of a style that say where a map opens: the whole layer at once."""
    box = layer.geographic_bbox
    # Without the sign of zero.
    middle = [round((box.xmin + box.xmax) / 2, 6) + 0.0, round((box.ymin + box.ymax) / 2, 6) + 0.0]
    found = zooms(layer)
    assert found is not None
    # Nothing is shown of vector tiles below the first zoom; zoom 0 of pictures has 256 pixels.
    lowest = found[0] if layer.is_vector else max(found[0] - 1, 0)
    return {"center": middle, "zoom": max(lowest, int(whole_view(layer).matrix.id) - 1)}
