"""GetFeatureInfo (OGC 06-042 clause 7.4; wms.md section 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mastaba.errors import UnsupportedFormatError
from mastaba.model.bbox import BoundingBox
from mastaba.services.featureinfo.answers import (
    INFO_FORMATS,
    PixelAnswer,
    position_of,
    value_texts,
    written,
)
from mastaba.services.featureinfo.external import ExternalAnswer, ExternalQuery, ExternalWMS
from mastaba.web.request import printable
from mastaba.web.response import Response, content_disposition
from mastaba_wms import params
from mastaba_wms.errors import InvalidPointError, LayerNotDefinedError, LayerNotQueryableError
from mastaba_wms.mapquery import MapQueries, MapQuery
from mastaba_wms.published import PublishedLayer
from mastaba_wms.versions import Version

if TYPE_CHECKING:
    from mastaba.services.base import Site

# Answers from another server come from our origin; their scripts and forms must not run there.
_FOREIGN: Final = [
    ("Content-Security-Policy", "sandbox"),
    ("X-Content-Type-Options", "nosniff"),
]


@dataclass(frozen=True, slots=True)
class FeatureInfoQuery:
    """A query for one pixel of a map.

    Attributes:
        layers: in the order of QUERY_LAYERS.
        info_format: one of `INFO_FORMATS`.
        i, j: column and row of the pixel, from 0.
        bbox: to forward to another server, in the axis order of WMS 1.3.0.
    """

    map: MapQuery
    layers: tuple[PublishedLayer, ...]
    info_format: str
    feature_count: int
    i: int
    j: int
    bbox: str


class GetFeatureInfo:
    """Answers GetFeatureInfo with pixel values from pyramids or answers from another WMS.

    Args:
        site: gives the renderer.
        queries: reads the map request part.
        external: asks other servers.
    """

    def __init__(self, site: Site, queries: MapQueries, external: ExternalWMS) -> None:
        self._site = site
        self._queries = queries
        self._external = external

    def respond(self, parameters: Mapping[str, str]) -> Response:
        """Return the feature information for one pixel of a map.

        Raises:
            RequestError: the request is invalid, or another server does not answer.
            SlabFormatError, StorageError: the data cannot be read.
        """
        query = self._read(parameters)
        answer = written([self._ask(query, layer) for layer in query.layers], query.info_format)
        headers = [
            ("Content-Type", answer.media_type),
            ("Content-Disposition", content_disposition(answer.media_type)),
        ]
        return Response(200, headers + _FOREIGN if answer.foreign else headers, answer.body)

    def _read(self, parameters: Mapping[str, str]) -> FeatureInfoQuery:
        version = params.version(parameters)
        layers = self._queries.layers(parameters)
        queried = self._queries.layers(parameters, "QUERY_LAYERS")
        for layer in queried:
            if not layer.is_queryable:
                raise LayerNotQueryableError(
                    f"the layer {layer.layer.id} is not queryable", "QUERY_LAYERS"
                )
        for layer in queried:
            if layer not in layers:
                raise LayerNotDefinedError(
                    f"the layer {layer.layer.id} is not one of LAYERS", "QUERY_LAYERS"
                )
        query = self._queries.read(version, parameters, layers, is_drawn=False)
        info_format = _info_format(parameters)
        column, row = version.point_parameters
        i = _index(parameters, column, query.map.width)
        j = _index(parameters, row, query.map.height)
        self._site.renderer.prepare(query.map)
        return FeatureInfoQuery(
            query,
            tuple(queried),
            info_format,
            params.feature_count(parameters),
            i,
            j,
            _forwarded_bbox(parameters, query),
        )

    def _ask(
        self, query: FeatureInfoQuery, published: PublishedLayer
    ) -> PixelAnswer | ExternalAnswer:
        layer, image = published.layer, query.map.map
        assert layer.feature_info is not None
        if layer.feature_info.url is None:
            # Loaded on first use, like the renderer.
            from mastaba.render.pixel import pixel_value

            site = self._site
            value = pixel_value(site.catalogue, site.renderer.tiles, image, layer, query.j, query.i)
            position = position_of(
                image.bbox, image.crs, image.width, image.height, query.i, query.j
            )
            return PixelAnswer(layer.id, value_texts(value), position)
        return self._external.ask(
            layer.feature_info,
            ExternalQuery(
                crs=image.crs.code,
                bbox=query.bbox,
                width=image.width,
                height=image.height,
                i=query.i,
                j=query.j,
                info_format=query.info_format,
                feature_count=query.feature_count,
            ),
        )


def _info_format(parameters: Mapping[str, str]) -> str:
    # Mandatory in 1.3.0, optional in 1.1.1; clients omit it in both.
    value = parameters.get("info_format") or INFO_FORMATS[0]
    name = value.strip().lower()
    if name not in INFO_FORMATS:
        raise UnsupportedFormatError(f"there is no format {printable(value)}", "INFO_FORMAT")
    return name


def _index(parameters: Mapping[str, str], name: str, size: int) -> int:
    number = params.whole_number(params.required(parameters, name))
    if number is None or number >= size:
        raise InvalidPointError(f"{name} must be a whole number from 0 to {size - 1}", name)
    return number


def _forwarded_bbox(parameters: Mapping[str, str], query: MapQuery) -> str:
    """Return the client's own text, or for WMS 1.1.1 the same box in the axis order of 1.3.0."""
    if query.version is Version.V1_3_0:
        return parameters["bbox"].rstrip().replace(" ", "+")
    corners = _corners(query.map.bbox, northing_first=query.map.crs.northing_first)
    return ",".join(map(repr, corners))


def _corners(bbox: BoundingBox, *, northing_first: bool) -> Sequence[float]:
    if northing_first:
        return bbox.ymin, bbox.xmin, bbox.ymax, bbox.xmax
    return bbox.xmin, bbox.ymin, bbox.xmax, bbox.ymax
