"""The provider of a service, as documents of OWS Common have it (OGC 06-121r3 and r9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba_ows.xml import XLINK, Element, add, add_filled

if TYPE_CHECKING:
    from mastaba.api.services import Contact, Settings


def add_provider(parent: Element, settings: Settings, namespace: str) -> None:
    """Append ``ServiceProvider``.

    Args:
        namespace: URI of a version of OWS Common in braces.
    """
    section = add(parent, f"{namespace}ServiceProvider")
    add(section, f"{namespace}ProviderName", settings.provider)
    if settings.site:
        attributes = {f"{XLINK}href": settings.site}
        add(section, f"{namespace}ProviderSite", attributes=attributes)
    _add_contact(section, settings.contact, namespace)


def _add_contact(section: Element, contact: Contact, namespace: str) -> None:
    phone = (f"{namespace}Voice", contact.voice), (f"{namespace}Facsimile", contact.facsimile)
    address = (
        (f"{namespace}DeliveryPoint", contact.delivery_point),
        (f"{namespace}City", contact.city),
        (f"{namespace}AdministrativeArea", contact.administrative_area),
        (f"{namespace}PostalCode", contact.post_code),
        (f"{namespace}Country", contact.country),
        (f"{namespace}ElectronicMailAddress", contact.email),
    )
    service_contact = add(section, f"{namespace}ServiceContact")
    add_filled(
        service_contact,
        (f"{namespace}IndividualName", contact.name),
        (f"{namespace}PositionName", contact.position),
    )
    if any(text for _, text in phone + address):
        info = add(service_contact, f"{namespace}ContactInfo")
        for name, texts in (("Phone", phone), ("Address", address)):
            if any(text for _, text in texts):
                add_filled(add(info, namespace + name), *texts)
