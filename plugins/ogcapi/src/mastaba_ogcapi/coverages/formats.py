"""The formats of coverages, by ``f``, Accept and Accept-Profile."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError
from mastaba_ogcapi.negotiation import ANYTHING, normalized, preferred
from mastaba_ows.errors import NotAcceptableError

if TYPE_CHECKING:
    from mastaba.api.web import Request

GEOTIFF: Final = "image/tiff; application=geotiff"
"""Media type, written exactly as GDAL compares it."""
_PROFILE: Final = "http://www.opengis.net/def/profile/geotiff/cloud-optimized"


class CoverageFormat(Enum):
    """A format, and its media type."""

    EXACT = GEOTIFF
    COG = f"{GEOTIFF}; profile=cloud-optimized"


_NAMES: Final = {
    "geotiff": CoverageFormat.EXACT,
    "tiff": CoverageFormat.EXACT,
    "image/tiff": CoverageFormat.EXACT,
    "image/geotiff": CoverageFormat.EXACT,
    "image/tiff;application=geotiff": CoverageFormat.EXACT,
    "cog": CoverageFormat.COG,
    "image/tiff;application=geotiff;profile=cloud-optimized": CoverageFormat.COG,
}
_ACCEPTED: Final = (("image/tiff", "image/geotiff", "application/x-geotiff"),)


def wanted_format(request: Request, *, is_whole: bool) -> CoverageFormat:
    """Return the format of an answer.

    Args:
        is_whole: whether the request selects nothing: a COG then, unless it says otherwise.

    Raises:
        InvalidParameterError: ``f`` names none.
        NotAcceptableError: the client accepts none.
    """
    name = request.query.get("f")
    if name is not None:
        found = _NAMES.get(normalized(name))
        if found is None:
            raise InvalidParameterError(
                f"there is no format {printable(name)}; use geotiff or cog", "f"
            )
        return found
    accepted = request.header("Accept") or ANYTHING
    # Parameters of the media type do not choose here, but some clients send them.
    bare = ",".join(
        ";".join(part for part in item.split(";") if "=" not in part or part.strip()[:2] == "q=")
        for item in accepted.split(",")
    )
    if preferred(bare, _ACCEPTED) is None:
        raise NotAcceptableError("coverages are sent as image/tiff", "f")
    wants_cog = "cloud-optimized" in accepted or _PROFILE in (
        request.header("Accept-Profile") or ""
    )
    return CoverageFormat.COG if is_whole or wants_cog else CoverageFormat.EXACT
