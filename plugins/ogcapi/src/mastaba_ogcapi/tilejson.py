"""A tileset as TileJSON 3.0.0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mastaba.api.catalogue import whole_view
from mastaba.api.web import anchor
from mastaba_ogcapi.tilesets import picture_template
from mastaba_ows.boxes import bounds, centre

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer, TileMatrixSetLink
    from mastaba_ogcapi.tilesets import Tiles


def tilejson(tiles: Tiles, offered: TileMatrixSetLink) -> dict[str, Any]:
    """Return the TileJSON of a tileset whose matrices are numbered."""
    layer = tiles.collection.layer
    zooms = [int(name) for name in offered.limits]
    href = picture_template(tiles, offered)
    for variable, place in (("tileMatrix", "z"), ("tileRow", "y"), ("tileCol", "x")):
        href = href.replace(f"{{{variable}}}", f"{{{place}}}")
    box = layer.geographic_bbox
    document: dict[str, Any] = {
        "tilejson": "3.0.0",
        "name": tiles.title,
        "description": layer.abstract,
        "scheme": "xyz",
        "tiles": [href],
        "crs": offered.tile_matrix_set.crs.code,
        "minzoom": min(zooms),
        "maxzoom": max(zooms),
        "bounds": bounds(box),
        "center": [*centre(box), _whole_zoom(layer, offered, zooms)],
        # The TileJSON 3.0.0 schema requires it for raster tiles too.
        "vector_layers": _vector_layers(tiles),
    }
    if layer.attribution:
        document["attribution"] = anchor(layer.attribution.url, layer.attribution.title)
    return document


def _whole_zoom(layer: Layer, offered: TileMatrixSetLink, zooms: list[int]) -> int:
    """Return the zoom that shows the whole layer."""
    if offered.tile_matrix_set is not layer.pyramid.tile_matrix_set:
        return min(zooms)
    return int(whole_view(layer).matrix.id)


def _vector_layers(tiles: Tiles) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, level in tiles.collection.layer.pyramid.levels.items():
        for table in level.tables:
            entry = found.setdefault(
                table.name, {"id": table.name, "fields": {}, "minzoom": int(name)}
            )
            entry["fields"].update({item.name: item.type for item in table.attributes})
            entry["maxzoom"] = int(name)
    return list(found.values())
