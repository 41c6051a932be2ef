"""Leaflet: a page with XYZ tiles, or with maps of layers that are not in Web Mercator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba_viewer.kinds import kind
from mastaba_viewer.snippets.html import html, js

if TYPE_CHECKING:
    from mastaba_viewer.snippets.offer import Offer


def page(offer: Offer) -> str | None:
    """Return the page, for images that browsers decode."""
    layer = offer.layer
    if offer.maps is not None:
        uri, media_type = offer.maps
        tiles = f"""L.tileLayer.wms({js(uri)}, {{
  layers: {js(layer.id)},
  format: {js(media_type)},
  transparent: true,
}})"""
    elif offer.tiles and kind(layer) == "image":
        first, last = offer.zooms
        tiles = f"L.tileLayer({js(offer.tiles)}, {{ minZoom: {first}, maxNativeZoom: {last} }})"
    else:
        return None
    west, south, east, north = offer.degrees
    code = f"""const map = L.map("map");
{tiles}.addTo(map);
map.fitBounds({js([[south, west], [north, east]])});"""
    library = "leaflet@1.9.4/dist/leaflet"
    return html(layer, f"{library}.js", f"{library}.css", code)
