"""Cesium: a page with a globe that shows images or heights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mastaba_viewer.kinds import kind
from mastaba_viewer.snippets.html import html, js

if TYPE_CHECKING:
    from mastaba_viewer.snippets.offer import Offer


def page(offer: Offer) -> str | None:
    """Return the page."""
    if offer.terrain:
        first, base, last = _terrain(offer)
    elif offer.tiles and kind(offer.layer) == "image":
        first, base, last = "", _images(offer.tiles, offer.zooms, offer.attribution_html), ""
    else:
        return None
    code = f"""// Cesium does not start from a file on disk. Serve the folder of this page, for
// example with python3 -m http.server, and open it with http.
const rectangle = Cesium.Rectangle.fromDegrees({js(offer.degrees)[1:-1]});
{first}const viewer = new Cesium.Viewer("map", {{
  {base},
  baseLayerPicker: false,
  geocoder: false,
}});
{last}viewer.camera.setView({{ destination: rectangle }});"""
    library = "cesium@1.145/Build/Cesium"
    sheet = f"{library}/Widgets/widgets.css"
    return html(offer.layer, f"{library}/Cesium.js", sheet, code, module=True)


def _images(template: str, zooms: tuple[int, int], credit: str) -> str:
    first, last = zooms
    # Without a rectangle, Cesium asks for all tiles of the first level.
    return f"""baseLayer: new Cesium.ImageryLayer(new Cesium.UrlTemplateImageryProvider({{
    url: {js(template)},
    rectangle,
    minimumLevel: {first},
    maximumLevel: {last},
    credit: {js(credit)},
  }}))"""


def _terrain(offer: Offer) -> tuple[str, str, str]:
    """Return what comes before the viewer, its options, and what comes after it."""
    provider = f"""const terrainProvider = await Cesium.CesiumTerrainProvider.fromUrl(
  {js(f"{offer.terrain}/mesh")},
  {{ requestVertexNormals: true, credit: {js(offer.attribution_html)} }},
);
"""
    images, colours = "baseLayer: false", _COLOURS
    if offer.backdrop is not None:
        images, colours = _images(*offer.backdrop, ""), ""
    return provider, f"{images},\n  terrainProvider", _LIGHT + colours


_LIGHT: Final = """// Light from the north-west of the camera, at any time of day.
const light = new Cesium.DirectionalLight({ direction: new Cesium.Cartesian3(1, 0, 0) });
viewer.scene.light = light;
viewer.scene.globe.enableLighting = true;
viewer.scene.globe.dynamicAtmosphereLighting = false;
viewer.scene.preRender.addEventListener(() => {
  const frame = Cesium.Transforms.eastNorthUpToFixedFrame(viewer.camera.positionWC);
  const away = new Cesium.Cartesian3(1, -1, -1.5);
  Cesium.Matrix4.multiplyByPointAsVector(frame, away, light.direction);
});
"""

_COLOURS: Final = """viewer.scene.globe.baseColor = Cesium.Color.fromCssColorString("#c9c3a5");
"""
