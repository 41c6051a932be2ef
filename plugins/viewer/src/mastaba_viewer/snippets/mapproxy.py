"""MapProxy: a configuration that serves the tiles again; of heights, those encoded as colours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mastaba_viewer.kinds import kind

if TYPE_CHECKING:
    from mastaba_viewer.snippets.offer import Offer


def configuration(offer: Offer) -> str | None:
    """Return the file, for images that it decodes."""
    url = offer.tiles if kind(offer.layer) == "image" else offer.heights
    if not url:
        return None
    for name in "zxy":
        url = url.replace(f"{{{name}}}", f"%({name})s")
    # Scaled colours would be wrong heights.
    exact = "\n    image: {resampling_method: nearest}" if offer.heights else ""
    credit = f"# {offer.attribution}\n" if offer.attribution else ""
    box = json.dumps(offer.degrees)
    return f"""{credit}services:
  demo:
  wmts:
layers:
  - name: {json.dumps(offer.layer.id)}
    title: {json.dumps(offer.layer.title)}
    sources: [cache]
caches:
  cache:
    grids: [GLOBAL_WEBMERCATOR]
    sources: [tiles]
    format: image/png{exact}
sources:
  tiles:
    type: tile
    grid: GLOBAL_WEBMERCATOR
    url: {json.dumps(url)}
    transparent: true
    coverage: {{bbox: {box}, srs: "EPSG:4326"}}
    # A tile that is not stored is not an error.
    on_error:
      204: {{response: transparent, cache: false}}
      404: {{response: transparent, cache: false}}
"""
