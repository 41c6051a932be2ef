"""OpenLayers: a page that reads the capabilities of WMTS or a style, or shows heights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mastaba_viewer.snippets.html import html, js

if TYPE_CHECKING:
    from mastaba_viewer.snippets.offer import Offer

_LIBRARY: Final = "ol@10.6.1"
_STYLES: Final = "ol-mapbox-style@13.9.0/dist/olms.js"


def page(offer: Offer) -> str | None:
    """Return the page, for images in Web Mercator, heights, and vector tiles with a style."""
    layer = offer.layer
    if offer.stylesheet:
        return _styled(offer)
    if offer.heights:
        before = _heights(offer)
    elif offer.wmts and offer.is_web_mercator and layer.pyramid.format.sample != "float32":
        before = _tiles(offer)
    else:
        return None
    code = f"""{before}const map = new ol.Map({{
  target: "map",
  layers: [layer],
  view: new ol.View({{ center: [0, 0], zoom: 1 }}),
}});
const extent = ol.proj.transformExtent({js(offer.degrees)}, "CRS:84", "EPSG:3857");
map.getView().fit(extent);"""
    return html(layer, f"{_LIBRARY}/dist/ol.js", f"{_LIBRARY}/ol.css", code, module=True)


def _styled(offer: Offer) -> str:
    code = f"""const map = await olms.apply("map", {js(offer.stylesheet)});
const extent = ol.proj.transformExtent({js(offer.degrees)}, "CRS:84", "EPSG:3857");
map.getView().fit(extent);"""
    return html(
        offer.layer, f"{_LIBRARY}/dist/ol.js {_STYLES}", f"{_LIBRARY}/ol.css", code, module=True
    )


def _tiles(offer: Offer) -> str:
    return f"""const answer = await fetch({js(offer.capabilities)});
const capabilities = new ol.format.WMTSCapabilities().read(await answer.text());
const options = ol.source.WMTS.optionsFromCapabilities(capabilities, {{
  layer: {js(offer.layer.id)},
}});
const source = new ol.source.WMTS({{ ...options, attributions: {js(offer.attribution_html)} }});
const layer = new ol.layer.Tile({{ source }});
"""


def _heights(offer: Offer) -> str:
    """Return a layer that colours heights, which tiles contain as colours of their own."""
    first, last = offer.zooms
    return f"""// The tiles contain heights as colours: see https://github.com/tilezen/joerd.
const source = new ol.source.XYZ({{
  url: {js(offer.heights)},
  minZoom: {first},
  maxZoom: {last},
  crossOrigin: "anonymous",
  interpolate: false,
  attributions: {js(offer.attribution_html)},
}});
const bands = [1, 2, 3].map((band, at) => ["*", 255 * 256 ** (1 - at), ["band", band]]);
const height = ["-", ["+", ...bands], 32768];
const layer = new ol.layer.WebGLTile({{
  source,
  style: {{
    color: [
      "interpolate", ["linear"], height,
      -4000, "#2c5480", -1, "#bed6e2",
      0, "#688f6a", 800, "#dbd09e", 2000, "#be9871", 4000, "#f5f3f0",
    ],
  }},
}});
"""
