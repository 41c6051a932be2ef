"""The TileMapService resource: the list of layers (tms.md section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lxml import etree

from mastaba_tms.addresses import VERSION, layer_href
from mastaba_tms.xml import add, add_keywords, add_metadata, add_text, document

if TYPE_CHECKING:
    from mastaba.model.layer import Layer
    from mastaba.model.settings import ServiceSettings, Settings
    from mastaba.web.response import Document


def tile_map_service(
    service: ServiceSettings, settings: Settings, layers: Iterable[Layer]
) -> Document:
    """Return the document.

    Args:
        service: gives the title, address and other settings of this service.
        settings: give the provider and contact.
        layers: the published layers, in order.
    """
    root = etree.Element("TileMapService", version=VERSION, services=service.endpoint_uri)
    add(root, "Title", service.title)
    add(root, "Abstract", service.abstract)
    add_keywords(root, service.keywords)
    _add_contact(root, settings)
    if service.metadata:
        add_metadata(root, service.metadata)
    tile_maps = add(root, "TileMaps")
    for layer in layers:
        add(
            tile_maps,
            "TileMap",
            title=layer.title,
            srs=layer.pyramid.tile_matrix_set.crs.code,
            profile="none",
            extension=layer.pyramid.format.extension,
            href=layer_href(service.endpoint_uri, layer),
        )
    return document(root)


def _add_contact(root: etree._Element, settings: Settings) -> None:
    """Append ``ContactInformation`` as in WMS 1.1.1 and later, without empty parts."""
    contact = settings.contact
    information = etree.Element("ContactInformation")
    person = etree.Element("ContactPersonPrimary")
    add_text(person, "ContactPerson", contact.name)
    add_text(person, "ContactOrganization", settings.provider)
    _append_filled(information, person)
    add_text(information, "ContactPosition", contact.position)
    address = etree.Element("ContactAddress")
    add_text(address, "AddressType", contact.address_type)
    add_text(address, "Address", contact.delivery_point)
    add_text(address, "City", contact.city)
    add_text(address, "StateOrProvince", contact.administrative_area)
    add_text(address, "PostCode", contact.post_code)
    add_text(address, "Country", contact.country)
    _append_filled(information, address)
    add_text(information, "ContactVoiceTelephone", contact.voice)
    add_text(information, "ContactFacsimileTelephone", contact.facsimile)
    add_text(information, "ContactElectronicMailAddress", contact.email)
    _append_filled(root, information)


def _append_filled(parent: etree._Element, element: etree._Element) -> None:
    if len(element):
        parent.append(element)
