"""Landing page, conformance classes, and what browsers get instead of documents.

Source: 19-086r6 clause 8.2; elevation.md 2.2, 2.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mastaba_elevation.edr.names import CUBE, OUTPUT, collection_uri, crs_names
from mastaba_elevation.web.pages import page
from mastaba_ows.links import HTML, JSON, OPENAPI, link
from mastaba_server.web.pages import Section

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mastaba.api.web import Document
    from mastaba_elevation.queries.datasets import Dataset
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
        _queries(uri),
        (f"{uri}/collections", "Collections"),
        (f"{uri}/api", "Definition in OpenAPI 3.0"),
        (f"{uri}/conformance", "Conformance classes"),
    ]
    sections = [
        Section("OGC API – Environmental Data Retrieval", "", links),
        _collections(uri, context.datasets.values()),
    ]
    return page(context.service.title, context.service.abstract, sections)


def collections_page(uri: str, datasets: Iterable[Dataset]) -> Document:
    """Return the list of collections for people."""
    return page("Collections", "", [_collections(uri, datasets), _up(uri)])


def collection_page(context: Context, uri: str, dataset: Dataset) -> Document:
    """Return the description of a collection for people."""
    box = dataset.extent
    extent = (
        f"Longitude {box.xmin:.6g} to {box.xmax:.6g}, latitude {box.ymin:.6g} to {box.ymax:.6g} "
        f"degrees. {dataset.vertical.text}, in {dataset.unit}."
    )
    sections = [
        Section("Heights", extent),
        Section("Coordinate reference systems", ", ".join(crs_names(dataset))),
        Section("Formats", ", ".join(OUTPUT[CUBE])),
        Section("Queries", f"By {', '.join(OUTPUT)}.", [_queries(uri)]),
    ]
    licences = [(address, title) for title, address in dataset.attributions if address]
    if licences:
        sections.append(Section("Attribution", "", licences))
    text = dataset.description or context.service.abstract
    return page(dataset.title, text, [*sections, _up(uri)])


def conformance_page(uri: str) -> Document:
    """Return the conformance classes for people."""
    sections = [
        Section(base, "", [(f"{base}/{name}", name) for name in names]) for base, names in _VERSIONS
    ]
    return page("Conformance classes", "", [*sections, _up(uri)])


def _collections(uri: str, datasets: Iterable[Dataset]) -> Section:
    links = [(collection_uri(uri, dataset), dataset.title) for dataset in datasets]
    return Section("Collections", "Each has heights of points, lines and areas.", links)


def _queries(uri: str) -> tuple[str, str]:
    return f"{uri}/api?f=html", "Queries to try"


def _up(uri: str) -> Section:
    return Section("Other pages", "", [(uri, "Start"), (f"{uri}/collections", "Collections")])


def conformance() -> dict[str, Any]:
    """Return the conformance classes."""
    return {"conformsTo": [f"{base}/{name}" for base, names in _VERSIONS for name in names]}
