"""Leaflet: a page with XYZ tiles, with maps of layers in other grids, or with heights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba_viewer.kinds import kind
from mastaba_viewer.snippets.html import html, js

if TYPE_CHECKING:
    from mastaba_viewer.snippets.offer import Offer


def page(offer: Offer) -> str | None:
    """Return the page, for images that browsers decode and for heights."""
    layer, before = offer.layer, ""
    credit = f"attribution: {js(offer.attribution_html)}"
    if offer.heights:
        before, tiles = _heights(offer), "new Heights(options)"
    elif offer.maps is not None:
        uri, media_type = offer.maps
        tiles = f"""L.tileLayer.wms({js(uri)}, {{
  layers: {js(layer.id)},
  format: {js(media_type)},
  transparent: true,
  {credit},
}})"""
    elif offer.tiles and kind(layer) == "image":
        first, last = offer.zooms
        tiles = f"""L.tileLayer({js(offer.tiles)}, {{
  minZoom: {first},
  maxNativeZoom: {last},
  {credit},
}})"""
    else:
        return None
    west, south, east, north = offer.degrees
    box = js([[south, west], [north, east]])
    code = f"""{before}const map = L.map("map");
{tiles}.addTo(map);
map.fitBounds({box});"""
    library = "leaflet@1.9.4/dist/leaflet"
    return html(layer, f"{library}.js", f"{library}.css", code)


def _heights(offer: Offer) -> str:
    """Return a class of layers that shade heights, and its options."""
    first, last = offer.zooms
    west, south, east, north = offer.degrees
    return f"""// The tiles contain heights as colours: see https://github.com/tilezen/joerd.
const Heights = L.GridLayer.extend({{
  createTile(place, done) {{
    const tile = Object.assign(document.createElement("canvas"), {{ width: 256, height: 256 }});
    const image = Object.assign(new Image(), {{ crossOrigin: "anonymous" }});
    image.onerror = () => done(null, tile);
    image.onload = () => {{
      const context = tile.getContext("2d");
      context.drawImage(image, 0, 0);
      const pixels = context.getImageData(0, 0, 256, 256);
      const {{ data }} = pixels;
      const heights = Float32Array.from({{ length: 256 * 256 }}, (_, at) =>
        data[4 * at] * 256 + data[4 * at + 1] + data[4 * at + 2] / 256 - 32768);
      const metres = 40075016 / 256 / 2 ** place.z;
      heights.forEach((height, at) => {{
        const right = heights[at % 256 < 255 ? at + 1 : at] - height;
        const below = heights[at < 65280 ? at + 256 : at] - height;
        const grey = 190 + 260 * Math.max(-0.7, Math.min(0.25, (right + below) / metres));
        data.fill(grey, 4 * at, 4 * at + 3);
      }});
      context.putImageData(pixels, 0, 0);
      done(null, tile);
    }};
    image.src = L.Util.template({js(offer.heights)}, place);
    return tile;
  }},
}});
const options = {{
  minZoom: {first},
  maxNativeZoom: {last},
  bounds: {js([[south, west], [north, east]])},
  attribution: {js(offer.attribution_html)},
}};
"""
