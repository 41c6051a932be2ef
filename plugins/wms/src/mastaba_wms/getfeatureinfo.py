"""GetFeatureInfo (OGC 06-042 clause 7.4; wms.md section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mastaba.api.web import printable
from mastaba.errors import UnsupportedFormatError
from mastaba_ows.featureinfo import INFO_FORMATS
from mastaba_ows.featureinfo.answers import (
    LayerAnswer,
    PixelAnswer,
    feature_info_response,
    position_of,
    source_of,
)
from mastaba_ows.featureinfo.external import ExternalWMS
from mastaba_ows.parameters import flag, whole_number
from mastaba_wms import params
from mastaba_wms.errors import InvalidPointError, LayerNotDefinedError, LayerNotQueryableError
from mastaba_wms.params import MapQueries, MapQuery
from mastaba_wms.versions import Version, required_version

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site
    from mastaba.api.web import Response
    from mastaba_wms.dimensions import WantedLayer


class GetFeatureInfo:
    """Answers GetFeatureInfo with pixel values from pyramids or answers from another WMS.

    Args:
        site: gives the renderer.
        queries: reads the map request part.
    """

    def __init__(self, site: Site, queries: MapQueries) -> None:
        self._site = site
        self._queries = queries
        self._format = site.catalogue.settings.map.formats[0]
        self._external = ExternalWMS()

    def respond(self, parameters: Mapping[str, str]) -> Response:
        """Return the feature information for one pixel of a map.

        Raises:
            RequestError: the request is invalid, or another server does not answer.
            SlabFormatError, StorageError: the data cannot be read.
        """
        # The map request part demands both (clause 7.4.3), but neither changes the answer much, and
        # some clients leave them out.
        parameters = {"format": self._format, "styles": "", **parameters}
        version = required_version(parameters)
        layers = self._queries.layers(parameters)
        queried = self._queries.layers(parameters, "QUERY_LAYERS")
        _check_queried(queried, layers)
        query = self._queries.read(version, parameters, layers, is_drawn=False)
        info_format = _info_format(parameters)
        column, row = version.point_parameters
        i = _index(parameters, column, query.map.width)
        j = _index(parameters, row, query.map.height)
        self._site.renderer.prepare(query.map, query.limits)
        forwarded = {
            "CRS": query.map.crs.code,
            "BBOX": _forwarded_bbox(version, parameters, query),
            "WIDTH": str(query.map.width),
            "HEIGHT": str(query.map.height),
            "I": str(i),
            "J": str(j),
            "FEATURE_COUNT": str(params.feature_count(parameters)),
        }
        parts: list[LayerAnswer] = []
        for one in queried:
            source = one.published.layer.feature_info
            assert source is not None
            if source.url is None:
                parts.extend(self._pixel(layer, query, i, j) for layer in one.shown)
            else:
                parts.append(self._external.ask(source, info_format, forwarded))
        with_sources = flag(parameters.get("provenance", "")) is True
        response = feature_info_response(parts, info_format, with_sources=with_sources)
        notes = [note for one in queried for note in one.notes]
        response.headers = [*response.headers, *self._queries.warnings(notes)]
        return response

    def _pixel(self, layer: Layer, query: MapQuery, i: int, j: int) -> PixelAnswer:
        image = query.map
        values = self._site.renderer.pixel_value(image, layer, j, i)
        form = "d" if values.dtype.kind == "u" else ".2f"
        position = position_of(image.bbox, image.crs, image.width, image.height, i, j)
        source = source_of(
            self._site, layer, image.bbox, image.crs, (image.width, image.height), i, j
        )
        return PixelAnswer(
            layer.key, tuple(format(value, form) for value in values.tolist()), position, source
        )


def _check_queried(queried: list[WantedLayer], layers: list[WantedLayer]) -> None:
    for one in queried:
        if not one.published.is_queryable:
            name = one.published.layer.id
            raise LayerNotQueryableError(f"the layer {name} is not queryable", "QUERY_LAYERS")
    for one in queried:
        if one not in layers:
            name = one.published.layer.id
            raise LayerNotDefinedError(f"the layer {name} is not in LAYERS", "QUERY_LAYERS")


def _info_format(parameters: Mapping[str, str]) -> str:
    # Mandatory in 1.3.0, optional in 1.1.1; clients omit it in both.
    value = parameters.get("info_format") or INFO_FORMATS[0]
    name = value.strip().lower()
    if name not in INFO_FORMATS:
        raise UnsupportedFormatError(f"there is no format {printable(value)}", "INFO_FORMAT")
    return name


def _index(parameters: Mapping[str, str], name: str, size: int) -> int:
    number = whole_number(params.required(parameters, name))
    if number is None or number >= size:
        raise InvalidPointError(f"{name} must be an integer from 0 to {size - 1}", name)
    return number


def _forwarded_bbox(version: Version, parameters: Mapping[str, str], query: MapQuery) -> str:
    """Return the client's own text, or for WMS 1.1.1 the same box in the axis order of 1.3.0."""
    if version is Version.V1_3_0:
        return parameters["bbox"].rstrip().replace(" ", "+")
    return ",".join(map(repr, query.map.bbox.corners(northing_first=query.map.crs.northing_first)))
