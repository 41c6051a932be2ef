"""OpenLayers: a page that reads the capabilities of WMTS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba_viewer.snippets.html import html, js

if TYPE_CHECKING:
    from mastaba_viewer.snippets.offer import Offer


def page(offer: Offer) -> str | None:
    """Return the page, for images in Web Mercator."""
    layer = offer.layer
    if not (offer.wmts and offer.is_web_mercator) or layer.pyramid.format.sample == "float32":
        return None
    code = f"""const answer = await fetch({js(offer.capabilities)});
const capabilities = new ol.format.WMTSCapabilities().read(await answer.text());
const options = ol.source.WMTS.optionsFromCapabilities(capabilities, {{ layer: {js(layer.id)} }});
const source = new ol.source.WMTS(options);
const map = new ol.Map({{
  target: "map",
  layers: [new ol.layer.Tile({{ source }})],
  view: new ol.View({{ center: [0, 0], zoom: 1 }}),
}});
const extent = ol.proj.transformExtent({js(offer.degrees)}, "CRS:84", "EPSG:3857");
map.getView().fit(extent);"""
    return html(layer, "ol@10.6.1/dist/ol.js", "ol@10.6.1/ol.css", code, module=True)
