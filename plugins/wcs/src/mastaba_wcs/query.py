"""A GetCoverage request of version 2.0.1: its area, size, fields, CRS and format."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from mastaba.api.web import printable
from mastaba.errors import (
    InvalidParameterError,
    UnsupportedFormatError,
)
from mastaba_coverage import CoverageRequest, Interval, Scaling, TiffOptions, Trim
from mastaba_ows import parameters as grammar
from mastaba_wcs.errors import (
    IllegalFieldSequenceError,
    InterpolationError,
    InvalidAxisLabelError,
    InvalidExtentError,
    InvalidScaleFactorError,
    InvalidSubsettingError,
    NoSuchFieldError,
    OutputCRSError,
    ScaleAxisUndefinedError,
    SubsettingCRSError,
)
from mastaba_wcs.formats import is_cog, is_geotiff, kernel_of
from mastaba_wcs.parameters import Parameters
from mastaba_wcs.published import PublishedCoverage

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS

_SUBSET: Final = re.compile(
    r"([^\s(),]{1,64})\s*(?:,\s*([^\s()]{1,200})\s*)?\(([^(),]{1,400})(?:,([^(),]{1,400}))?\)"
)
_AXIS: Final = re.compile(r"\s*([^\s(),:]{1,64})\s*\(([^(),:]{1,80})(?::([^(),:]{1,80}))?\)\s*")
_DIMENSION: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]{0,31})\(([^()]{1,400})\)\s*")
_MAX_TEXT: Final = 1000
_OPEN: Final = "*"
_COLUMNS: Final = ("i", "e", "x", "lon", "long", "longitude", "easting")
_ROWS: Final = ("j", "n", "y", "lat", "latitude", "northing")
_OF_DEGREES: Final = ("lon", "long", "longitude", "lat", "latitude")
_OF_METRES: Final = ("e", "n", "easting", "northing")
_OF_GRID: Final = ("i", "j")
_SCALINGS: Final = (
    *("SCALEFACTOR", "SCALEAXES", "SCALESIZE", "SCALEEXTENT"),
    # OWSLib and its users send these.
    *("SIZE", "RESOLUTION", "WIDTH"),
)
_LARGEST: Final = 1_000_000_000
"""Cells of one axis."""
_GEOTIFF: Final = "geotiff:"
_ON_EDGE: Final = 0.01
"""Cells. A slice that is so close to the far edge of the coverage is in the last cell."""


class _Subset(NamedTuple):
    axis: str
    crs: str | None
    low: float | None
    high: float | None
    is_slice: bool


@dataclass(frozen=True, slots=True)
class CoverageQuery:
    """A GetCoverage request.

    Attributes:
        request: what to extract.
        is_multipart: whether a description precedes the file.
        is_one_sided: whether only one axis has a size: the other one then keeps its cells.
    """

    request: CoverageRequest
    is_multipart: bool
    is_one_sided: bool


def coverage_query(published: PublishedCoverage, parameters: Parameters) -> CoverageQuery:
    """Return the request of a client for one coverage.

    Raises:
        InvalidParameterError: a parameter is invalid, or is not offered; the type is that of the
            first error found.
    """
    media_type = parameters.only("MEDIATYPE")
    if media_type is not None and media_type.lower() != "multipart/related":
        raise InvalidParameterError("MEDIATYPE must be multipart/related", "mediaType")
    source = _crs(published, parameters.only("SUBSETTINGCRS"), SubsettingCRSError, "subsettingCrs")
    trim, stated = _trim(published, parameters.values_of("SUBSET"), source)
    # Without another word, the answer is in the CRS of the subsets (OGC 11-053r1 requirement 10).
    output = parameters.only("OUTPUTCRS") or parameters.only("CRS")
    target = _crs(published, output, OutputCRSError, "outputCrs") or source or stated
    scaling, is_one_sided = _scaling(parameters, target or published.crs)
    name = parameters.only("FORMAT")
    if not (name is None or is_geotiff(name) or is_cog(name)):
        raise UnsupportedFormatError(f"there is no format {printable(name)}", "format")
    request = CoverageRequest(
        trim=trim,
        fields=_fields(published.coverage.fields, parameters.only("RANGESUBSET")),
        crs=target,
        scaling=scaling,
        kernel=_kernel(parameters.values_of("INTERPOLATION")),
        is_cog=name is not None and is_cog(name),
        tiff=_tiff_options(parameters),
    )
    return CoverageQuery(request, media_type is not None, is_one_sided)


def split_subsets(
    parameters: Parameters, dimensions: frozenset[str]
) -> tuple[dict[str, str], Parameters]:
    """Return the values of dimensions in subsets, by name, and the parameters without these.

    Raises:
        InvalidParameterError: an axis is named twice, or there are too many subsets.
    """
    found: dict[str, str] = {}
    pairs = []
    for name in parameters if dimensions else ():
        for text in parameters.values_of(name):
            match = _DIMENSION.fullmatch(text[:_MAX_TEXT]) if name == "subset" else None
            axis = "" if match is None else match[1].lower()
            axis = "time" if axis in ("t", "datetime") else axis
            if match is None or axis not in dimensions:
                pairs.append((name, text))
                continue
            if axis in found:
                raise InvalidAxisLabelError("the request names the axis twice", match[1])
            ends = [end.strip().strip('"') for end in match[2].split(",")]
            found[axis] = "/".join(".." if end == _OPEN else end for end in ends)
    return found, Parameters(pairs) if found else parameters


def _crs(
    published: PublishedCoverage,
    text: str | None,
    error: type[InvalidParameterError],
    parameter: str,
) -> CRS | None:
    if text is None:
        return None
    found = published.offered_crs(text)
    if found is None:
        raise error(f"the CRS {printable(text)} is not offered for this coverage", parameter)
    return found


def _trim(
    published: PublishedCoverage, texts: list[str], source: CRS | None
) -> tuple[Trim | None, CRS | None]:
    """Return the area, and the CRS that the subsets themselves name."""
    if not texts:
        return None, None
    subsets = [_subset(text) for text in texts]
    texts_of_crs = {one.crs for one in subsets if one.crs is not None}
    found_crs = {
        _crs(published, text, SubsettingCRSError, "subsettingCrs") for text in texts_of_crs
    }
    if len(found_crs) > 1 or (found_crs and source is not None):
        raise InvalidSubsettingError("subsets must all be in one CRS", "subset")
    stated = found_crs.pop() if found_crs else None
    crs = source or stated or published.crs
    found: dict[str, Interval] = {}
    for one in subsets:
        side = _side(one.axis, crs)
        if side is None or side in found:
            problem = "the request names it twice" if side else f"{crs.code} has no such axis"
            raise InvalidAxisLabelError(
                f"the axis {printable(one.axis)} is not valid: {problem}", one.axis
            )
        found[side] = _cell(published, one, crs, side) if one.is_slice else _interval(one)
    return Trim(crs, found.get("x", Interval()), found.get("y", Interval())), stated


def _subset(text: str) -> _Subset:
    match = _SUBSET.fullmatch(text.strip()) if len(text) <= _MAX_TEXT else None
    if match is None:
        raise InvalidParameterError("SUBSET must be of the form axis(low,high)", "subset")
    axis, crs, low, high = match.groups()
    first = _limit(low, axis)
    if high is None:
        if first is None:
            raise InvalidSubsettingError(f"{printable(axis)} has no position", axis)
        return _Subset(axis, crs, first, first, True)
    last = _limit(high, axis)
    return _Subset(axis, crs, first, last, first is not None and first == last)


def _limit(text: str, axis: str) -> float | None:
    text = text.strip().strip('"')
    if text == _OPEN:
        return None
    value = grammar.decimal(text)
    if value is None:
        raise InvalidSubsettingError(
            f"a limit of {printable(axis)} is not a number: {printable(text)}", axis
        )
    return value


def _interval(subset: _Subset) -> Interval:
    low, high = subset.low, subset.high
    if low is not None and high is not None and low > high:
        raise InvalidSubsettingError(
            f"the limits of {printable(subset.axis)} are in the wrong order", subset.axis
        )
    return Interval(low, high)


def _cell(published: PublishedCoverage, subset: _Subset, crs: CRS, side: str) -> Interval:
    """Return an interval inside the one cell that a slice selects."""
    position = subset.low
    assert position is not None
    if crs is not published.crs:
        raise InvalidSubsettingError(
            f"one position on {printable(subset.axis)} must be in the CRS of the coverage",
            subset.axis,
        )
    edges, size = published.edges, published.grid.matrix.cell_size
    low, high = (edges.xmin, edges.xmax) if side == "x" else (edges.ymin, edges.ymax)
    margin = _ON_EDGE * size
    if not low - margin <= position <= high + margin:
        raise InvalidSubsettingError("the position is outside the coverage", subset.axis)
    number = min(max(math.floor((position - low) / size), 0), round((high - low) / size) - 1)
    middle = low + (number + 0.5) * size
    return Interval(middle - size / 4, middle + size / 4)


def _side(axis: str, crs: CRS, *, of_grid: bool = False) -> str | None:
    """Return ``x`` or ``y`` for the name of an axis; None if the CRS has no such axis."""
    name = axis.lower()
    unknown = _OF_METRES if crs.is_geographic else _OF_DEGREES
    if name in unknown or (name in _OF_GRID and not of_grid):
        return None
    return "x" if name in _COLUMNS else "y" if name in _ROWS else None


def _scaling(parameters: Parameters, crs: CRS) -> tuple[Scaling | None, bool]:
    given = [name for name in _SCALINGS if parameters.values_of(name)]
    if "WIDTH" not in given and parameters.values_of("HEIGHT"):
        given.append("WIDTH")
    if len(given) > 1:
        raise InvalidParameterError(f"{given[0]} and {given[1]} exclude each other", given[1])
    if not given:
        return None, False
    name = given[0]
    if name == "SCALEFACTOR":
        factor = _positive(parameters.required(name), name)
        return Scaling(factor=(factor, factor)), False
    if name == "WIDTH":
        sides = (parameters.only("WIDTH"), parameters.only("HEIGHT"))
        width, height = (None if text is None else _size(text, name) for text in sides)
        return Scaling(width=width, height=height), False
    values = dict(_axes(parameters, name, crs))
    if name == "SCALEAXES":
        factors = {side: _positive(low, name) for side, (low, _) in values.items()}
        return Scaling(factor=(factors.get("x", 1.0), factors.get("y", 1.0))), False
    if name == "RESOLUTION":
        cells = {side: _positive(low, name) for side, (low, _) in values.items()}
        if len(cells) < 2:
            raise InvalidParameterError("RESOLUTION must name both axes", name)
        return Scaling(resolution=(cells["x"], cells["y"])), False
    sizes = {side: _cells(low, high, name) for side, (low, high) in values.items()}
    return Scaling(width=sizes.get("x"), height=sizes.get("y")), len(sizes) < 2


def _axes(
    parameters: Parameters, name: str, crs: CRS
) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """Yield ``x`` or ``y`` and the values of each axis that a parameter names."""
    found = set()
    for text in parameters.values_of(name):
        position, end = 0, len(text)
        while True:
            match = _AXIS.match(text, position) if end <= _MAX_TEXT else None
            if match is None or (match.end() < end and text[match.end()] != ","):
                raise InvalidScaleFactorError(f"{name} must be of the form i(1),j(1)", name)
            axis, low, high = match.groups()
            side = _side(axis, crs, of_grid=True)
            if side is None:
                raise ScaleAxisUndefinedError(f"there is no axis {printable(axis)}", axis)
            if side in found:
                raise InvalidScaleFactorError(f"{name} names the axis {axis} twice", name)
            if (high is not None) != (name == "SCALEEXTENT"):
                raise InvalidScaleFactorError(f"{name} has another number of values", name)
            found.add(side)
            yield side, (low, high)
            if match.end() == end:
                break
            position = match.end() + 1


def _cells(low: str, high: str | None, name: str) -> int:
    """Return the cells of one axis: a size, or those between two grid positions."""
    if high is None:
        return _size(low, name)
    first, last = grammar.decimal(low), grammar.decimal(high)
    if first is None or last is None or not (first.is_integer() and last.is_integer()):
        raise InvalidExtentError(f"{name} must have integers", name)
    if last < first:
        raise InvalidExtentError(f"{name} has its limits in the wrong order", name)
    return _size(str(int(last - first) + 1), name)


def _size(text: str, name: str) -> int:
    value = grammar.decimal(text)
    # Some clients write whole numbers with decimals.
    if value is None or not (value.is_integer() and 1 <= value <= _LARGEST):
        raise InvalidScaleFactorError(f"{name} must be an integer from 1", name)
    return int(value)


def _positive(text: str, name: str) -> float:
    value = grammar.decimal(text)
    if value is None or value <= 0:
        raise InvalidScaleFactorError(f"{name} must be greater than 0: {printable(text)}", text)
    return value


def _fields(offered: tuple[str, ...], text: str | None) -> tuple[str, ...] | None:
    """Return the fields that RANGESUBSET names, with those between the ends of intervals."""
    if text is None:
        return None
    names: list[str] = []
    for item in text[:_MAX_TEXT].split(","):
        first, colon, last = item.partition(":")
        ends = [first.strip(), last.strip()] if colon else [first.strip()]
        for end in ends:
            if end not in offered:
                raise NoSuchFieldError(
                    f"there is no field {printable(end)}; fields are {', '.join(offered)}", end
                )
        start, stop = offered.index(ends[0]), offered.index(ends[-1])
        if stop < start:
            raise IllegalFieldSequenceError(
                f"the interval {printable(item)} ends before it begins", ends[-1]
            )
        names += offered[start : stop + 1]
    if len(set(names)) < len(names):
        raise InvalidParameterError("RANGESUBSET names a field twice", "rangeSubset")
    return tuple(names)


def _kernel(texts: list[str]) -> str | None:
    """Return the kernel of an interpolation method; None without one, or with the default."""
    kernels = set()
    for text in filter(None, texts):
        kernel = kernel_of(text)
        if kernel is None:
            raise InterpolationError(
                f"there is no interpolation method {printable(text)}", "interpolation"
            )
        kernels.add(kernel)
    if len(kernels) > 1:
        raise InterpolationError("all axes must have the same interpolation", "interpolation")
    return kernels.pop() if kernels else None


def _tiff_options(parameters: Parameters) -> TiffOptions:
    options = {
        name.removeprefix(_GEOTIFF): _option(value)
        for name, value in parameters.items()
        if name.startswith(_GEOTIFF)
    }
    try:
        return TiffOptions.read(options)
    except InvalidParameterError as error:
        raise InvalidParameterError(str(error), f"{_GEOTIFF}{error.parameter}") from error


def _option(value: str) -> str:
    """Return the value of an option in the words of the engine.

    The names of OGC 12-100r1 differ: ``None``, ``Deflate``, ``FloatingPoint``, ``True``.
    """
    value = value.lower()
    return "floating-point" if value == "floatingpoint" else value
