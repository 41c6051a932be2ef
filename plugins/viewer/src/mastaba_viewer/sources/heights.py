"""Addresses of the services about heights: queries and terrain tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba_viewer.kinds import kind
from mastaba_viewer.sources.common import publisher, segment

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site


def heights(layer: Layer, site: Site) -> dict[str, str]:
    """Return the URLs of the services that publish the heights of a layer.

    Returns:
        ``elevation``, of queries, and ``terrain``, of the layer in the terrain service; without
        those that are off.
    """
    raster = layer.pyramid.raster
    if raster is None or raster.channels != 1 or kind(layer) != "elevation":
        return {}
    queries, terrain = (publisher(name, layer, site) for name in ("elevation", "terrain"))
    found = {}
    if queries is not None:
        found["elevation"] = queries.settings.endpoint_uri
    if terrain is not None:
        found["terrain"] = f"{terrain.settings.endpoint_uri}/{segment(layer.id)}"
    return found
