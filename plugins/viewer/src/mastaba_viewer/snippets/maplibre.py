"""MapLibre GL: a page with pictures, vector tiles or terrain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mastaba_viewer.snippets.html import CDN, html, js

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba_viewer.snippets.offer import Offer

_KINDS: Final = {"POINT": "circle", "LINESTRING": "line", "POLYGON": "fill"}


def page(offer: Offer) -> str | None:
    """Return the page."""
    if offer.terrain:
        options = f"pitch: 60,\n  style: {js(f'{offer.terrain}/style.json')}"
    elif offer.stylesheet:
        options = f"style: {js(offer.stylesheet)}"
    elif offer.tiles:
        # MapLibre GL shows nothing below the first level. Its zoom 0 has 512 pixels, as vector
        # tiles always have there; pictures of 256 pixels are one level finer.
        first = offer.zooms[0]
        lowest = first if offer.layer.is_vector else max(first - 1, 0)
        options = f"minZoom: {lowest},\n  style: {js(_style(offer))}"
    else:
        return None
    library = "maplibre-gl@6/dist/maplibre-gl"
    code = f"""import * as maplibregl from "{CDN}/{library}.mjs";
new maplibregl.Map({{
  container: "map",
  bounds: {js(offer.degrees)},
  {options},
}});"""
    return html(offer.layer, None, f"{library}.css", code)


def _style(offer: Offer) -> dict[str, object]:
    first, last = offer.zooms
    source: dict[str, object] = {"type": "raster", "tiles": [offer.tiles], "tileSize": 256}
    layers = [{"id": "layer", "type": "raster", "source": "layer"}]
    if offer.layer.is_vector:
        source, layers = {"type": "vector", "tiles": [offer.tiles]}, _tables(offer.layer)
    source |= {"minzoom": first, "maxzoom": last, "bounds": offer.degrees}
    if offer.attribution_html:
        source["attribution"] = offer.attribution_html
    return {"version": 8, "sources": {"layer": source}, "layers": layers}


def _tables(layer: Layer) -> list[dict[str, str]]:
    """Return a layer of the style for each table of the vector tiles."""
    tables = {
        table.name: table for level in layer.pyramid.levels.values() for table in level.tables
    }
    return [
        {
            "id": name,
            "type": _KINDS.get(table.geometry.removeprefix("MULTI"), "line"),
            "source": "layer",
            "source-layer": name,
        }
        for name, table in tables.items()
    ]
