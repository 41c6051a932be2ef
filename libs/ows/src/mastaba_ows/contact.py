"""The contact of the provider, as WMS and TMS documents give it."""

from __future__ import annotations

from mastaba.api.services import Settings
from mastaba_ows.xml import Element, add


def add_contact(
    parent: Element, settings: Settings, namespace: str = "", *, whole_parts: bool
) -> None:
    """Append ``ContactInformation`` without empty parts; nothing if all are empty.

    Args:
        namespace: URI in braces, or an empty string.
        whole_parts: whether person and address contain all of their elements or none (WMS).
    """
    contact = settings.contact
    person = {"ContactPerson": contact.name, "ContactOrganization": settings.provider}
    position = {"ContactPosition": contact.position}
    address = {
        "AddressType": contact.address_type,
        "Address": contact.delivery_point,
        "City": contact.city,
        "StateOrProvince": contact.administrative_area,
        "PostCode": contact.post_code,
        "Country": contact.country,
    }
    others = {
        "ContactVoiceTelephone": contact.voice,
        "ContactFacsimileTelephone": contact.facsimile,
        "ContactElectronicMailAddress": contact.email,
    }
    parts = (
        ("ContactPersonPrimary", person),
        ("", position),
        ("ContactAddress", address),
        ("", others),
    )
    filled = [(group, texts) for group, texts in parts if any(texts.values())]
    if not filled:
        return
    information = add(parent, f"{namespace}ContactInformation")
    for group, texts in filled:
        inside = add(information, namespace + group) if group else information
        for name, text in texts.items():
            if text or (group and whole_parts):
                add(inside, namespace + name, text)
