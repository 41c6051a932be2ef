"""Cesium: a page with a globe that shows images or heights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba_viewer.kinds import kind
from mastaba_viewer.snippets.html import html, js

if TYPE_CHECKING:
    from mastaba_viewer.snippets.offer import Offer


def page(offer: Offer) -> str | None:
    """Return the page."""
    if offer.terrain:
        first, base, last = _terrain(offer.terrain)
    elif offer.tiles and kind(offer.layer) == "image":
        first, base, last = "", _images(offer), ""
    else:
        return None
    west, south, east, north = offer.degrees
    code = f"""// Cesium does not start from a file on disk. Serve the folder of this page, for
// example with python3 -m http.server, and open it with http.
{first}const viewer = new Cesium.Viewer("map", {{
  {base},
  baseLayerPicker: false,
  geocoder: false,
}});
{last}viewer.camera.setView({{
  destination: Cesium.Rectangle.fromDegrees({west}, {south}, {east}, {north}),
}});"""
    library = "cesium@1.145/Build/Cesium"
    sheet = f"{library}/Widgets/widgets.css"
    return html(offer.layer, f"{library}/Cesium.js", sheet, code, module=True)


def _images(offer: Offer) -> str:
    return f"""baseLayer: new Cesium.ImageryLayer(new Cesium.UrlTemplateImageryProvider({{
    url: {js(offer.tiles)},
    maximumLevel: {offer.zooms[1]},
  }}))"""


def _terrain(address: str) -> tuple[str, str, str]:
    """Return what comes before the viewer, its options, and what comes after it."""
    provider = f"""const terrainProvider = await Cesium.CesiumTerrainProvider.fromUrl(
  {js(f"{address}/mesh")},
  {{ requestVertexNormals: true }},
);
"""
    light = """viewer.scene.globe.baseColor = Cesium.Color.WHITE;
viewer.scene.globe.enableLighting = true;
"""
    return provider, "baseLayer: false,\n  terrainProvider", light
