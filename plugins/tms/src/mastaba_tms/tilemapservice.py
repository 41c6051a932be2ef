"""The TileMapService resource: the list of layers (tms.md section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba.api.web import Document
from mastaba.api.xml import add, add_contact, root_element, serialized
from mastaba_tms.addresses import VERSION, layer_href
from mastaba_tms.tilemap import add_description, add_metadata

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import ServiceSettings, Settings


def tile_map_service(
    service: ServiceSettings, settings: Settings, layers: Iterable[Layer]
) -> Document:
    """Return the document.

    Args:
        service: gives the title, address and other settings of this service.
        settings: give the provider and contact.
        layers: the published layers, in order.
    """
    root = root_element("TileMapService", {"version": VERSION, "services": service.endpoint_uri})
    add_description(root, service.title, service.abstract, service.keywords)
    add_contact(root, settings, whole_parts=False)
    if service.metadata:
        add_metadata(root, service.metadata)
    tile_maps = add(root, "TileMaps")
    for layer in layers:
        attributes = {
            "title": layer.title,
            "srs": layer.pyramid.tile_matrix_set.crs.code,
            "profile": "none",
            "extension": layer.pyramid.format.extension,
            "href": layer_href(service.endpoint_uri, layer),
        }
        add(tile_maps, "TileMap", attributes=attributes)
    return Document(serialized(root, indented=True), "text/xml")
