"""The landing page (OGC API Common, 19-072 clause 7.2; OGC API Maps, 20-058 clause 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mastaba.api.catalogue import geographic_extent
from mastaba_ogcapi.links import RELS, metadata_links
from mastaba_ows.boxes import bounds
from mastaba_ows.crs import CRS84_URI, crs_uri
from mastaba_ows.links import HTML, JSON, OPENAPI, REL, Link, link

if TYPE_CHECKING:
    from mastaba.api.catalogue import BoundingBox
    from mastaba_ogcapi.dataset import Dataset

OPENAPI_YAML: Final = "application/vnd.oai.openapi;version=3.0"


def landing_page(dataset: Dataset) -> dict[str, Any]:
    """Return the landing page."""
    settings = dataset.settings
    content: dict[str, Any] = {"title": settings.title, "description": settings.abstract}
    if settings.keywords:
        content["keywords"] = list(settings.keywords)
    box = geographic_extent(item.layer for item in dataset.collections.values())
    if box is not None:
        content["extent"] = spatial_extent(box)
    if dataset.has_dataset_map:
        content["crs"] = [crs_uri(code) for code in dataset.dataset_crs]
    content["links"] = _links(dataset)
    return content


def spatial_extent(bbox: BoundingBox) -> dict[str, Any]:
    """Return the ``extent`` member for a box in degrees."""
    return {"spatial": {"bbox": [bounds(bbox)], "crs": CRS84_URI}}


def _links(dataset: Dataset) -> list[Link]:
    uri = dataset.uri
    conformance, collections = f"{uri}/conformance?f=json", f"{uri}/collections?f=json"
    links = [
        link(uri, "self", JSON, dataset.settings.title),
        link(f"{uri}?f=html", "alternate", HTML, "This page for people"),
        link(f"{uri}/api?f=json", "service-desc", OPENAPI, "Definition of the API"),
        link(f"{uri}/api?f=yaml", "service-desc", OPENAPI_YAML, "Definition of the API in YAML"),
        link(f"{uri}/api?f=json", "service-meta", OPENAPI, "Limits of the API"),
        link(f"{uri}/api?f=html", "service-doc", HTML, "Operations of the API"),
        link(conformance, f"{REL}/conformance", JSON, "Conformance classes"),
        link(conformance, "conformance", JSON, "Conformance classes"),
        link(collections, f"{REL}/data", JSON, "Collections"),
        link(collections, "data", JSON, "Collections"),
        link(f"{uri}/tileMatrixSets?f=json", f"{REL}/tiling-schemes", JSON, "Tile matrix sets"),
    ]
    if dataset.stylesheets:
        links.append(link(f"{uri}/styles?f=json", f"{REL}/styles", JSON, "Styles"))
    if dataset.has_dataset_map:
        links += [
            link(f"{uri}/map", f"{base}/map", "image/png", "Map of the dataset")
            for base in (REL, RELS)
        ]
    viewer = dataset.site.services.get("viewer")
    if viewer is not None:
        links.append(link(viewer.settings.endpoint_uri, "preview", HTML, viewer.settings.title))
    metadata = dataset.settings.metadata
    return links + metadata_links([metadata] if metadata else [])
