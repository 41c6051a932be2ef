"""The Contents section of capabilities: layers and tile matrix sets (wmts.md 2.1 and 2.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import (
    CRS,
    BoundingBox,
    Layer,
    Legend,
    TileLimits,
    TileMatrix,
    TileMatrixSet,
    TileMatrixSetLink,
    bbox_in,
)
from mastaba.api.tiles import can_draw, drawn_links, listed_styles, picture_formats
from mastaba.api.web import coordinate, decimal
from mastaba_ows.dimensions import with_further_names
from mastaba_ows.featureinfo import INFO_EXTENSIONS, INFO_FORMATS
from mastaba_ows.versions import address_name
from mastaba_ows.xml import XLINK, Element, add, add_copy, add_list, record
from mastaba_wmts import rest
from mastaba_wmts.dimensions import tile_dimensions

if TYPE_CHECKING:
    from mastaba.api.services import Site
    from mastaba_ows.dimensions import DimensionValues

WMTS: Final = "{http://www.opengis.net/wmts/1.0}"
OWS: Final = "{http://www.opengis.net/ows/1.1}"

_CORNERS: Final = (f"{OWS}LowerCorner", f"{OWS}UpperCorner")
_GEOGRAPHIC_BOX: Final = record(f"{OWS}WGS84BoundingBox", *_CORNERS)
_BOX: Final = record(f"{OWS}BoundingBox", *_CORNERS)
_LIMITS: Final = record(
    f"{WMTS}TileMatrixLimits",
    f"{WMTS}TileMatrix",
    f"{WMTS}MinTileRow",
    f"{WMTS}MaxTileRow",
    f"{WMTS}MinTileCol",
    f"{WMTS}MaxTileCol",
)
_PIXEL: Final = 0.00028
"""Size in metres of a pixel of which scale denominators are those (OGC 07-057r7, clause 6.1)."""
_NEAR: Final = 1e-3
"""Distance in pixels up to which an edge is taken for one of pixels."""
_MOVED: Final = 1e-5
"""Pixels. More than the error of a distance computed from a scale denominator."""
_ROUNDING: Final = 1e-15
"""Relative error of a distance in pixels."""
_GDAL_EDGE: Final = 1e-10
"""Distance in pixels from the next edge up to which GDAL does not round outwards."""
_SAME_SCALE: Final = 1e-6

CRSName = Callable[[CRS], str]


def add_contents(
    root: Element,
    layers: Iterable[Layer],
    site: Site,
    resources_uri: str = "",
    *,
    crs_names: str = "urn",
    values: int = 500,
) -> None:
    """Append the ``Contents`` element.

    Args:
        layers: in document order.
        site: of the service.
        resources_uri: from `rest.resources_uri`; empty to announce no RESTful paths.
        crs_names: form of CRS names, ``urn`` or ``code``.
        values: ``Value`` elements of a dimension, at most.
    """
    contents = add(root, f"{WMTS}Contents")
    crs_name: CRSName = attrgetter(crs_names)
    published: dict[str, tuple[TileMatrixSet, tuple[TileMatrix, ...]]] = {}
    native: dict[str, TileMatrixSet] = {}
    for layer in with_further_names(layers, site.catalogue):
        tile_matrix_set, levels_id = layer.pyramid.tile_matrix_set, layer.levels_id
        limits = _limits_of(layer)
        if levels_id not in published:
            names = list(limits)
            offered = tuple(tile_matrix_set.between(names[0], names[-1]))
            published[levels_id] = tile_matrix_set, offered
        native[tile_matrix_set.id] = tile_matrix_set
        extra = drawn_links(layer)
        for link in extra:
            published.setdefault(link.levels_id, (link.tile_matrix_set, link.matrices))
        element = add(contents, f"{WMTS}Layer")
        _add_texts(element, layer, [link.tile_matrix_set.crs for link in extra], crs_name)
        _add_styles(element, layer, published[levels_id][1], extra)
        pictures = picture_formats(layer, site)
        for media_type in _formats(layer, pictures):
            add(element, f"{WMTS}Format", media_type)
        if _is_queryable(layer):
            for info_format in INFO_FORMATS:
                add(element, f"{WMTS}InfoFormat", info_format)
        if layer.dimensions:
            _add_dimensions(element, layer, site, values)
        matrices = tile_matrix_set.matrices
        _add_link(element, levels_id, [(matrices[name], own) for name, own in limits.items()])
        for link in extra:
            drawn = zip(link.matrices, link.limits.values(), strict=True)
            _add_link(element, link.levels_id, list(drawn))
        if resources_uri:
            path = rest.tile_template(
                resources_uri, address_name(site.catalogue, layer), tile_dimensions(layer)
            )
            _add_resources(element, layer, pictures, path)
    for identifier, tile_matrix_set in native.items():
        whole = tile_matrix_set, tuple(tile_matrix_set.matrices.values())
        published.setdefault(identifier, whole)
    for identifier, (tile_matrix_set, offered) in sorted(published.items()):
        _add_tile_matrix_set(contents, identifier, tile_matrix_set, offered, crs_name)


def _limits_of(layer: Layer) -> Mapping[str, TileLimits]:
    """Return the limits of a layer and all its values, by tile matrix, coarse to fine."""
    own = {name: level.limits for name, level in layer.pyramid.levels.items()}
    return layer.tile_limits or own


def _add_dimensions(element: Element, layer: Layer, site: Site, limit: int) -> None:
    """Append the ``Dimension`` elements of a layer, in the order of its templates.

    Args:
        limit: values of a dimension. If there are more, they are written as runs.
    """
    for values in site.catalogue.values_of(layer, limit):
        dimension = values.dimension
        if dimension.of_pixels:
            continue
        described = add(element, f"{WMTS}Dimension")
        add(described, f"{OWS}Identifier", dimension.identifier)
        if dimension.units:
            add(described, f"{OWS}UOM", dimension.units)
        if dimension.unit_symbol:
            add(described, f"{WMTS}UnitSymbol", dimension.unit_symbol)
        add(described, f"{WMTS}Default", _default(values))
        # Only times have a value "current"; the element promises one, whatever its text.
        if dimension.kind == "time":
            add(described, f"{WMTS}Current", str(dimension.is_current).lower())
        for text in values.uniform:
            add(described, f"{WMTS}Value", text)


def _default(values: DimensionValues) -> str:
    """Return the default, which is mandatory: of a dimension without one, the newest value.

    It is written as the value is, if there is one element for each value.
    """
    texts = values.texts
    default = values.default or texts[-1]
    is_listed = default in texts and len(texts) == len(values.uniform)
    return values.uniform[texts.index(default)] if is_listed else default


def _is_queryable(layer: Layer) -> bool:
    """Say whether GetFeatureInfo can be answered: values of pixels need mastaba-render."""
    source = layer.feature_info
    is_offered = source is not None and ("wmts", "info") not in layer.withheld
    return is_offered and ((source is not None and source.url is not None) or can_draw())


def add_description(element: Element, title: str, abstract: str, keywords: Iterable[str]) -> None:
    """Append ``ows:Title``, ``ows:Abstract`` and ``ows:Keywords`` unless they are empty."""
    if title:
        add(element, f"{OWS}Title", title)
    if abstract:
        add(element, f"{OWS}Abstract", abstract)
    if keywords:
        add_list(element, f"{OWS}Keywords", f"{OWS}Keyword", keywords)


def _add_texts(element: Element, layer: Layer, extra: Iterable[CRS], crs_name: CRSName) -> None:
    add(element, f"{OWS}Title", layer.title)
    add_description(element, "", layer.abstract, layer.keywords)
    _add_box(element, _GEOGRAPHIC_BOX, layer.geographic_bbox)
    add(element, f"{OWS}Identifier", layer.id)
    for crs in dict.fromkeys([layer.pyramid.tile_matrix_set.crs, *extra]):
        bbox = bbox_in(layer, crs)
        if bbox is not None:
            if crs is layer.pyramid.tile_matrix_set.crs:
                finest = [*_limits_of(layer)][-1]
                bbox = _inside(bbox, layer.pyramid.tile_matrix_set.matrices[finest], crs)
            box = _add_box(element, _BOX, bbox, northing_first=crs.northing_first)
            box.set("crs", crs_name(crs))
    for metadata in layer.metadata:
        add(element, f"{OWS}Metadata", attributes={f"{XLINK}href": metadata.url})


def _inside(bbox: BoundingBox, matrix: TileMatrix, crs: CRS) -> BoundingBox:
    """Return a box whose left and upper edges are not outside those of the pixels they touch.

    GDAL rounds these edges outwards to whole pixels, whose size it computes from the scale
    denominator. So an edge that is rounded outwards would give a row or column too many.
    """
    size = matrix.scale_denominator(crs) * _PIXEL / crs.metres_per_unit

    def offset(written: float) -> float:
        """Return how far to move an edge inwards that is a distance from the origin."""
        pixels = written / size
        whole = round(pixels)
        past = pixels - whole
        is_inside = past + _GDAL_EDGE > abs(whole) * _ROUNDING
        return _MOVED * size if abs(past) < _NEAR and not is_inside else 0

    return replace(
        bbox,
        xmin=bbox.xmin + offset(float(coordinate(bbox.xmin)) - matrix.origin_x),
        ymax=bbox.ymax - offset(matrix.origin_y - float(coordinate(bbox.ymax))),
    )


def _add_styles(
    element: Element,
    layer: Layer,
    offered: Iterable[TileMatrix],
    extra: Iterable[TileMatrixSetLink],
) -> None:
    crs = layer.pyramid.tile_matrix_set.crs
    for rank, style in enumerate(listed_styles(layer)):
        is_default = "false" if rank else "true"
        described = add(element, f"{WMTS}Style", attributes={"isDefault": is_default})
        add_description(described, style.title, style.abstract, style.keywords)
        add(described, f"{OWS}Identifier", style.identifier)
        if style.legend and ("wmts", "legend") not in layer.withheld:
            denominators = {matrix.scale_denominator(crs) for matrix in offered} | {
                matrix.scale_denominator(link.tile_matrix_set.crs)
                for link in extra
                for matrix in link.matrices
            }
            _add_legend(described, style.legend, denominators)


def _formats(layer: Layer, pictures: dict[str, str]) -> dict[str, str]:
    """Return the file name extensions of the tile formats by media type, in document order.

    Clients that read any format take the first. So pictures precede raw values and TIFF, which
    browsers do not show and of which GDAL reads TIFF only.
    """
    stored = layer.pyramid.format
    formats = {stored.media_type: stored.extension}
    for extension, media_type in pictures.items():
        # Of several extensions of a format, the first counts.
        formats.setdefault(media_type, extension)
    if not stored.is_picture:
        formats[stored.media_type] = formats.pop(stored.media_type)
    return formats


def _add_resources(element: Element, layer: Layer, pictures: dict[str, str], path: str) -> None:
    resources = [
        (media_type, "tile", f"{path}.{extension}")
        for media_type, extension in _formats(layer, pictures).items()
    ]
    if _is_queryable(layer):
        for extension, info_format in INFO_EXTENSIONS.items():
            resources.append((info_format, "FeatureInfo", f"{path}/{{J}}/{{I}}.{extension}"))
    for media_type, kind, template in resources:
        attributes = {"format": media_type, "resourceType": kind, "template": template}
        add(element, f"{WMTS}ResourceURL", attributes=attributes)


def _add_box(
    element: Element, box: Element, bbox: BoundingBox, *, northing_first: bool = False
) -> Element:
    corners = list(map(coordinate, bbox.corners(northing_first=northing_first)))
    return add_copy(element, box, " ".join(corners[:2]), " ".join(corners[2:]))


def _add_legend(element: Element, legend: Legend, denominators: set[float]) -> None:
    attributes = {"format": legend.media_type, f"{XLINK}href": legend.url}
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
    add(element, f"{WMTS}LegendURL", attributes=attributes)


def _add_link(
    element: Element, identifier: str, matrices: list[tuple[TileMatrix, TileLimits]]
) -> None:
    link = add(element, f"{WMTS}TileMatrixSetLink")
    add(link, f"{WMTS}TileMatrixSet", identifier)
    # Limits that cover the whole matrix are omitted. The standard allows index 0 but the schema
    # does not, so limits are written only when needed.
    if all(limits == matrix.all_tiles for matrix, limits in matrices):
        return
    all_limits = add(link, f"{WMTS}TileMatrixSetLimits")
    for matrix, limits in matrices:
        rows, cols = (limits.min_row, limits.max_row), (limits.min_col, limits.max_col)
        add_copy(all_limits, _LIMITS, matrix.id, *map(str, rows + cols))


def _add_tile_matrix_set(
    contents: Element,
    identifier: str,
    tile_matrix_set: TileMatrixSet,
    matrices: Iterable[TileMatrix],
    crs_name: CRSName,
) -> None:
    crs = tile_matrix_set.crs
    element = add(contents, f"{WMTS}TileMatrixSet")
    add_description(
        element, tile_matrix_set.title, tile_matrix_set.abstract, tile_matrix_set.keywords
    )
    add(element, f"{OWS}Identifier", identifier)
    add(element, f"{OWS}SupportedCRS", crs_name(crs))
    matrices = tuple(matrices)
    # A part of a scale set conforms to it if it begins with its coarsest scale (clause 6.2).
    if tile_matrix_set.scale_set and matrices[0] is next(iter(tile_matrix_set.matrices.values())):
        add(element, f"{WMTS}WellKnownScaleSet", tile_matrix_set.scale_set)
    for matrix in matrices:
        x, y = decimal(matrix.origin_x), decimal(matrix.origin_y)
        described = add(element, f"{WMTS}TileMatrix")
        add(described, f"{OWS}Identifier", matrix.id)
        add(described, f"{WMTS}ScaleDenominator", decimal(matrix.scale_denominator(crs)))
        add(described, f"{WMTS}TopLeftCorner", f"{y} {x}" if crs.northing_first else f"{x} {y}")
        add(described, f"{WMTS}TileWidth", str(matrix.tile_width))
        add(described, f"{WMTS}TileHeight", str(matrix.tile_height))
        add(described, f"{WMTS}MatrixWidth", str(matrix.matrix_width))
        add(described, f"{WMTS}MatrixHeight", str(matrix.matrix_height))
