"""Tile matrix sets (OGC 17-083r4 clauses 6 and 7; ogcapi.md section 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mastaba_ogcapi.crs import ordered_axes, resolvable_crs
from mastaba_ogcapi.links import address
from mastaba_ogcapi.registered import registered_uri
from mastaba_ows.boxes import rounded
from mastaba_ows.crs import crs_uri
from mastaba_ows.links import JSON, REL, Link, link, self_links

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, TileMatrix, TileMatrixSet
    from mastaba_ogcapi.dataset import Dataset


def tile_matrix_sets_document(dataset: Dataset) -> dict[str, Any]:
    """Return the list of tile matrix sets.

    Sets of the OGC register are there twice: clients look for their registered names.
    """
    named = [*dataset.tile_matrix_sets.items(), *dataset.aliases.items()]
    return {
        "links": self_links(f"{dataset.uri}/tileMatrixSets", "Tile matrix sets"),
        "tileMatrixSets": [_item(dataset, *item) for item in named],
    }


def tile_matrix_set_document(dataset: Dataset, identifier: str) -> dict[str, Any]:
    """Return the definition of a set by its identifier or registered name.

    Raises:
        UnknownPathError: there is no such set.
    """
    tile_matrix_set = dataset.tile_matrix_set(identifier)
    crs = tile_matrix_set.crs
    content: dict[str, Any] = {"id": identifier, "title": tile_matrix_set.title or identifier}
    if tile_matrix_set.abstract:
        content["description"] = tile_matrix_set.abstract
    if tile_matrix_set.keywords:
        content["keywords"] = list(tile_matrix_set.keywords)
    name = dataset.registered_names.get(tile_matrix_set.id)
    if name:
        content["uri"] = registered_uri(name)
    if tile_matrix_set.scale_set:
        content["wellKnownScaleSet"] = tile_matrix_set.scale_set
    return content | {
        # Members from the first edition of the standard (OGC 17-083r2), here and in the matrices:
        # clients written for it, such as GDAL before 3.8, read no others.
        "type": "TileMatrixSetType",
        "identifier": identifier,
        "supportedCRS": resolvable_crs(crs.code),
        "crs": crs_uri(crs.code),
        "orderedAxes": ordered_axes(crs),
        "links": self_links(address(dataset.uri, "tileMatrixSets", identifier), content["title"]),
        "tileMatrices": [_tile_matrix(matrix, crs) for matrix in tile_matrix_set.matrices.values()],
    }


def definition_uri(dataset: Dataset, tile_matrix_set: TileMatrixSet) -> str:
    """Return ``tileMatrixSetURI``: the registered URI, or the address of our definition."""
    name = dataset.registered_names.get(tile_matrix_set.id)
    return registered_uri(name) if name else definition_address(dataset, tile_matrix_set.id)


def definition_address(dataset: Dataset, identifier: str) -> str:
    """Return the address of our definition of a set."""
    return f"{address(dataset.uri, 'tileMatrixSets', identifier)}?f=json"


def _item(dataset: Dataset, identifier: str, tile_matrix_set: TileMatrixSet) -> dict[str, Any]:
    href = definition_address(dataset, identifier)
    title = tile_matrix_set.title or identifier
    links: list[Link] = [
        link(href, rel, JSON, title) for rel in ("self", f"{REL}/tiling-scheme", "describedby")
    ]
    item: dict[str, Any] = {"id": identifier, "title": title}
    name = dataset.registered_names.get(tile_matrix_set.id)
    if name:
        item["uri"] = registered_uri(name)
    return item | {"crs": crs_uri(tile_matrix_set.crs.code), "links": links}


def _tile_matrix(matrix: TileMatrix, crs: CRS) -> dict[str, Any]:
    origin = [rounded(matrix.origin_x), rounded(matrix.origin_y)]
    if crs.northing_first:
        origin.reverse()
    return {
        "id": matrix.id,
        "identifier": matrix.id,
        "scaleDenominator": rounded(matrix.scale_denominator(crs)),
        "cellSize": rounded(matrix.cell_size),
        "cornerOfOrigin": "topLeft",
        "pointOfOrigin": origin,
        "topLeftCorner": origin,
        "tileWidth": matrix.tile_width,
        "tileHeight": matrix.tile_height,
        "matrixWidth": matrix.matrix_width,
        "matrixHeight": matrix.matrix_height,
    }
