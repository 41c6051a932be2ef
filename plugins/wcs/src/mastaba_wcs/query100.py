"""A GetCoverage request of version 1.0.0: extent and size are exactly those of the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mastaba.api.web import printable
from mastaba.errors import (
    InvalidParameterError,
    MissingParameterError,
    UnsupportedFormatError,
)
from mastaba_coverage import CoverageRequest, Interval, Scaling, Trim
from mastaba_ows import parameters as grammar
from mastaba_wcs.formats import is_geotiff, kernel_of_100

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS
    from mastaba.api.services import MapSettings
    from mastaba_wcs.parameters import Parameters
    from mastaba_wcs.published import PublishedCoverage

_CORNERS: Final = (4, 6)
_FURTHEST: Final = 1e10


def coverage_query_100(
    published: PublishedCoverage, parameters: Parameters, limits: MapSettings
) -> CoverageRequest:
    """Return the request of a client for one coverage.

    Args:
        limits: of maps, which also hold for these coverages.

    Raises:
        MissingParameterError, InvalidParameterError: a parameter is missing or invalid.
        UnsupportedFormatError: there is no such format.
    """
    crs = _crs(published, parameters.required("CRS"), "CRS")
    other = parameters.only("RESPONSE_CRS")
    target = crs if other is None else _crs(published, other, "RESPONSE_CRS")
    west, south, east, north = _corners(parameters.required("BBOX"))
    width = _side(parameters, "WIDTH", "RESX", east - west, limits.max_width)
    height = _side(parameters, "HEIGHT", "RESY", north - south, limits.max_height)
    if width * height > limits.max_pixels:
        raise InvalidParameterError(
            f"the coverage would have more than {limits.max_pixels} cells; "
            "version 2.0.1 has no such limit",
            "WIDTH",
        )
    name = parameters.required("FORMAT")
    if not is_geotiff(name):
        raise UnsupportedFormatError(f"there is no format {printable(name)}", "FORMAT")
    return CoverageRequest(
        trim=Trim(crs, Interval(west, east), Interval(south, north)),
        crs=target,
        scaling=Scaling(width=width, height=height),
        kernel=_kernel(parameters.only("INTERPOLATION")),
        is_fixed=True,
    )


def _crs(published: PublishedCoverage, text: str, parameter: str) -> CRS:
    found = published.offered_crs(text)
    if found is None:
        raise InvalidParameterError(
            f"the CRS {printable(text)} is not offered for this coverage", parameter
        )
    return found


def _corners(text: str) -> tuple[float, float, float, float]:
    """Return west, south, east and north; heights of a box in three dimensions are dropped."""
    numbers = grammar.decimals(text, _CORNERS)
    if numbers is None or max(map(abs, numbers)) > _FURTHEST:
        raise InvalidParameterError(
            "BBOX must be four decimal numbers that are possible in a CRS", "BBOX"
        )
    west, south, *_ = numbers
    east, north = numbers[len(numbers) // 2 :][:2]
    if west >= east or south >= north:
        raise InvalidParameterError("BBOX must have each minimum below its maximum", "BBOX")
    return west, south, east, north


def _side(parameters: Parameters, name: str, resolution: str, length: float, limit: int) -> int:
    """Return the cells of one side, from its size or from the size of a cell."""
    text, cell_text = parameters.only(name), parameters.only(resolution)
    if text is not None and cell_text is not None:
        raise InvalidParameterError(f"{name} and {resolution} exclude each other", resolution)
    if text is not None:
        cells = grammar.size(text, limit)
        if cells is None:
            raise InvalidParameterError(
                f"{name} must be an integer from 1 to {limit}; version 2.0.1 has no such limit",
                name,
            )
        return cells
    if cell_text is None:
        raise MissingParameterError(f"the parameter {name} is missing", name)
    cell = grammar.decimal(cell_text)
    if cell is None or cell <= 0:
        raise InvalidParameterError(f"{resolution} must be greater than 0", resolution)
    ratio = length / cell
    if not ratio < limit + 0.5:
        raise InvalidParameterError(
            f"the coverage would have more than {limit} cells on one side; "
            "version 2.0.1 has no such limit",
            resolution,
        )
    return max(1, round(ratio))


def _kernel(text: str | None) -> str | None:
    if text is None:
        return None
    found = kernel_of_100(text)
    if found is None:
        raise InvalidParameterError(
            f"there is no interpolation method {printable(text)}", "INTERPOLATION"
        )
    return found
