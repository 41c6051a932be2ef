"""The TileMapService resource: the list of layers (tms.md section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mastaba.api.web import Document
from mastaba_ows.contact import add_contact
from mastaba_ows.dimensions import with_further_names
from mastaba_ows.xml import add, root_element, serialized
from mastaba_tms.addresses import VERSION, tile_map_href
from mastaba_tms.offered import tile_maps_of
from mastaba_tms.tilemap import add_description, add_metadata

if TYPE_CHECKING:
    from mastaba.api.catalogue import Catalogue, Layer
    from mastaba.api.services import ServiceSettings


def tile_map_service(
    service: ServiceSettings, catalogue: Catalogue, layers: Iterable[Layer]
) -> Document:
    """Return the document.

    Args:
        service: gives the title, address and other settings of this service.
        catalogue: gives the provider and contact, and further names of values.
        layers: the published layers, in order.
    """
    root = root_element("TileMapService", {"version": VERSION, "services": service.endpoint_uri})
    add_description(root, service.title, service.abstract, service.keywords)
    add_contact(root, catalogue.settings, whole_parts=False)
    if service.metadata:
        add_metadata(root, service.metadata)
    tile_maps = add(root, "TileMaps")
    listed = with_further_names(layers, catalogue)
    for tile_map in (tile_map for layer in listed for tile_map in tile_maps_of(layer)):
        attributes = {
            "title": tile_map.layer.title,
            "srs": tile_map.tile_matrix_set.crs.code,
            "profile": "none",
            "extension": tile_map.layer.pyramid.format.extension,
            "href": tile_map_href(service.endpoint_uri, tile_map),
        }
        add(tile_maps, "TileMap", attributes=attributes)
    return Document(serialized(root, indented=True), "text/xml")
