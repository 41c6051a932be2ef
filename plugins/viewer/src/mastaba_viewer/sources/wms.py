"""WMS: maps of any extent, in any style."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mastaba_viewer.kinds import is_picture
from mastaba_viewer.sources.common import (
    data_formats,
    document,
    geotiff_format,
    map_crs,
    map_limits,
    picture_formats,
    publisher,
    with_query,
)

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer, Style
    from mastaba.api.services import Site

_EXTENT: Final = {"CRS": "{CRS}", "BBOX": "{BBOX}", "WIDTH": "{WIDTH}", "HEIGHT": "{HEIGHT}"}
_LEGEND_FORMAT: Final = "image/png"


def wms_source(layer: Layer, site: Site) -> dict[str, Any] | None:
    """Return the source, or None if WMS does not publish the layer."""
    service = publisher("wms", layer, site)
    # A comma separates names in LAYERS.
    if service is None or layer.is_vector or "," in layer.id:
        return None
    uri = service.settings.endpoint_uri
    styles = (_style(layer, style, uri, site) for style in layer.styles)
    parameters = {"SERVICE": "WMS", "REQUEST": "GetCapabilities"}
    return {
        "id": "wms",
        "title": "WMS",
        "type": "maps",
        "crs": map_crs(layer, site),
        "limits": map_limits(site),
        "geotiff": geotiff_format(site),
        "styles": [style for style in styles if style is not None],
        "info": _feature_info(layer, uri, site),
        "documents": [document("Capabilities", with_query(uri, parameters, {}))],
    }


def get_map(layer: Layer, style: str, uri: str) -> str:
    """Return the template of a GetMap request."""
    parameters = _common(layer, style, "GetMap")
    places = {**_EXTENT, "FORMAT": "{FORMAT}", "TRANSPARENT": "{TRANSPARENT}"}
    return with_query(uri, parameters, places)


def _style(layer: Layer, style: Style, uri: str, site: Site) -> dict[str, Any] | None:
    picture = is_picture(layer, style)
    formats = picture_formats(site) if picture else data_formats(site)
    if not formats or "," in style.identifier:
        return None
    found = {
        "style": style.identifier,
        "draws": "image" if picture else None,
        "formats": formats,
        "template": get_map(layer, style.identifier, uri),
    }
    if style.palette is not None and _LEGEND_FORMAT in formats:
        parameters = {
            "SERVICE": "WMS",
            "VERSION": "1.3.0",
            "REQUEST": "GetLegendGraphic",
            "LAYER": layer.id,
            "STYLE": style.identifier,
            "FORMAT": _LEGEND_FORMAT,
        }
        found["legend"] = with_query(uri, parameters, {})
    return found


def _feature_info(layer: Layer, uri: str, site: Site) -> str | None:
    formats = [*picture_formats(site), *data_formats(site)]
    if layer.feature_info is None or not formats or ("wms", "info") in layer.withheld:
        return None
    parameters = _common(layer, "", "GetFeatureInfo") | {
        "QUERY_LAYERS": layer.id,
        "INFO_FORMAT": "application/json",
        "FORMAT": formats[0],
    }
    return with_query(uri, parameters, {**_EXTENT, "I": "{I}", "J": "{J}"})


def _common(layer: Layer, style: str, operation: str) -> dict[str, str]:
    return {
        "SERVICE": "WMS",
        "VERSION": "1.3.0",
        "REQUEST": operation,
        "LAYERS": layer.id,
        "STYLES": style,
    }
