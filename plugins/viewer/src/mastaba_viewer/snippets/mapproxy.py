"""MapProxy: a configuration that serves the tiles again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mastaba_viewer.kinds import kind

if TYPE_CHECKING:
    from mastaba_viewer.snippets.offer import Offer


def configuration(offer: Offer) -> str | None:
    """Return the file, for images that it decodes."""
    if not offer.tiles or kind(offer.layer) != "image":
        return None
    url = offer.tiles
    for name in "zxy":
        url = url.replace(f"{{{name}}}", f"%({name})s")
    return f"""services:
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
sources:
  tiles:
    type: tile
    grid: GLOBAL_WEBMERCATOR
    url: {json.dumps(url)}
"""
