"""The formats of coverages, by ``f``, Accept and Accept-Profile."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError, NotAcceptableError
from mastaba_ogcapi.negotiation import ANYTHING, normalized, preferred
from mastaba_ows.links import HTML, JSON

if TYPE_CHECKING:
    from mastaba.api.web import Request

GEOTIFF: Final = "image/tiff; application=geotiff"
"""Media type, written exactly as GDAL compares it."""
CHUNK: Final = "application/octet-stream"
"""Media type of the chunks of Zarr arrays."""
_PROFILE: Final = "http://www.opengis.net/def/profile/geotiff/cloud-optimized"


class CoverageFormat(Enum):
    """A format, and its media type."""

    EXACT = GEOTIFF
    COG = f"{GEOTIFF}; profile=cloud-optimized"
    PNG = "image/png"
    JPEG = "image/jpeg"
    WEBP = "image/webp"
    VALUES = JSON
    PAGE = HTML

    @property
    def short(self) -> str:
        """Value of ``f``."""
        return next(name for name, item in _NAMES.items() if item is self)

    @property
    def encoder(self) -> str:
        """Name of the format for an extraction."""
        return _ENCODERS.get(self, "tiff")


_ENCODERS: Final = {
    CoverageFormat.PNG: "png",
    CoverageFormat.JPEG: "jpeg",
    CoverageFormat.WEBP: "webp",
}
_NAMES: Final = {
    "geotiff": CoverageFormat.EXACT,
    "tiff": CoverageFormat.EXACT,
    "gtiff": CoverageFormat.EXACT,
    "image/tiff": CoverageFormat.EXACT,
    "image/geotiff": CoverageFormat.EXACT,
    "application/x-geotiff": CoverageFormat.EXACT,
    "image/tiff;application=geotiff": CoverageFormat.EXACT,
    "cog": CoverageFormat.COG,
    "image/tiff;application=geotiff;profile=cloud-optimized": CoverageFormat.COG,
    "png": CoverageFormat.PNG,
    "jpg": CoverageFormat.JPEG,
    "jpeg": CoverageFormat.JPEG,
    "webp": CoverageFormat.WEBP,
    "json": CoverageFormat.VALUES,
    "html": CoverageFormat.PAGE,
    **{item.value: item for item in CoverageFormat},
}
_TIFF: Final = ("image/tiff", "image/geotiff", "application/x-geotiff")
_PAGE: Final = (CoverageFormat.PAGE, ("text/html",))
_PICTURES: Final = tuple((item, (item.value,)) for item in _ENCODERS)


def wanted_format(
    request: Request, *, is_whole: bool, is_position: bool, is_picture: bool
) -> CoverageFormat:
    """Return the format of an answer.

    Args:
        is_whole: whether the request selects nothing: a COG then, unless it says otherwise.
        is_position: whether it asks for the values at a position.
        is_picture: whether the values are 8-bit.

    Raises:
        InvalidParameterError: ``f`` names none.
        NotAcceptableError: the client accepts none.
    """
    name = request.query.get("f")
    if name is not None:
        found = _NAMES.get(normalized(name))
        if found is None or (found in _ENCODERS and not is_picture):
            offered = "geotiff, cog, png, jpeg or webp" if is_picture else "geotiff or cog"
            raise InvalidParameterError(f"there is no format {printable(name)}; use {offered}", "f")
        if is_position != (found is CoverageFormat.VALUES):
            raise InvalidParameterError("f=json has the values at one position, and only that", "f")
        return found
    accepted = request.header("Accept") or ANYTHING
    # Parameters of the media type do not choose here, but some clients send them.
    bare = ",".join(
        ";".join(part for part in item.split(";") if "=" not in part or part.strip()[:2] == "q=")
        for item in accepted.split(",")
    )
    offers: list[tuple[CoverageFormat, tuple[str, ...]]]
    if is_position:
        offers = [(CoverageFormat.VALUES, (JSON,))]
    else:
        offers = [(CoverageFormat.EXACT, _TIFF), *(_PICTURES if is_picture else ())]
    # A browser accepts anything, and gets the page by f=html.
    offers.append(_PAGE)
    position = preferred(bare, tuple(types for _, types in offers), anything_is_first=True)
    if position is None:
        raise NotAcceptableError(f"this is sent as {offers[0][1][0]}", "f")
    found, _ = offers[position]
    if found is not CoverageFormat.EXACT:
        return found
    wants_cog = "cloud-optimized" in accepted or _PROFILE in (
        request.header("Accept-Profile") or ""
    )
    return CoverageFormat.COG if is_whole or wants_cog else CoverageFormat.EXACT
