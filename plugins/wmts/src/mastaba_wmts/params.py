"""Request parameters, parsed from text (wmts.md sections 1 to 3).

Parameter names are in lower case for every binding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError, MissingParameterError
from mastaba_ows.dimensions import Dimension, requested_values
from mastaba_ows.featureinfo import INFO_FORMATS
from mastaba_ows.parameters import flag, items
from mastaba_wmts.errors import VersionNegotiationError

VERSION: Final = "1.0.0"
SECTIONS: Final = (
    "ServiceIdentification",
    "ServiceProvider",
    "OperationsMetadata",
    "Contents",
    "Themes",
)
"""Names that SECTIONS may list, in addition to ``All``."""

_NO_VALUES: Final[Mapping[str, str]] = MappingProxyType({})
# Clients write the names in any letter case.
_SECTION_NAMES: Final = {name.lower(): name for name in (*SECTIONS, "All")}

MEDIA_TYPES: Final = ("text/xml", "application/xml")
"""Media types of the capabilities document, the default first."""


class Operation(StrEnum):
    """Operations of the standard, as in its REQUEST parameter."""

    GET_CAPABILITIES = "GetCapabilities"
    GET_TILE = "GetTile"
    GET_FEATURE_INFO = "GetFeatureInfo"


_OPERATIONS: Final = {operation.lower(): operation for operation in Operation}


@dataclass(frozen=True, slots=True)
class CapabilitiesRequest:
    """A GetCapabilities request.

    Attributes:
        sections: names from `SECTIONS`; None for the complete document.
        media_type: of the answer.
    """

    sections: frozenset[str] | None = None
    media_type: str = MEDIA_TYPES[0]


class TileRequest(NamedTuple):
    """One tile as requested by the client: unchecked texts, None for absent parameters.

    Attributes:
        format: media type; ignored with an extension.
        extension: of a RESTful path.
        values: of dimensions, by name.
    """

    layer: str | None
    style: str | None
    format: str | None
    tile_matrix_set: str | None
    tile_matrix: str | None
    tile_row: str | None
    tile_col: str | None
    extension: str | None = None
    values: Mapping[str, str] = _NO_VALUES


class FeatureInfoRequest(NamedTuple):
    """One pixel of a tile as requested by the client, unchecked as in `TileRequest`.

    Attributes:
        i, j: column and row of the pixel in the tile.
        with_format: whether the tile format is required; it is not in paths.
        with_sources: whether ``text/plain`` contains the source of the pixel.
    """

    tile: TileRequest
    info_format: str | None
    i: str | None
    j: str | None
    with_format: bool = True
    with_sources: bool = False


def operation(parameters: Mapping[str, str]) -> Operation:
    """Return the requested operation after checking SERVICE, REQUEST and VERSION in this order.

    Raises:
        MissingParameterError: SERVICE or REQUEST is absent or empty.
        InvalidParameterError: SERVICE is not WMTS, REQUEST is not an operation, or VERSION is
            not 1.0.0; it may be absent.
        VersionNegotiationError: VERSION is not 1.0.0 in GetCapabilities, where the standard does
            not define it.
    """
    service = parameters.get("service")
    if not service:
        raise MissingParameterError("the parameter SERVICE is missing", "service")
    if service != "WMTS" and service.upper() != "WMTS":
        raise InvalidParameterError(f"SERVICE is not WMTS but {printable(service)}", "service")
    request = parameters.get("request")
    if not request:
        raise MissingParameterError("the parameter REQUEST is missing", "request")
    found = _OPERATIONS.get(request.lower())
    if found is None:
        raise InvalidParameterError(f"there is no operation {printable(request)}", "request")
    version = parameters.get("version")
    if version and version != VERSION:
        words = f"the version is {VERSION}, not {printable(version)}"
        if found is Operation.GET_CAPABILITIES:
            raise VersionNegotiationError(words)
        raise InvalidParameterError(words, "version")
    return found


def capabilities_request(parameters: Mapping[str, str]) -> CapabilitiesRequest:
    """Read a GetCapabilities request. UPDATESEQUENCE is ignored because documents have none.

    Raises:
        VersionNegotiationError: ACCEPTVERSIONS does not contain 1.0.0.
        MissingParameterError: SECTIONS is empty.
        InvalidParameterError: SECTIONS names an unknown section.
    """
    versions = items(parameters.get("acceptversions", ""))
    if versions and VERSION not in versions:
        raise VersionNegotiationError(f"the only version is {VERSION}")
    formats = (item.lower() for item in items(parameters.get("acceptformats", "")))
    return CapabilitiesRequest(
        _sections(parameters.get("sections")),
        next((name for name in formats if name in MEDIA_TYPES), MEDIA_TYPES[0]),
    )


def _sections(value: str | None) -> frozenset[str] | None:
    if value is None:
        return None
    names = items(value)
    if not names:
        raise MissingParameterError("the parameter SECTIONS is empty", "sections")
    found = {_SECTION_NAMES.get(name.lower(), name) for name in names}
    unknown = found.difference(_SECTION_NAMES.values())
    if unknown:
        raise InvalidParameterError(f"Unknown section {printable(min(unknown))}", "sections")
    return None if "All" in found else frozenset(found)


def tile_request(
    parameters: Mapping[str, str], dimensions: Sequence[Dimension] = ()
) -> TileRequest:
    """Return the requested tile from GetTile parameters, still unchecked.

    Args:
        dimensions: of all layers.
    """
    get = parameters.get
    values = requested_values(parameters, dimensions) if dimensions else _NO_VALUES
    return TileRequest(
        get("layer"),
        get("style"),
        get("format"),
        get("tilematrixset"),
        get("tilematrix"),
        get("tilerow"),
        get("tilecol"),
        values=values,
    )


def feature_info_request(
    parameters: Mapping[str, str], dimensions: Sequence[Dimension] = ()
) -> FeatureInfoRequest:
    """Return the requested pixel from GetFeatureInfo parameters, still unchecked.

    Args:
        dimensions: of all layers.
    """
    get = parameters.get
    info_format = get("infoformat") or get("info_format")  # the second is the name in WMS
    return FeatureInfoRequest(
        tile_request(parameters, dimensions),
        info_format,
        get("i"),
        get("j"),
        with_sources=flag(get("provenance", "")) is True,
    )


def info_format(value: str | None) -> str:
    """Return the media type of the answer, in lower case.

    Raises:
        MissingParameterError: absent or empty.
        InvalidParameterError: not one of `INFO_FORMATS`, in any letter case.
    """
    if not value:
        raise MissingParameterError("the parameter INFOFORMAT is missing", "InfoFormat")
    if value.lower() not in INFO_FORMATS:
        raise InvalidParameterError(f"there is no InfoFormat {printable(value)}", "InfoFormat")
    return value.lower()
