"""The capabilities of version 1.0.0 (OGC 03-065r6 clause 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba.api.web import coordinate
from mastaba_ows.xml import XLINK, XSI, Element, add, add_filled, add_list, root_element
from mastaba_wcs.names import GML_100, WCS_100
from mastaba_wcs.parameters import Operation
from mastaba_wcs.versions import Version

if TYPE_CHECKING:
    from mastaba.api.services import ServiceSettings, Settings
    from mastaba_wcs.published import PublishedCoverage, PublishedCoverages

_NAMESPACES = {
    None: WCS_100.strip("{}"),
    "gml": GML_100.strip("{}"),
    "xlink": XLINK.strip("{}"),
    "xsi": XSI.strip("{}"),
}


def root_100(name: str, schema: str) -> Element:
    """Return the root of a document of version 1.0.0.

    Args:
        name: local name.
        schema: file name of its schema.
    """
    location = f"http://www.opengis.net/wcs http://schemas.opengis.net/wcs/1.0.0/{schema}"
    attributes = {"version": Version.V1_0_0.value, f"{XSI}schemaLocation": location}
    return root_element(WCS_100 + name, attributes, _NAMESPACES)


def add_brief(parent: Element, name: str, published: PublishedCoverage) -> Element:
    """Append what both documents say of a coverage, and return the element.

    Args:
        name: local name of the element.
    """
    layer, box = published.layer, published.layer.geographic_bbox
    element = add(parent, WCS_100 + name)
    for metadata in layer.metadata:
        attributes = {"metadataType": "other", f"{XLINK}href": metadata.url}
        add(element, f"{WCS_100}metadataLink", attributes=attributes)
    add_filled(element, (f"{WCS_100}description", layer.abstract))
    add(element, f"{WCS_100}name", published.id)
    add(element, f"{WCS_100}label", layer.title)
    attributes = {"srsName": "urn:ogc:def:crs:OGC:1.3:CRS84"}
    envelope = add(element, f"{WCS_100}lonLatEnvelope", attributes=attributes)
    add_corners(envelope, box.xmin, box.ymin, box.xmax, box.ymax)
    add_list(element, f"{WCS_100}keywords", f"{WCS_100}keyword", layer.keywords)
    return element


def add_corners(envelope: Element, *numbers: float) -> None:
    """Append the lower and the upper corner of a box; x is always first."""
    texts = [coordinate(number) for number in numbers]
    for corner in (texts[:2], texts[2:]):
        add(envelope, f"{GML_100}pos", " ".join(corner))


def capabilities_100(
    settings: ServiceSettings, general: Settings, published: PublishedCoverages
) -> Element:
    """Return the document.

    Args:
        settings: of the service.
        general: settings common to all services.
    """
    root = root_100("WCS_Capabilities", "wcsCapabilities.xsd")
    _add_service(root, settings, general)
    capability = add(root, f"{WCS_100}Capability")
    request = add(capability, f"{WCS_100}Request")
    attributes = {f"{XLINK}type": "simple", f"{XLINK}href": f"{settings.endpoint_uri}?"}
    for name in Operation:
        place = add(request, WCS_100 + name.value)
        for step in ("DCPType", "HTTP", "Get"):
            place = add(place, WCS_100 + step)
        add(place, f"{WCS_100}OnlineResource", attributes=attributes)
    exception = add(capability, f"{WCS_100}Exception")
    add(exception, f"{WCS_100}Format", "application/vnd.ogc.se_xml")
    contents = add(root, f"{WCS_100}ContentMetadata")
    for one in published.all:
        add_brief(contents, "CoverageOfferingBrief", one)
    return root


def _add_service(root: Element, settings: ServiceSettings, general: Settings) -> None:
    service = add(root, f"{WCS_100}Service")
    add_filled(service, (f"{WCS_100}description", settings.abstract))
    add(service, f"{WCS_100}name", "WCS")
    add(service, f"{WCS_100}label", settings.title)
    add_list(service, f"{WCS_100}keywords", f"{WCS_100}keyword", settings.keywords)
    _add_party(service, general)
    # Libraries read both without looking whether they exist.
    add(service, f"{WCS_100}fees", general.fee or "NONE")
    add(service, f"{WCS_100}accessConstraints", general.access_constraint or "NONE")


def _add_party(service: Element, general: Settings) -> None:
    contact = general.contact
    phone = (("voice", contact.voice), ("facsimile", contact.facsimile))
    address = (
        ("deliveryPoint", contact.delivery_point),
        ("city", contact.city),
        ("administrativeArea", contact.administrative_area),
        ("postalCode", contact.post_code),
        ("country", contact.country),
        ("electronicMailAddress", contact.email),
    )
    if not (contact.name or general.provider):
        return
    party = add(service, f"{WCS_100}responsibleParty")
    names = (
        ("individualName", contact.name),
        ("organisationName", general.provider),
        ("positionName", contact.position),
    )
    add_filled(party, *((WCS_100 + name, text) for name, text in names))
    parts = [("phone", phone), ("address", address)]
    filled = [(name, texts) for name, texts in parts if any(text for _, text in texts)]
    if filled or general.site:
        info = add(party, f"{WCS_100}contactInfo")
        for part, texts in filled:
            add_filled(add(info, WCS_100 + part), *((WCS_100 + name, text) for name, text in texts))
        if general.site:
            attributes = {f"{XLINK}type": "simple", f"{XLINK}href": general.site}
            add(info, f"{WCS_100}onlineResource", attributes=attributes)
