"""The description of one collection (20-024 clause 8.3; 20-058 clause 10; ogcapi.md section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mastaba.api.catalogue import CRS84
from mastaba_ogcapi.coverages.documents import coverage_links, spatial_grid
from mastaba_ogcapi.crs import in_axis_order
from mastaba_ogcapi.dimensions import MOST_COORDINATES, count_of_coordinates, further_extent
from mastaba_ogcapi.landing import spatial_extent
from mastaba_ogcapi.links import RELS, collection_address, metadata_links, template
from mastaba_ows.boxes import rounded
from mastaba_ows.crs import crs_uri
from mastaba_ows.links import HTML, JSON, REL, Link, link, self_links

if TYPE_CHECKING:
    from mastaba_ogcapi.dataset import Collection, Dataset


def collection_document(
    dataset: Dataset, collection: Collection, offset: int = 0
) -> dict[str, Any]:
    """Return the description of a collection.

    Args:
        offset: position of the first value of each dimension that is listed.
    """
    layer = collection.layer
    pyramid = layer.pyramid
    native = pyramid.tile_matrix_set.crs
    finest, coarsest = pyramid.finest.matrix, pyramid.coarsest.matrix
    content: dict[str, Any] = {
        "id": collection.id,
        "title": layer.title,
        "description": layer.abstract,
    }
    if layer.keywords:
        content["keywords"] = list(layer.keywords)
    if layer.attribution:
        content["attribution"] = layer.attribution.title
    extent = spatial_extent(layer.geographic_bbox)
    if native.code != CRS84:
        extent["spatial"]["storageCrsBbox"] = [in_axis_order(layer.native_bbox, native)]
    if collection.has_coverage:
        extent["spatial"] |= spatial_grid(collection.coverage)
    if layer.dimensions:
        extent |= further_extent(dataset, layer, offset)
    codes = collection.crs if not layer.is_vector else (native.code,)
    content |= {
        "extent": extent,
        "dataType": "vector" if layer.is_vector else "map",
        "mapTiles": collection.has_map_tiles,
        "dataTiles": collection.has_vector_tiles,
        "crs": [crs_uri(code) for code in codes],
        "storageCrs": crs_uri(native.code),
        "minCellSize": rounded(finest.cell_size),
        "maxCellSize": rounded(coarsest.cell_size),
        "minScaleDenominator": rounded(finest.scale_denominator(native)),
        "maxScaleDenominator": rounded(coarsest.scale_denominator(native)),
        "links": _links(dataset, collection, offset) + _further_values(dataset, collection, offset),
    }
    return content


def _further_values(dataset: Dataset, collection: Collection, offset: int) -> list[Link]:
    """Return the links to the values of dimensions before and after those that are listed."""
    href = collection_address(dataset.uri, collection.id)
    places = {}
    if offset:
        places["prev"] = max(0, offset - MOST_COORDINATES)
    if count_of_coordinates(dataset, collection.layer) > offset + MOST_COORDINATES:
        places["next"] = offset + MOST_COORDINATES
    return [
        link(f"{href}?f=json&offset={place}", rel, JSON, "Further values of dimensions")
        for rel, place in places.items()
    ]


def _links(dataset: Dataset, collection: Collection, offset: int) -> list[Link]:
    layer = collection.layer
    href = collection_address(dataset.uri, collection.id)
    own = self_links(href, layer.title)
    if offset:
        own = [link(f"{href}?f=json&offset={offset}", "self", JSON, layer.title)]
    links = [*own, *metadata_links(layer.metadata)]
    tilesets = None
    if collection.has_map_tiles:
        tilesets = link(f"{href}/map/tiles?f=json", f"{REL}/tilesets-map", JSON, "Map tiles")
    elif collection.has_vector_tiles:
        tilesets = link(f"{href}/tiles?f=json", f"{REL}/tilesets-vector", JSON, "Vector tiles")
    if tilesets:
        links.append(tilesets)
    if collection.has_map:
        links += _map_links(dataset, collection, href)
    if collection.has_coverage:
        links += coverage_links(dataset, collection)
    if not layer.is_vector or collection.stylesheets:
        links.append(link(f"{href}/styles?f=json", f"{REL}/styles", JSON, "Styles"))
    links += _elevation_links(dataset, collection)
    viewer = dataset.site.services.get("viewer")
    if viewer is not None:
        page = f"{viewer.settings.endpoint_uri}/{quote(layer.key, safe='')}"
        links.append(link(page, "preview", HTML, "On a map"))
    # Links as in existing servers, for clients that use only these.
    if tilesets:
        links.append(link(tilesets["href"], "describedby", JSON, tilesets["title"]))
    if collection.has_map:
        natural = collection.natural_format(layer.default_style)
        media_type = natural.media_type if natural else "image/png"
        links.append(template(f"{href}/map?f={{format}}", "map", media_type, "Map"))
    return links


def _elevation_links(dataset: Dataset, collection: Collection) -> list[Link]:
    """Return a link to the heights of a layer in OGC API EDR, if they are published there."""
    layer, service = collection.layer, dataset.site.services.get("elevation")
    raster = layer.pyramid.raster
    if service is None or raster is None or service.name in layer.hidden_from:
        return []
    is_height = layer.pyramid.format.sample == "float32" and raster.channels == 1
    if not is_height or service.settings.own.get("facades", {}).get("edr", True) is False:
        return []
    page = f"{service.settings.endpoint_uri}/edr/collections/{quote(layer.key, safe='')}"
    return [link(page, "related", JSON, "Heights")]


def _map_links(dataset: Dataset, collection: Collection, href: str) -> list[Link]:
    layer = collection.layer
    links = []
    natural = collection.natural_format(layer.default_style)
    if natural is not None:
        links += [
            link(f"{href}/map", f"{base}/map", natural.media_type, "Map") for base in (REL, RELS)
        ]
        if not natural.is_picture:
            # Clients that show pictures look for a link of that type.
            links += [
                link(
                    f"{href}/map?f={item.name}", f"{REL}/map", item.media_type, f"Map: {item.name}"
                )
                for item in dataset.formats.all
                if item.is_picture
            ]
    for style in layer.styles:
        styled = collection.natural_format(style)
        if styled is not None:
            address = collection_address(
                dataset.uri, collection.id, "styles", style.identifier, "map"
            )
            links.append(link(address, f"{REL}/map", styled.media_type, f"Map: {style.title}"))
    return links
