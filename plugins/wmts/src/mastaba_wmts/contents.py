"""The Contents section of capabilities: layers and tile matrix sets (wmts.md 2.1 and 2.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.model.extent import bbox_in
from mastaba.model.layer import Layer
from mastaba.model.style import Legend, Style
from mastaba.model.tile_matrix_set import TileLimits, TileMatrix, TileMatrixSet
from mastaba.model.tile_matrix_set_link import TileMatrixSetLink, links
from mastaba.tiles.styles import listed_styles
from mastaba.web.markup import coordinate, decimal, element, leaf, optional_leaf, text
from mastaba_wmts import rest
from mastaba_wmts.params import INFO_EXTENSIONS, INFO_FORMATS

_SAME_SCALE: Final = 1e-6

CRSName = Callable[[CRS], str]


def contents(layers: Iterable[Layer], restful_uri: str = "", *, crs_names: str = "urn") -> str:
    """Return the ``Contents`` element.

    Args:
        layers: in document order.
        restful_uri: public base URL of the announced RESTful paths; empty to announce none.
        crs_names: form of CRS names, ``urn`` or ``code``.
    """
    crs_name: CRSName = attrgetter(crs_names)
    written = []
    published: dict[str, tuple[TileMatrixSet, tuple[TileMatrix, ...]]] = {}
    native: dict[str, TileMatrixSet] = {}
    for layer in layers:
        tile_matrix_set, pyramid = layer.pyramid.tile_matrix_set, layer.pyramid
        if layer.levels_id not in published:
            top, bottom = pyramid.coarsest.matrix.id, pyramid.finest.matrix.id
            offered = tuple(tile_matrix_set.between(top, bottom))
            published[layer.levels_id] = tile_matrix_set, offered
        native[tile_matrix_set.id] = tile_matrix_set
        extra = links(layer)
        for link in extra:
            published.setdefault(link.levels_id, (link.tile_matrix_set, link.matrices))
        _, offered = published[layer.levels_id]
        written.append(_layer(layer, offered, extra, restful_uri, crs_name))
    for identifier, tile_matrix_set in native.items():
        whole = tile_matrix_set, tuple(tile_matrix_set.matrices.values())
        published.setdefault(identifier, whole)
    sets = [
        _tile_matrix_set(identifier, tile_matrix_set, matrices, crs_name)
        for identifier, (tile_matrix_set, matrices) in sorted(published.items())
    ]
    return element("Contents", *written, *sets)


def keywords(words: Iterable[str]) -> str:
    """Return ``ows:Keywords``, or an empty string without keywords."""
    leaves = [leaf("ows:Keyword", word) for word in words]
    return element("ows:Keywords", *leaves) if leaves else ""


def _layer(
    layer: Layer,
    offered: Iterable[TileMatrix],
    extra: Iterable[TileMatrixSetLink],
    restful_uri: str,
    crs_name: CRSName,
) -> str:
    tile_format = layer.pyramid.format
    crs = layer.pyramid.tile_matrix_set.crs
    denominators = {matrix.scale_denominator(crs) for matrix in offered} | {
        matrix.scale_denominator(link.tile_matrix_set.crs)
        for link in extra
        for matrix in link.matrices
    }
    native = [(level.matrix, level.limits) for level in layer.pyramid.levels.values()]
    is_queryable = layer.feature_info is not None
    boxed = dict.fromkeys([crs, *(link.tile_matrix_set.crs for link in extra)])
    return element(
        "Layer",
        leaf("ows:Title", layer.title),
        optional_leaf("ows:Abstract", layer.abstract),
        keywords(layer.keywords),
        _geographic_bbox(layer.geographic_bbox),
        leaf("ows:Identifier", layer.id),
        *(_bbox(layer, one, crs_name) for one in boxed),
        *(
            element("ows:Metadata", attributes={"xlink:href": metadata.url})
            for metadata in layer.metadata
        ),
        *(
            _style(style, rank == 0, denominators)
            for rank, style in enumerate(listed_styles(layer))
        ),
        leaf("Format", tile_format.media_type),
        *(leaf("InfoFormat", info_format) for info_format in INFO_FORMATS if is_queryable),
        _link(layer.levels_id, native),
        *(
            _link(link.levels_id, zip(link.matrices, link.limits.values(), strict=True))
            for link in extra
        ),
        *(_resources(layer, restful_uri) if restful_uri else ()),
    )


def _resources(layer: Layer, restful_uri: str) -> Iterator[str]:
    tile_format = layer.pyramid.format
    resources = [
        (
            tile_format.media_type,
            "tile",
            rest.tile_template(restful_uri, layer.id, tile_format.extension),
        )
    ]
    if layer.feature_info is not None:
        resources += [
            (
                info_format,
                "FeatureInfo",
                rest.feature_info_template(restful_uri, layer.id, extension),
            )
            for extension, info_format in INFO_EXTENSIONS.items()
        ]
    for media_type, kind, template in resources:
        yield element(
            "ResourceURL",
            attributes={"format": media_type, "resourceType": kind, "template": template},
        )


def _geographic_bbox(bbox: BoundingBox) -> str:
    west, south, east, north = map(coordinate, (bbox.xmin, bbox.ymin, bbox.xmax, bbox.ymax))
    return element(
        "ows:WGS84BoundingBox",
        leaf("ows:LowerCorner", f"{west} {south}"),
        leaf("ows:UpperCorner", f"{east} {north}"),
    )


def _bbox(layer: Layer, crs: CRS, crs_name: CRSName) -> str:
    bbox = bbox_in(layer, crs)
    if bbox is None:
        return ""
    corners = [(bbox.xmin, bbox.ymin), (bbox.xmax, bbox.ymax)]
    lower, upper = (
        " ".join(map(coordinate, reversed(corner) if crs.northing_first else corner))
        for corner in corners
    )
    return element(
        "ows:BoundingBox",
        leaf("ows:LowerCorner", lower),
        leaf("ows:UpperCorner", upper),
        attributes={"crs": crs_name(crs)},
    )


def _style(style: Style, is_default: bool, denominators: set[float]) -> str:
    return element(
        "Style",
        optional_leaf("ows:Title", style.title),
        optional_leaf("ows:Abstract", style.abstract),
        keywords(style.keywords),
        leaf("ows:Identifier", style.identifier),
        _legend(style.legend, denominators) if style.legend else "",
        attributes={"isDefault": "true" if is_default else "false"},
    )


def _legend(legend: Legend, denominators: set[float]) -> str:
    attributes = {"format": legend.media_type, "xlink:href": legend.url}
    if legend.width > 0:
        attributes["width"] = str(legend.width)
    if legend.height > 0:
        attributes["height"] = str(legend.height)
    for name, value in (
        ("minScaleDenominator", legend.min_scale_denominator),
        ("maxScaleDenominator", legend.max_scale_denominator),
    ):
        # Only the exact scale of a linked tile matrix is allowed (07-057r7 table 6); descriptors
        # contain it rounded.
        for denominator in denominators:
            if math.isclose(value, denominator, rel_tol=_SAME_SCALE):
                attributes[name] = decimal(denominator)
    return element("LegendURL", attributes=attributes)


def _link(identifier: str, matrices: Iterable[tuple[TileMatrix, TileLimits]]) -> str:
    return element("TileMatrixSetLink", leaf("TileMatrixSet", identifier), _limits(list(matrices)))


def _limits(matrices: Sequence[tuple[TileMatrix, TileLimits]]) -> str:
    # Limits that cover the whole matrix are omitted. The standard allows index 0 but the schema
    # does not, so limits are written only when needed.
    if all(limits == matrix.all_tiles for matrix, limits in matrices):
        return ""
    return element(
        "TileMatrixSetLimits",
        *(
            "<TileMatrixLimits>"
            f"<TileMatrix>{text(matrix.id)}</TileMatrix>"
            f"<MinTileRow>{limits.min_row}</MinTileRow>"
            f"<MaxTileRow>{limits.max_row}</MaxTileRow>"
            f"<MinTileCol>{limits.min_col}</MinTileCol>"
            f"<MaxTileCol>{limits.max_col}</MaxTileCol>"
            "</TileMatrixLimits>"
            for matrix, limits in matrices
        ),
    )


def _tile_matrix_set(
    identifier: str,
    tile_matrix_set: TileMatrixSet,
    matrices: Iterable[TileMatrix],
    crs_name: CRSName,
) -> str:
    return element(
        "TileMatrixSet",
        optional_leaf("ows:Title", tile_matrix_set.title),
        optional_leaf("ows:Abstract", tile_matrix_set.abstract),
        keywords(tile_matrix_set.keywords),
        leaf("ows:Identifier", identifier),
        leaf("ows:SupportedCRS", crs_name(tile_matrix_set.crs)),
        *(_tile_matrix(matrix, tile_matrix_set) for matrix in matrices),
    )


def _tile_matrix(matrix: TileMatrix, tile_matrix_set: TileMatrixSet) -> str:
    crs = tile_matrix_set.crs
    x, y = decimal(matrix.origin_x), decimal(matrix.origin_y)
    return element(
        "TileMatrix",
        leaf("ows:Identifier", matrix.id),
        leaf("ScaleDenominator", decimal(matrix.scale_denominator(crs))),
        leaf("TopLeftCorner", f"{y} {x}" if crs.northing_first else f"{x} {y}"),
        leaf("TileWidth", str(matrix.tile_width)),
        leaf("TileHeight", str(matrix.tile_height)),
        leaf("MatrixWidth", str(matrix.matrix_width)),
        leaf("MatrixHeight", str(matrix.matrix_height)),
    )
