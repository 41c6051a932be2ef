"""Where the services of this server give a layer: what the map and the request URLs are made of.

A source is an object of JSON:

``id``, ``title``
    ``tms``, ``wmts``, ``ogcapi-tiles``, ``wms`` or ``ogcapi-maps``, and its name for people.
``type``
    ``tiles``, or ``maps`` that are drawn for any extent.
``styles``
    One object for each look that it can give: ``style`` is the identifier, or null for data as
    stored; ``draws`` the kind of what comes (see `kinds.kind`), or null for what no browser shows;
    ``template`` the URL, with placeholders in braces; ``rest`` one of another binding, and
    ``legend`` the URL of a picture, where there are any; ``formats`` of maps.
``sets``
    Of tiles: names of the tile matrix sets in URLs, by identifier.
``crs``, ``limits``
    Of maps: codes that may be asked for, and what one map may take.
``documents``
    Labels and URLs of descriptions, which may have placeholders too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mastaba_viewer.sources.ogcapi import map_source, tile_source
from mastaba_viewer.sources.tms import tms_source
from mastaba_viewer.sources.wms import wms_source
from mastaba_viewer.sources.wmts import wmts_source

if TYPE_CHECKING:
    from mastaba.model.layer import Layer
    from mastaba.service import Site


def sources(layer: Layer, site: Site) -> list[dict[str, Any]]:
    """Return the sources of a layer: stored tiles first, which cost the server least."""
    makers = (tms_source, wmts_source, tile_source, wms_source, map_source)
    found = (make(layer, site) for make in makers)
    return [source for source in found if source is not None]
