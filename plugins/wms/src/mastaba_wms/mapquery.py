"""GetMap requests, read and checked in the order of wms.md section 3.2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mastaba.api.catalogue import CRS
from mastaba.api.encoders import Encoder
from mastaba.api.maps import Background, MapLayer, MapRequest
from mastaba.api.services import MapSettings
from mastaba.api.web import printable
from mastaba.errors import (
    InvalidParameterError,
    MissingParameterError,
    UnsupportedFormatError,
)
from mastaba_wms import params
from mastaba_wms.errors import UnsupportedCRSError
from mastaba_wms.params import Exceptions
from mastaba_wms.published import PublishedLayer, find
from mastaba_wms.versions import Version

_MAX_FORMAT: Final = 200


@dataclass(frozen=True, slots=True)
class MapQuery:
    """A map to draw, and how to send it."""

    map: MapRequest
    encoder: Encoder
    background: Background
    options: Mapping[str, str]
    file_name: str | None


@dataclass(frozen=True, slots=True)
class Sheet:
    """The blank image for a map or for an error report; width and height in pixels."""

    width: int
    height: int
    encoder: Encoder
    background: Background
    exceptions: Exceptions


class MapQueries:
    """Reads GetMap requests and the GetMap part of GetFeatureInfo requests.

    Args:
        layers: of the service, by identifier.
        settings: limits and formats.
        encoders: of the offered formats, by media type in lower case.
    """

    def __init__(
        self,
        layers: Mapping[str, PublishedLayer],
        settings: MapSettings,
        encoders: Mapping[str, Encoder],
    ) -> None:
        self._layers = layers
        self._settings = settings
        self._encoders = encoders

    def layers(self, parameters: Mapping[str, str], name: str = "LAYERS") -> list[PublishedLayer]:
        """Return the layers that LAYERS or QUERY_LAYERS names.

        Raises:
            MissingParameterError: it is absent or empty.
            InvalidParameterError: it names too many layers.
            LayerNotDefinedError: a layer does not exist.
        """
        value = params.required(parameters, name)
        limit = self._settings.max_layers
        # Counted before the split: the text may be as long as a request can be.
        if value.count(",") >= limit:
            raise InvalidParameterError(f"{name} may name at most {limit} layers", name)
        return [find(self._layers, identifier, name) for identifier in value.split(",")]

    def sheet(self, parameters: Mapping[str, str]) -> Sheet:
        """Return the sheet for an error report, without checking other parameters.

        Raises:
            RequestError: one of its parameters is missing or invalid.
        """
        width, height = self._size(parameters)
        if width * height > self._settings.max_pixels:
            raise InvalidParameterError("the map has too many pixels", "WIDTH")
        background = Background(
            params.background_colour(parameters), params.transparent(parameters)
        )
        return Sheet(
            width, height, self._encoder(parameters), background, params.exceptions(parameters)
        )

    def read(
        self,
        version: Version,
        parameters: Mapping[str, str],
        layers: Sequence[PublishedLayer],
        *,
        is_drawn: bool = True,
    ) -> MapQuery:
        """Return the requested map.

        Args:
            layers: as returned by `layers`.
            is_drawn: whether to read TRANSPARENT and BGCOLOR too.

        Raises:
            RequestError: the request is invalid; the type is that of the first error found.
        """
        width, height = self._size(parameters)
        crs = _crs(version, parameters, layers)
        encoder = self._encoder(parameters)
        northing_first = version.follows_axis_order and crs.northing_first
        bbox = params.bbox(parameters, northing_first=northing_first)
        params.exceptions(parameters)
        styled = _styled(parameters, layers)
        background = Background()
        if is_drawn:
            transparent = params.transparent(parameters)
            background = Background(params.background_colour(parameters), transparent)
        factor = params.resolution_factor(parameters)
        options = params.format_options(parameters)
        image = MapRequest(styled, bbox, crs, width, height, factor)
        return MapQuery(image, encoder, background, options, parameters.get("filename"))

    def _size(self, parameters: Mapping[str, str]) -> tuple[int, int]:
        return (
            params.size(parameters, "WIDTH", self._settings.max_width),
            params.size(parameters, "HEIGHT", self._settings.max_height),
        )

    def _encoder(self, parameters: Mapping[str, str]) -> Encoder:
        value = params.required(parameters, "FORMAT")
        encoder = None
        if len(value) <= _MAX_FORMAT:
            name = ";".join(part.strip() for part in value.lower().split(";"))
            encoder = self._encoders.get(name)
        if encoder is None:
            raise UnsupportedFormatError(f"there is no format {printable(value)}", "FORMAT")
        return encoder


def _crs(version: Version, parameters: Mapping[str, str], layers: Sequence[PublishedLayer]) -> CRS:
    name = version.crs_parameter
    value = params.required(parameters, name)
    code = value.upper()
    for published in layers:
        # Only offered codes reach the projection library.
        if code not in published.crs.offered:
            raise UnsupportedCRSError(
                f"the layer {published.layer.id} is not offered in {printable(value)}", name
            )
    return CRS.from_code(code)


def _styled(
    parameters: Mapping[str, str], layers: Sequence[PublishedLayer]
) -> tuple[MapLayer, ...]:
    value = parameters.get("styles")
    if value is None:
        raise MissingParameterError("the parameter STYLES is missing; it may be empty", "STYLES")
    count = len(layers)
    if not value:
        names = [""] * count
    elif value.count(",") != count - 1:
        raise InvalidParameterError(
            f"STYLES must be empty or name one style for each of {count} layers", "STYLES"
        )
    else:
        names = value.split(",")
    return tuple(
        MapLayer(published.layer, published.style(name))
        for published, name in zip(layers, names, strict=True)
    )
