"""The parts of the first page about the services and their provider."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from mastaba.api.web import anchor
from mastaba_viewer.texts import text, texts

if TYPE_CHECKING:
    from mastaba.api.services import Service, Settings, Site


def services_section(site: Site, lang: str) -> str:
    """Return the list of services, with links to their pages and documents."""
    rows = [
        _service(service, site, lang)
        for service in site.services.values()
        if service.name != "viewer"
    ]
    return "".join(filter(None, rows))


def _service(service: Service, site: Site, lang: str) -> str:
    entry, page, links = service.root_entry(), service.page_uri(), []
    if page is not None:
        links.append(anchor(page, text("pages", lang)))
    if entry is not None:
        links.append(anchor(entry.json_href or entry.href, text("capabilities", lang)))
    if service.name == "ogcapi":
        links.append(anchor(f"{service.settings.endpoint_uri}/api", text("try", lang)))
    if service.name == "health":
        links.append(anchor(service.settings.endpoint_uri, text("state", lang)))
    if service.name == "usage":
        # With the mark for a credential, without which the style sheet hides the line.
        own = anchor(site.catalogue.services["usage"].endpoint_uri, text("own-usage", lang))
        return f'<li class="own"><b>{escape(_title(service, lang))}</b> {own}</li>\n'
    if not links:
        return ""
    return f"<li><b>{escape(_title(service, lang))}</b> {' '.join(links)}</li>\n"


def _title(service: Service, lang: str) -> str:
    """Return the title of a service; the default ones of our services are translated."""
    title, key = service.settings.title, f"service-{service.name}"
    return texts(lang).get(key, title) if title == texts("en").get(key) else title


def about_section(settings: Settings, lang: str) -> str:
    """Return the terms of a description list: provider, contact and conditions of use."""
    contact = settings.contact
    place = " ".join(filter(None, (contact.post_code, contact.city, contact.country)))
    address = ", ".join(filter(None, (contact.name, contact.delivery_point, place)))
    site = anchor(settings.site, settings.site) if settings.site else ""
    mail = anchor(f"mailto:{contact.email}", contact.email) if contact.email else ""
    found = {
        "provider": " ".join(filter(None, (escape(settings.provider), site))),
        "contact": " ".join(filter(None, (escape(address), mail, escape(contact.voice)))),
        "fee": escape(settings.fee),
        "access": escape(settings.access_constraint),
    }
    return "".join(
        f"<dt>{escape(text(key, lang))}</dt><dd>{value}</dd>\n"
        for key, value in found.items()
        if value
    )
