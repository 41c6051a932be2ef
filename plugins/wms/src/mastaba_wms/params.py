"""Request parameters, parsed from text and checked (wms.md sections 1, 3.1 and 3.2).

Parameter names are in lower case for every binding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from mastaba.api.catalogue import CRS, BoundingBox, Layer
from mastaba.api.services import MapSettings
from mastaba.api.web import printable
from mastaba.errors import (
    InvalidParameterError,
    MissingParameterError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from mastaba_ows import parameters as grammar
from mastaba_ows.dimensions import Note, warning_headers
from mastaba_render.api.encoders import Encoder
from mastaba_render.api.maps import Background, MapLayer, MapRequest
from mastaba_wms.dimensions import MOST_VALUES, LayerNames, WantedLayer
from mastaba_wms.errors import UnsupportedCRSError
from mastaba_wms.versions import Version


class Operation(StrEnum):
    """Operations of the standard and its SLD profile, as in REQUEST."""

    GET_CAPABILITIES = "GetCapabilities"
    GET_MAP = "GetMap"
    GET_FEATURE_INFO = "GetFeatureInfo"
    GET_LEGEND_GRAPHIC = "GetLegendGraphic"


class Exceptions(StrEnum):
    """How errors are reported, as in EXCEPTIONS."""

    XML = "XML"
    INIMAGE = "INIMAGE"
    BLANK = "BLANK"


# The last three are names from WMS 1.0.0, which 1.1.1 still accepts (OGC 01-068r3 annex A).
OPERATIONS: Final = {
    **{operation.lower(): operation for operation in Operation},
    "capabilities": Operation.GET_CAPABILITIES,
    "map": Operation.GET_MAP,
    "feature_info": Operation.GET_FEATURE_INFO,
}
"""Operations by the value of REQUEST in lower case."""
EXCEPTION_TYPES: Final = {f"application/vnd.ogc.se_{one.lower()}": one for one in Exceptions}
"""How errors are reported, by the media types of WMS 1.1.1."""

# Clients also send the media types with 1.3.0.
_EXCEPTIONS: Final = {one.lower(): one for one in Exceptions} | EXCEPTION_TYPES
_MAX_OPTIONS: Final = 1000
_MAX_FORMAT: Final = 200
_CORNERS: Final = (4,)
# CRS units. Beyond these limits, pixel positions cannot be computed.
_FARTHEST: Final = 1e10
_SMALLEST: Final = 1e-12
_STANDARD_DPI: Final = 90.7
"""Pixels per inch at 0.28 mm per pixel, rounded as in existing servers."""


def operation(parameters: Mapping[str, str]) -> Operation:
    """Return the requested operation after checking SERVICE and REQUEST in this order.

    Raises:
        MissingParameterError: REQUEST is absent, or SERVICE is absent where it is required.
        InvalidParameterError: SERVICE is not WMS.
        UnsupportedOperationError: the operation does not exist.
    """
    service = parameters.get("service")
    request = parameters.get("request")
    if service and service.upper() != "WMS":
        raise InvalidParameterError(f"SERVICE is not WMS but {printable(service)}", "SERVICE")
    found = OPERATIONS.get((request or "").lower())
    # The standard requires SERVICE only in GetCapabilities. If REQUEST is also missing, the
    # request may be meant for another service. Only WMS has WMTVER.
    is_ambiguous = not service and "wmtver" not in parameters
    if is_ambiguous and (not request or found is Operation.GET_CAPABILITIES):
        raise MissingParameterError("the parameter SERVICE is missing", "SERVICE")
    if not request:
        raise MissingParameterError("the parameter REQUEST is missing", "REQUEST")
    if found is None:
        raise UnsupportedOperationError(f"there is no operation {printable(request)}", "REQUEST")
    return found


def required(parameters: Mapping[str, str], name: str) -> str:
    """Return a mandatory parameter.

    Args:
        name: as the protocol spells it, in upper case.

    Raises:
        MissingParameterError: it is absent or empty.
    """
    value = parameters.get(name.lower())
    if not value:
        raise MissingParameterError(f"the parameter {name} is missing", name)
    return value


def size(number: int | None, parameters: Mapping[str, str], name: str, limit: int) -> int:
    """Return WIDTH or HEIGHT, in pixels.

    Args:
        number: as read from the parameter; None if that was not possible.
        name: as the protocol spells it.

    Raises:
        MissingParameterError: it is absent or empty.
        InvalidParameterError: it is not an integer from 1 to the limit.
    """
    if number is None:
        required(parameters, name)
        raise InvalidParameterError(f"{name} must be an integer from 1 to {limit}", name)
    return number


def corners(numbers: Sequence[float] | None, parameters: Mapping[str, str]) -> Sequence[float]:
    """Return the four numbers of BBOX, in the order of the client.

    Args:
        numbers: as read from the parameter; None if that was not possible.

    Raises:
        MissingParameterError: it is absent or empty.
        InvalidParameterError: not four decimal numbers, without area, or outside all CRSs.
    """
    if numbers is None:
        required(parameters, "BBOX")
        raise InvalidParameterError(
            "BBOX must be four decimal numbers with commas between them", "BBOX"
        )
    one, two, three, four = numbers
    if one >= three or two >= four:
        raise InvalidParameterError("BBOX must have each minimum below its maximum", "BBOX")
    if max(map(abs, numbers)) > _FARTHEST:
        raise InvalidParameterError("BBOX has numbers that are too large for any CRS", "BBOX")
    if min(three - one, four - two) < _SMALLEST:
        raise InvalidParameterError("BBOX is too small for any map", "BBOX")
    return numbers


def exceptions(parameters: Mapping[str, str]) -> Exceptions:
    """Return how to report errors.

    Raises:
        InvalidParameterError: the value is unknown.
    """
    # Existing servers also read the misspelt name.
    value = parameters.get("exceptions") or parameters.get("exception") or Exceptions.XML
    found = _EXCEPTIONS.get(value.lower())
    if found is None:
        raise InvalidParameterError("EXCEPTIONS must be XML, INIMAGE or BLANK", "EXCEPTIONS")
    return found


def transparent(parameters: Mapping[str, str]) -> bool:
    """Return TRANSPARENT; False when it is absent.

    Raises:
        InvalidParameterError: neither TRUE nor FALSE.
    """
    return _known(grammar.flag(parameters.get("transparent") or "false"))


def _known(transparent: bool | None) -> bool:
    if transparent is None:
        raise InvalidParameterError("TRANSPARENT must be TRUE or FALSE", "TRANSPARENT")
    return transparent


def background_colour(parameters: Mapping[str, str]) -> grammar.Colour | None:
    """Return BGCOLOR as red, green, blue (0 to 255); None when it is absent.

    Raises:
        InvalidParameterError: not of the form 0xRRGGBB.
    """
    value = parameters.get("bgcolor")
    if not value:
        return None
    found = grammar.colour(value)
    if found is None:
        raise InvalidParameterError("BGCOLOR must be of the form 0xRRGGBB", "BGCOLOR")
    return found


def resolution_factor(parameters: Mapping[str, str]) -> float:
    """Return the factor by which DPI multiplies the resolution; 1 when it is absent.

    Raises:
        InvalidParameterError: not an integer from 1.
    """
    # Existing servers read the second name.
    value = parameters.get("dpi") or parameters.get("str_dpi")
    if not value:
        return 1.0
    number = grammar.whole_number(value)
    if not number:
        raise InvalidParameterError("DPI must be an integer from 1", "DPI")
    return number / _STANDARD_DPI


def format_options(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return FORMAT_OPTIONS, ``key:value;key:value``, by key in lower case.

    Raises:
        InvalidParameterError: the text is too long.
    """
    value = parameters.get("format_options", "")
    if len(value) > _MAX_OPTIONS:
        raise InvalidParameterError("FORMAT_OPTIONS is too long", "FORMAT_OPTIONS")
    options: dict[str, str] = {}
    for item in value.split(";"):
        key, colon, text = item.partition(":")
        if colon:
            options.setdefault(key.strip().lower(), text.strip())
    return options


def feature_count(parameters: Mapping[str, str]) -> int:
    """Return FEATURE_COUNT; 1 when it is absent or not an integer from 1."""
    return grammar.whole_number(parameters.get("feature_count", "")) or 1


@dataclass(frozen=True, slots=True)
class MapQuery:
    """A map to draw, and how to send it. The ETag contains all compared fields.

    Attributes:
        limits: of the map, in which all values of a layer count as one layer.
        cached: the layers shown, with the Cache-Control of the request.
        warnings: headers with the values that the request did not name.
    """

    map: MapRequest
    encoder: Encoder
    background: Background
    options: Mapping[str, str]
    file_name: str | None = field(compare=False)
    limits: MapSettings = field(compare=False)
    cached: Sequence[Layer] = field(compare=False)
    warnings: Sequence[tuple[str, str]] = field(compare=False)


@dataclass(frozen=True, slots=True)
class BlankImage:
    """The blank image for a map or for an error report; width and height in pixels."""

    width: int
    height: int
    encoder: Encoder
    background: Background
    exceptions: Exceptions


class MapQueries:
    """Reads GetMap requests and the GetMap part of GetFeatureInfo requests.

    Args:
        names: finds the layers of the service.
        settings: limits of maps, and formats.
        encoders: of the offered formats, by media type in lower case.
        warns: whether responses name values of dimensions that requests did not name exactly.
    """

    def __init__(
        self,
        names: LayerNames,
        settings: MapSettings,
        encoders: Mapping[str, Encoder],
        *,
        warns: bool = True,
    ) -> None:
        self._names = names
        self._settings = settings
        self._encoders = encoders
        self._warns = warns

    def warnings(self, notes: Sequence[Note]) -> list[tuple[str, str]]:
        """Return the headers of a response that name the values used, unless they are off."""
        return warning_headers(notes) if notes and self._warns else []

    def layers(self, parameters: Mapping[str, str], name: str = "LAYERS") -> list[WantedLayer]:
        """Return the layers that LAYERS or QUERY_LAYERS names, with the values of dimensions.

        Raises:
            MissingParameterError: it is absent or empty.
            InvalidParameterError: it names too many layers.
            LayerNotDefinedError: a layer does not exist.
            MissingDimensionError, InvalidDimensionError: the value of a dimension is refused.
            OverloadedError: a value cannot be opened at the moment.
        """
        value = required(parameters, name)
        limit = self._settings.max_layers
        # Counted before the split: the text may be as long as a request can be.
        if value.count(",") >= limit:
            raise InvalidParameterError(f"{name} may name at most {limit} layers", name)
        names, plain = value.split(","), self._names.plain
        if all(map(plain.__contains__, names)):
            return [plain[identifier] for identifier in names]
        return self._names.find(names, parameters, name, MOST_VALUES)

    def blank_image(self, parameters: Mapping[str, str]) -> BlankImage:
        """Return the blank image for an error report, without checking other parameters.

        Raises:
            RequestError: one of its parameters is missing or invalid.
        """
        limits = self._settings
        width = grammar.size(parameters.get("width", ""), limits.max_width)
        height = grammar.size(parameters.get("height", ""), limits.max_height)
        width = size(width, parameters, "WIDTH", limits.max_width)
        height = size(height, parameters, "HEIGHT", limits.max_height)
        if width * height > limits.max_pixels:
            raise InvalidParameterError("the map has too many pixels", "WIDTH")
        background = Background(background_colour(parameters), transparent(parameters))
        return BlankImage(
            width, height, self._encoder(parameters), background, exceptions(parameters)
        )

    def read(
        self,
        version: Version,
        parameters: Mapping[str, str],
        layers: Sequence[WantedLayer],
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
        limits = self._settings
        # All texts are read first, then faults are reported in the order of the standard.
        columns = grammar.size(parameters.get("width", ""), limits.max_width)
        rows = grammar.size(parameters.get("height", ""), limits.max_height)
        numbers = grammar.decimals(parameters.get("bbox", ""), _CORNERS)
        flag = grammar.flag(parameters.get("transparent") or "false")
        width = size(columns, parameters, "WIDTH", limits.max_width)
        height = size(rows, parameters, "HEIGHT", limits.max_height)
        crs = _crs(version, parameters, layers)
        encoder = self._encoder(parameters)
        one, two, three, four = corners(numbers, parameters)
        exceptions(parameters)
        styled = _styled(parameters, layers)
        is_transparent = is_drawn and _known(flag)
        colour = background_colour(parameters) if is_drawn else None
        factor = resolution_factor(parameters)
        options = format_options(parameters)
        # Before 1.3.0, x was always first.
        if version is Version.V1_3_0 and crs.northing_first:
            one, two, three, four = two, one, four, three
        box = BoundingBox(one, two, three, four)
        background = Background(colour, is_transparent)
        image = MapRequest(styled, box, crs, width, height, factor)
        cached = [layer for one in layers for layer in one.cached]
        warnings = self.warnings([note for one in layers for note in one.notes])
        further = len(styled) - len(layers)
        if further:
            limits = replace(limits, max_layers=limits.max_layers + further)
        name = parameters.get("filename")
        return MapQuery(image, encoder, background, options, name, limits, cached, warnings)

    def _encoder(self, parameters: Mapping[str, str]) -> Encoder:
        value = required(parameters, "FORMAT")
        encoder = None
        if len(value) <= _MAX_FORMAT:
            name = ";".join(part.strip() for part in value.lower().split(";"))
            encoder = self._encoders.get(name)
        if encoder is None:
            raise UnsupportedFormatError(f"there is no format {printable(value)}", "FORMAT")
        return encoder


def _crs(version: Version, parameters: Mapping[str, str], layers: Sequence[WantedLayer]) -> CRS:
    name = version.crs_parameter
    value = required(parameters, name)
    code = value.upper()
    for one in layers:
        published = one.published
        # Only offered codes reach the projection library.
        if code not in published.crs.offered:
            raise UnsupportedCRSError(
                f"the layer {published.layer.id} is not offered in {printable(value)}", name
            )
    return CRS.from_code(code)


def _styled(parameters: Mapping[str, str], layers: Sequence[WantedLayer]) -> tuple[MapLayer, ...]:
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
    for one, name in zip(layers, names, strict=True):
        if name not in one.published.styled:
            raise one.published.unknown_style(name)
    entries: list[MapLayer] = []
    for one, name in zip(layers, names, strict=True):
        entries.extend([one.published.styled[name]] if one.is_plain else one.styled(name))
    return tuple(entries)
