"""WMTS: stored tiles, and tiles in extra tile matrix sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mastaba.api.tiles import shows_in_stored_tiles
from mastaba_ows.offers import tile_template
from mastaba_viewer.grids import published_names
from mastaba_viewer.kinds import kind
from mastaba_viewer.sources.common import document, publisher, with_query

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Service, Site

_PLACES: Final = {
    "TILEMATRIXSET": "{TileMatrixSet}",
    "TILEMATRIX": "{TileMatrix}",
    "TILEROW": "{TileRow}",
    "TILECOL": "{TileCol}",
}


def wmts_source(layer: Layer, site: Site) -> dict[str, Any] | None:
    """Return the source, or None if WMTS does not publish the layer."""
    service = publisher("wmts", layer, site)
    if service is None or layer.is_vector:
        return None
    uri = service.settings.endpoint_uri
    parameters = {"SERVICE": "WMTS", "REQUEST": "GetCapabilities"}
    return {
        "id": "wmts",
        "title": "WMTS",
        "type": "tiles",
        "sets": published_names(layer, site),
        "fromBottom": False,
        "missing": layer.missing_tile_status or 404,
        "styles": _styles(layer, service),
        "documents": [document("Capabilities", with_query(uri, parameters, {}))],
    }


def _styles(layer: Layer, service: Service) -> list[dict[str, Any]]:
    shown: list[tuple[str | None, str]] = [
        (style.identifier, style.identifier)
        for style in layer.styles
        if shows_in_stored_tiles(layer, style)
    ]
    # Requests must name a style even if stored tiles show none.
    if not shown:
        shown = [(None, style.identifier) for style in layer.styles[:1]]
    uri = service.settings.endpoint_uri
    return [
        {"style": style, "draws": kind(layer), "template": _template(layer, uri, name)}
        | ({"rest": path} if (path := tile_template(service, layer, name)) else {})
        for style, name in shown
    ]


def _template(layer: Layer, uri: str, style: str) -> str:
    parameters = {
        "SERVICE": "WMTS",
        "VERSION": "1.0.0",
        "REQUEST": "GetTile",
        "LAYER": layer.id,
        "STYLE": style,
        "FORMAT": layer.pyramid.format.media_type,
    }
    return with_query(uri, parameters, _PLACES)
