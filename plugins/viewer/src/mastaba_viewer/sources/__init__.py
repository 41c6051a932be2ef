"""Sources: the URLs at which the services of this server publish a layer.

The map and the list of request URLs are built from sources. A source is a JSON object:

``id``, ``title``
    ``tms``, ``wmts``, ``ogcapi-tiles``, ``wms`` or ``ogcapi-maps``, and a display name.
``type``
    ``tiles``, or ``maps`` of any extent.
``styles``
    One object for each style that the source offers. ``style`` is the identifier, or null for
    stored data. ``draws`` is the kind of response (see `kinds.kind`), or null if browsers cannot
    show it. ``template`` is the URL with placeholders in braces. Optional members are ``rest``
    (template of the RESTful binding), ``legend`` (URL of an image) and ``formats`` (of maps).
``sets``
    Tiles only: names of the tile matrix sets in URLs, by identifier.
``crs``, ``limits``
    Maps only: CRS codes that clients may request, and the limits of one map.
``geotiff``
    Maps only: media type of georeferenced maps, or null.
``documents``
    Labels and URLs of metadata documents; the URLs may contain placeholders too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mastaba_viewer.sources.ogcapi import map_source, tile_source
from mastaba_viewer.sources.tms import tms_source
from mastaba_viewer.sources.wms import wms_source
from mastaba_viewer.sources.wmts import wmts_source

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site


def sources(layer: Layer, site: Site) -> list[dict[str, Any]]:
    """Return the sources of a layer. Stored tiles come first: they are cheapest for the server."""
    makers = (tms_source, wmts_source, tile_source, wms_source, map_source)
    found = (make(layer, site) for make in makers)
    return [source for source in found if source is not None]
