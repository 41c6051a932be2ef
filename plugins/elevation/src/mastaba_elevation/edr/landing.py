"""Landing page and conformance classes (19-086r6 clause 8.2; elevation.md 2.2, 2.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mastaba_elevation.edr.names import HTML, JSON, OPENAPI, collection_uri, link
from mastaba_elevation.web.pages import Section, page

if TYPE_CHECKING:
    from mastaba.api.web import Document
    from mastaba_elevation.web.facade import Context

_EDR: Final = ("core", "collections", "queries", "json", "covjson", "oas30", "html")
_GEOJSON: Final = "edr-geojson"
"""Not of version 1.0, whose test suite has the class by another name."""
_VERSIONS: Final = (
    ("http://www.opengis.net/spec/ogcapi-edr-1/1.0/conf", _EDR),
    ("http://www.opengis.net/spec/ogcapi-edr-1/1.1/conf", (*_EDR, _GEOJSON)),
    ("https://www.opengis.net/spec/ogcapi-edr-1/1.2/conf", (*_EDR, _GEOJSON)),
    (
        "http://www.opengis.net/spec/ogcapi-common-1/1.0/conf",
        ("core", "landing-page", "json", "oas30"),
    ),
    ("http://www.opengis.net/spec/ogcapi-common-2/1.0/conf", ("collections",)),
)


def landing_page(context: Context, uri: str) -> dict[str, Any]:
    """Return the landing page."""
    service, settings = context.service, context.site.catalogue.settings
    contact = settings.contact
    content: dict[str, Any] = {
        "title": service.title,
        "description": service.abstract,
        "links": [
            link(uri, "self", JSON, service.title),
            link(f"{uri}/api", "service-desc", OPENAPI, "Definition of the API"),
            link(f"{uri}/api?f=html", "service-doc", HTML, "Operations of the API"),
            link(f"{uri}/conformance", "conformance", JSON, "Conformance classes"),
            link(f"{uri}/collections", "data", JSON, "Collections"),
        ],
    }
    if service.keywords:
        content["keywords"] = list(service.keywords)
    if settings.provider:
        content["provider"] = {"name": settings.provider}
        if settings.site:
            content["provider"]["url"] = settings.site
    known = {
        "email": contact.email,
        "phone": contact.voice,
        "fax": contact.facsimile,
        "address": contact.delivery_point,
        "postalCode": contact.post_code,
        "city": contact.city,
        "stateorprovince": contact.administrative_area,
        "country": contact.country,
    }
    filled = {key: value for key, value in known.items() if value}
    if filled:
        content["contact"] = filled
    return content


def start_page(context: Context, uri: str) -> Document:
    """Return the landing page for people."""
    links = [
        (f"{uri}/api?f=html", "Queries to try"),
        (f"{uri}/collections", "Collections"),
        (f"{uri}/api", "Definition in OpenAPI 3.0"),
        (f"{uri}/conformance", "Conformance classes"),
    ]
    collections = [
        (collection_uri(uri, dataset), dataset.title) for dataset in context.datasets.values()
    ]
    sections = [
        Section("OGC API – Environmental Data Retrieval", "", links),
        Section("Collections", "Each has heights of points, lines and areas.", collections),
    ]
    return page(context.service.title, context.service.abstract, sections)


def conformance() -> dict[str, Any]:
    """Return the conformance classes."""
    return {"conformsTo": [f"{base}/{name}" for base, names in _VERSIONS for name in names]}
