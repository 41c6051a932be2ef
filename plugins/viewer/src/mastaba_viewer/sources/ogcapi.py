"""OGC API Tiles and OGC API Maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mastaba.api.tiles import shows_in_stored_tiles
from mastaba_ows.offers import tile_template
from mastaba_viewer.grids import plain_names
from mastaba_viewer.kinds import is_picture, kind
from mastaba_viewer.sources.common import (
    data_formats,
    document,
    geotiff_format,
    map_crs,
    map_limits,
    picture_formats,
    publisher,
    segment,
)

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Service, Site

_AREA: Final = "crs={CRS}&bbox={BBOX}&bbox-crs={CRS}&width={WIDTH}&height={HEIGHT}"


def tile_source(layer: Layer, site: Site) -> dict[str, Any] | None:
    """Return the source of tiles, or None if OGC API publishes no tiles of the layer."""
    service = publisher("ogcapi", layer, site)
    if service is None or not service.settings.own.get("tiles", True):
        return None
    if not service.offers("tiles", layer):
        return None
    base = _collection(service, layer)
    family = "tiles" if layer.is_vector else "map/tiles"
    vector = layer.is_vector
    styles = _vector_tiles(layer, service) if vector else _raster_tiles(layer, service, site)
    return {
        "id": "ogcapi-tiles",
        "title": "OGC API Tiles",
        "type": "tiles",
        "sets": plain_names(layer, site),
        "fromBottom": False,
        "missing": layer.missing_tile_status or 204,
        "styles": styles,
        "documents": [
            document("Tileset", f"{base}/{family}/{{TileMatrixSet}}?f=json"),
            document("Collection", f"{base}?f=json"),
        ],
    }


def map_source(layer: Layer, site: Site) -> dict[str, Any] | None:
    """Return the source of maps, or None if OGC API publishes no maps of the layer."""
    service = publisher("ogcapi", layer, site)
    if service is None or layer.is_vector or not service.settings.own.get("maps", True):
        return None
    if not service.offers("maps", layer):
        return None
    base = _collection(service, layer)
    pictures, data = picture_formats(site), data_formats(site)
    styles = []
    for style in layer.styles:
        picture = is_picture(layer, style)
        if "/" not in style.identifier and (formats := pictures if picture else data):
            styles.append(
                {
                    "style": style.identifier,
                    "draws": "image" if picture else None,
                    "formats": formats,
                    "template": f"{base}/styles/{segment(style.identifier)}/map"
                    f"?{_AREA}&f={{FORMAT}}&transparent={{TRANSPARENT}}",
                }
            )
    return {
        "id": "ogcapi-maps",
        "title": "OGC API Maps",
        "type": "maps",
        "crs": map_crs(layer, site),
        "limits": map_limits(site),
        "geotiff": geotiff_format(site),
        "styles": styles,
        "documents": [document("Collection", f"{base}?f=json")],
    }


def _collection(service: Service, layer: Layer) -> str:
    return f"{service.settings.endpoint_uri}/collections/{segment(layer.id)}"


def _vector_tiles(layer: Layer, service: Service) -> list[dict[str, Any]]:
    return [{"style": None, "draws": "vector", "template": tile_template(service, layer)}]


def _raster_tiles(layer: Layer, service: Service, site: Site) -> list[dict[str, Any]]:
    encoders = [site.encoders[name.lower()] for name in picture_formats(site)]
    drawn = next((encoder.name for encoder in encoders if encoder.holds_alpha), None)
    styles: list[dict[str, Any]] = []
    for style in layer.styles:
        if "/" in style.identifier:
            continue
        stored = tile_template(service, layer, style.identifier)
        if shows_in_stored_tiles(layer, style):
            found = {"draws": kind(layer), "template": stored}
        elif drawn and is_picture(layer, style):
            # With "transparent", the service draws the tile instead of sending the stored one.
            tiles = stored.partition("?")[0]
            found = {"draws": "image", "template": f"{tiles}?f={drawn}&transparent=true"}
        else:
            continue
        styles.append({"style": style.identifier, **found})
    if not any(style["draws"] == kind(layer) for style in styles):
        template = tile_template(service, layer)
        styles.insert(0, {"style": None, "draws": kind(layer), "template": template})
    return styles
