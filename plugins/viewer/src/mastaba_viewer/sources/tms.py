"""TMS: stored tiles in the default style."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mastaba.api.tiles import shows_in_stored_tiles
from mastaba_ows.offers import tile_template
from mastaba_viewer.kinds import kind
from mastaba_viewer.sources.common import document, publisher, segment

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site


def tms_source(layer: Layer, site: Site) -> dict[str, Any] | None:
    """Return the source, or None if TMS does not publish the layer."""
    service = publisher("tms", layer, site)
    if service is None:
        return None
    base = f"{service.settings.endpoint_uri}/1.0.0/{segment(layer.id)}"
    from_bottom = service.settings.own.get("y_origin", "top") == "bottom"
    tile_matrix_set = layer.pyramid.tile_matrix_set
    documents = [document("TileJSON", f"{base}/metadata.json"), document("TileMap", base)]
    if _has_gdal_description(layer, from_bottom):
        documents.append(document("GDAL", f"{base}/gdal.xml"))
    return {
        "id": "tms",
        "title": "TMS",
        "type": "tiles",
        "sets": {tile_matrix_set.id: tile_matrix_set.id},
        "fromBottom": from_bottom,
        "missing": layer.missing_tile_status or 404,
        "styles": [
            {
                "style": _style(layer),
                "draws": kind(layer),
                "template": tile_template(service, layer),
            }
        ],
        "documents": documents,
    }


def _style(layer: Layer) -> str | None:
    """Return the style that stored tiles show: the default one, or else one without effect."""
    default = layer.default_style
    if default is not None and shows_in_stored_tiles(layer, default):
        return default.identifier
    return next((style.identifier for style in layer.styles if style.is_identity), None)


def _has_gdal_description(layer: Layer, from_bottom: bool) -> bool:
    """Return whether the service has a description for GDAL, which needs levels numbered from 0."""
    tile_matrix_set = layer.pyramid.tile_matrix_set
    if layer.is_vector or not tile_matrix_set.is_quadtree:
        return False
    matrices = list(tile_matrix_set.matrices.values())
    if (matrices[0].matrix_width, matrices[0].matrix_height) != (1, 1):
        return False
    ranks = {matrix.id: str(rank) for rank, matrix in enumerate(matrices)}
    if any(ranks[name] != name for name in layer.pyramid.levels):
        return False
    return not from_bottom or all(
        level.matrix.matrix_height == 2 ** int(name) for name, level in layer.pyramid.levels.items()
    )
