"""A request for a coverage: its area, size, fields and format."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import CRS, CRS84
from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError
from mastaba_coverage import (
    Coverage,
    CoverageRequest,
    Interval,
    Scaling,
    TiffOptions,
    Trim,
)
from mastaba_ogcapi import params
from mastaba_ogcapi.coverages.formats import CoverageFormat, wanted_format
from mastaba_ogcapi.dimensions import axis_names
from mastaba_ogcapi.maparea import by_axis
from mastaba_ows.crs import offered_crs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mastaba.api.web import Request
    from mastaba_ogcapi.dataset import Collection

_MOST_CELLS: Final = 10**9
_LEGACY: Final = (
    "scale-factor",
    "scale-axes",
    "scale-size",
    "scalefactor",
    "scaleaxes",
    "scalesize",
)
"""Parameters of earlier drafts, and of GDAL."""
_TIFF: Final = (
    *("compression", "predictor", "tiling", "tile-width", "tile-height", "interleave"),
    *("fit", "pad", "overview-count", "sparse", "mask"),
)
_INTERPOLATIONS: Final = {
    "nearest-neighbor": "nn",
    "linear": "linear",
    "cubic": "bicubic",
    "mean": "mean",
}
"""Kernels by their names in the header Prefer."""
_INTERPOLATION: Final = re.compile(
    r"(?:^|[,;])\s*interpolation\s*=\s*\"?\[?(?:ogc-interpolation:)?([a-z-]{1,40})\]?\"?",
    re.IGNORECASE,
)
_STRICT: Final = re.compile(r"(?:^|[,;])\s*handling\s*=\s*\"?strict\b", re.IGNORECASE)


class CoverageQuery:
    """What a request for a coverage selects.

    Args:
        collection: whose coverage it is.
        coverage: the stored values.
        request: the request.

    Attributes:
        format: format of the answer.
        wanted: what to extract, if it is no position.
        position: CRS, x and y of a position whose values are requested; None for an area.
        fields: names of the requested fields.
        preference: the preference that is applied, for a header; None if there is none.

    Raises:
        InvalidParameterError: a parameter is invalid, or is not offered.
        NotAcceptableError: the client accepts no format.
    """

    def __init__(self, collection: Collection, coverage: Coverage, request: Request) -> None:
        self._collection = collection
        self._coverage = coverage
        parameters = request.query
        self.fields = _fields(
            coverage, parameters.get("properties"), parameters.get("exclude-properties")
        )
        trim = self._trim(request)
        self.position = None if trim is None else self._position(trim, request)
        crs = None
        if "crs" in parameters:
            crs = offered_crs(parameters["crs"], collection.crs, "crs")
        scaling, axes = _scaling(parameters)
        if scaling is not None and self.position is not None:
            raise InvalidParameterError(
                "subset selects a position, which has no size", scaling_parameter(parameters)
            )
        if axes in (("lat", "lon"), ("lon", "lat")) and crs is None:
            # Sizes are on the axes of the answer, so they say what its CRS is.
            crs = CRS.from_code(CRS84)
        level = parameters.get("level")
        is_plain = trim is None and crs is None and scaling is None and level is None
        self.format = wanted_format(
            request,
            is_whole=is_plain and self.fields == coverage.fields,
            is_position=self.position is not None,
            is_picture=coverage.dtype.kind == "u",
        )
        kernel = _kernel(request)
        self.preference = None
        if kernel is not None:
            name = next(key for key, value in _INTERPOLATIONS.items() if value == kernel)
            self.preference = f"interpolation=[ogc-interpolation:{name}]"
        self.wanted = CoverageRequest(
            trim,
            level,
            self.fields,
            crs,
            scaling,
            kernel,
            is_cog=self.format is CoverageFormat.COG,
            format=self.format.encoder,
            tiff=TiffOptions.read({key: parameters[key] for key in _TIFF if key in parameters}),
        )

    def _trim(self, request: Request) -> Trim | None:
        parameters = request.query
        if "bbox" in parameters and "subset" in parameters and self._intervals(request):
            raise InvalidParameterError("subset and bbox exclude each other", "subset")
        if "bbox" in parameters:
            source = self._source(parameters, "bbox-crs")
            values = params.numbers(parameters["bbox"], "bbox", (4, 6))
            if len(values) == 6:
                del values[5], values[2]
            one, two, three, four = values
            if source.northing_first:
                one, two, three, four = two, one, four, three
            # The interval is closed: one without extent selects the cells that contain it.
            if not two <= four or (not one <= three and not source.is_geographic):
                raise InvalidParameterError("bbox has a minimum above its maximum", "bbox")
            return Trim(source, Interval(one, three), Interval(two, four))
        if "subset" in parameters:
            source = self._source(parameters, "subset-crs")
            intervals = self._intervals(request)
            if not intervals:
                return None
            x, y = by_axis(intervals, source)
            return Trim(source, Interval(*x), Interval(*y))
        return None

    def _intervals(self, request: Request) -> dict[str, params.Interval]:
        """Return the intervals of ``subset`` on the axes of the CRS."""
        return params.subsets(request, axis_names((self._collection.layer,)))

    def _position(self, trim: Trim, request: Request) -> tuple[CRS, float, float] | None:
        """Return the position of two single values; None for intervals, also without extent.

        Raises:
            InvalidParameterError: only one axis has a single value.
        """
        other = axis_names((self._collection.layer,))
        single = [
            name
            for name, ends in params.subset_texts(request).items()
            if name not in other and len(ends) == 1 and ends != [params.OPEN]
        ]
        if not single:
            return None
        if len(single) == 1 or trim.x.low is None or trim.y.low is None:
            raise InvalidParameterError(
                "subset has one value for an axis: give an interval", "subset"
            )
        return trim.crs, trim.x.low, trim.y.low

    def _source(self, parameters: Mapping[str, str], name: str) -> CRS:
        """Return the CRS of coordinates; CRS:84 if the parameter is absent."""
        text = parameters.get(name)
        if text is None:
            return CRS.from_code(CRS84)
        return offered_crs(text, {*self._collection.crs, CRS84}, name)


def scaling_parameter(parameters: Mapping[str, str]) -> str:
    """Return the name of the parameter that a request scales with."""
    names = ("width", "height", "resolution", *_LEGACY)
    return next((name for name in names if name in parameters), "width")


def _kernel(request: Request) -> str | None:
    """Return the preferred kernel; None without one, or if it is not offered.

    Raises:
        InvalidParameterError: it is not offered, and the client wants to know that.
    """
    preferences = request.header("Prefer") or ""
    found = _INTERPOLATION.search(preferences)
    if found is None:
        return None
    kernel = _INTERPOLATIONS.get(found[1].lower())
    if kernel is None and _STRICT.search(preferences):
        raise InvalidParameterError(
            f"there is no interpolation {printable(found[1])}; use {', '.join(_INTERPOLATIONS)}",
            "interpolation",
        )
    return kernel


def _scaling(parameters: Mapping[str, str]) -> tuple[Scaling | None, tuple[str, ...]]:
    """Return the size of the answer, and the axes that it names.

    Raises:
        InvalidParameterError: a parameter is invalid, or there are several kinds.
    """
    given = [name for name in _LEGACY if name in parameters]
    has_size = "width" in parameters or "height" in parameters
    resolution = parameters.get("resolution", "").strip()
    kinds = [*given, *(["width"] if has_size else ()), *(["resolution"] if resolution else ())]
    if not kinds:
        return None, ()
    if len(kinds) > 1:
        raise InvalidParameterError(f"{kinds[1]} and {kinds[0]} exclude each other", kinds[1])
    name = kinds[0]
    if name == "width":
        width, height = (params.size(parameters, key, _MOST_CELLS) for key in ("width", "height"))
        return Scaling(width=width, height=height), ()
    text = resolution if name == "resolution" else parameters[name]
    bare = params.positive_number({name: text}, name) if "(" not in text and text else None
    if bare is not None:
        if name == "resolution":
            return Scaling(resolution=(bare, bare)), ()
        if "size" in name:
            raise InvalidParameterError(f"{name} must be of the form Lat(256),Lon(256)", name)
        return Scaling(factor=(1 / bare, 1 / bare)), ()
    axes = params.axis_values(text, name)
    values: list[float | None] = [None, None]
    for axis, number in axes.items():
        place = _axis(axis)
        if place is None or values[place] is not None:
            raise InvalidParameterError(f"{name} names the axis {axis}", name)
        if number is not None and not 0 < number < math.inf:
            raise InvalidParameterError(f"{name} must be greater than 0", name)
        values[place] = number
    x, y = values
    found = tuple(axes)
    if x is None and y is None:
        return None, found  # the native resolution
    if "size" in name:
        sizes = [
            None if value is None else max(1, round(min(value, _MOST_CELLS))) for value in values
        ]
        return Scaling(width=sizes[0], height=sizes[1]), found
    if name == "resolution":
        if x is None or y is None:
            raise InvalidParameterError("resolution must name both axes", name)
        return Scaling(resolution=(x, y)), found
    return Scaling(factor=(1 / (x or 1.0), 1 / (y or 1.0))), found


def _size(value: float | None) -> int | None:
    return None if value is None else max(1, round(min(value, _MOST_CELLS)))


def _axis(name: str) -> int | None:
    """Return 0 for the axis to the east, 1 for that to the north, and None for another."""
    if name in ("lon", "long", "longitude", "e", "x", "easting", "i"):
        return 0
    return 1 if name in ("lat", "latitude", "n", "y", "northing", "j") else None


def _fields(coverage: Coverage, chosen: str | None, excluded: str | None) -> tuple[str, ...]:
    if chosen is not None and excluded is not None:
        raise InvalidParameterError(
            "properties and exclude-properties exclude each other", "exclude-properties"
        )
    if chosen is not None:
        return _names(chosen)
    if not excluded:
        return coverage.fields
    names = _names(excluded)
    unknown = next((name for name in names if name not in coverage.fields), None)
    if unknown is not None:
        # The extraction reports it.
        return (unknown,)
    left = tuple(name for name in coverage.fields if name not in names)
    if not left:
        raise InvalidParameterError("exclude-properties leaves no field", "exclude-properties")
    return left


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text[:200].split(",")))
