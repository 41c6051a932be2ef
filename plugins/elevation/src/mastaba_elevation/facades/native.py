"""The native routes: ``/points``, ``/profile`` and ``/statistics`` (elevation.md 3.3).

The geometry is WKT (``coords``) or GeoJSON (``geometry``, or the body of a POST). Coordinates are
x before y in every CRS.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import orjson

from mastaba.api.catalogue import CRS, WGS84
from mastaba.errors import InvalidParameterError, MissingParameterError, UnknownPathError
from mastaba_elevation.queries.ground import Floats
from mastaba_elevation.queries.lines import FILL, MODES, Line, Measure
from mastaba_elevation.queries.profile import MINMAX, ascent_and_descent
from mastaba_elevation.queries.queries import ProfileOptions
from mastaba_elevation.queries.sampling import Samples, SamplingOptions, resolutions
from mastaba_elevation.queries.statistics import PERCENTILES, StatisticsOptions
from mastaba_elevation.queries.taps import METHODS
from mastaba_elevation.web.facade import Facade, error_message
from mastaba_elevation.web.geometry import LINES, POLYGONS, Geometry, read_geojson
from mastaba_elevation.web.numbers import json_response, rounded
from mastaba_elevation.web.parameters import Parameters, read_request
from mastaba_elevation.web.wkt import read_wkt
from mastaba_ows.crs import crs_uri, offered_crs

if TYPE_CHECKING:
    from mastaba.api.web import Request, Response
    from mastaba_elevation.queries.datasets import Dataset

_PROFILE_POINTS: Final = 200
_CENTIMETRES: Final = 2
_FINEST: Final = 1e-6
"""Metres; the smallest resolution."""
_MOST_BINS: Final = 1000


class Native(Facade):
    """Points, profiles and statistics with everything that the sampler can do."""

    name: ClassVar[str] = "native"
    roots: ClassVar[frozenset[str]] = frozenset(("points", "profile", "statistics"))

    def respond(self, request: Request, path: list[str]) -> Response:
        if len(path) != 1:
            raise UnknownPathError
        parameters, geometry = _read(request)
        datasets, code = self.context.datasets, parameters.text("crs", "")
        only = None if "dataset" in parameters else datasets.only()
        dataset = only or datasets.qualified(parameters.text("dataset"))
        if dataset.dimensions:
            names = dataset.dimensions
            values = {name: parameters.text(name, "") for name in names if name in parameters}
            (dataset,) = datasets.at(dataset, values)
        crs = offered_crs(code, dataset.crs, "crs") if code else WGS84
        answer = {
            "points": self._points,
            "profile": self._profile,
            "statistics": self._statistics,
        }[path[0]]
        head = {
            "dataset": dataset.id,
            "crs": crs_uri(crs.code),
            "vertical": dataset.described,
            "unit": dataset.unit,
        }
        content = head | answer(dataset, parameters, geometry, crs)
        return json_response(request, content)

    def implied(self, request: Request) -> str:
        only = None if "dataset" in request.query else self.context.datasets.only()
        return "" if only is None else only.id

    def error_response(self, error: Exception, request: Request) -> Response:
        return error_message(error)

    def _points(
        self, dataset: Dataset, parameters: Parameters, geometry: Geometry, crs: CRS
    ) -> dict[str, Any]:
        if geometry.kind in POLYGONS:
            raise InvalidParameterError("the geometry is neither points nor a line", "geometry")
        options = SamplingOptions(
            parameters.choice("interpolation", METHODS, dataset.interpolation),
            parameters.optional("resolution", _FINEST),
            parameters.flag("strict"),
        )
        x, y = geometry.x, geometry.y
        samples = self.context.queries.points(dataset, x, y, crs, options)
        cells = resolutions(dataset, samples, crs, x, y)
        return {"results": self._results(dataset, samples, x, y, cells)}

    def _profile(
        self, dataset: Dataset, parameters: Parameters, geometry: Geometry, crs: CRS
    ) -> dict[str, Any]:
        if geometry.kind not in LINES or len(geometry.parts) != 1:
            raise InvalidParameterError("the geometry is not one line", "geometry")
        queries = self.context.queries
        measure = Measure.of(
            crs,
            parameters.choice("path", ("straight", "geodesic"), ""),
            parameters.choice("distance", ("planar", "geodesic"), ""),
        )
        queries.check_count(len(geometry.x))
        line = Line.of(geometry.x, geometry.y, crs, measure)
        limit = queries.limits.points
        count = parameters.integer("points", min(_PROFILE_POINTS, limit), 2, limit)
        simplify = simplification(parameters)
        mode = parameters.choice("mode", MODES, "")
        if not mode and simplify is None and queries.needs_peaks(dataset, line, count):
            simplify = MINMAX
        method = parameters.choice("interpolation", METHODS, dataset.interpolation)
        hysteresis = parameters.number("hysteresis", 0.0, 0.0)
        found = queries.profile(
            dataset, line, ProfileOptions(mode or FILL, count, simplify, method)
        )
        cells = resolutions(dataset, found.samples, crs, found.x, found.y)
        results = self._results(dataset, found.samples, found.x, found.y, cells)
        distances = np.round(found.distances, _CENTIMETRES).tolist()
        for result, distance in zip(results, distances, strict=True):
            result["distance"] = distance
        up, down = ascent_and_descent(found.samples.heights, hysteresis)
        decimals = self.context.settings.decimals
        if decimals >= 0:
            up, down = round(up, decimals), round(down, decimals)
        return {"results": results, "ascent": up, "descent": down}

    def _statistics(
        self, dataset: Dataset, parameters: Parameters, geometry: Geometry, crs: CRS
    ) -> dict[str, Any]:
        if geometry.kind not in POLYGONS:
            raise InvalidParameterError("the geometry is not a polygon", "geometry")
        found = self.context.queries.statistics(
            dataset,
            geometry.parts,
            crs,
            statistics_wanted(parameters),
            parameters.optional("resolution", _FINEST),
        )
        return {"statistics": found}

    def _results(
        self, dataset: Dataset, samples: Samples, x: Floats, y: Floats, cells: Floats
    ) -> list[dict[str, Any]]:
        heights = rounded(samples.heights, self.context.settings.decimals)
        sizes = rounded(cells, 3)
        names = [layer.id for layer in dataset.layers]
        levels = [[level.id for level in layer.levels] for layer in dataset.layers]
        found = zip(
            x.tolist(),
            y.tolist(),
            heights,
            samples.layers.tolist(),
            samples.levels.tolist(),
            sizes,
            strict=True,
        )
        return [
            {
                "x": px,
                "y": py,
                "elevation": height,
                "layer": names[layer] if layer >= 0 else None,
                "level": levels[layer][level] if layer >= 0 else None,
                "resolution": cell,
            }
            for px, py, height, layer, level, cell in found
        ]


def statistics_wanted(parameters: Parameters) -> StatisticsOptions:
    """Return which statistics parameters ask for.

    Raises:
        InvalidParameterError: one of them is invalid.
    """
    shares = parameters.numbers("percentiles", PERCENTILES)
    if not all(0 <= share <= 100 for share in shares):
        raise InvalidParameterError("percentiles are from 0 to 100", "percentiles")
    bins: Any = parameters.numbers("histogram", (), _MOST_BINS + 1)
    if len(bins) == 1:
        bins = Parameters({"histogram": bins[0]}).integer("histogram", None, 1, _MOST_BINS)
    elif any(high <= low for low, high in pairwise(bins)):
        raise InvalidParameterError("the edges of the histogram do not ascend", "histogram")
    return StatisticsOptions(shares, bins, parameters.optional("plane"))


def simplification(parameters: Parameters) -> str | float | None:
    """Return how a profile is simplified: ``minmax``, metres (0 for not), or None for the default.

    Raises:
        InvalidParameterError: ``simplify`` is neither.
    """
    text = parameters.text("simplify", "")
    if text in ("", "none"):
        return 0.0 if text else None
    return MINMAX if text == MINMAX else parameters.number("simplify", None, 0.0)


def _read(request: Request) -> tuple[Parameters, Geometry]:
    parameters, document = read_request(request)
    if document is None:
        document = parameters.values.get("geometry")
    if isinstance(document, str):
        try:
            document = orjson.loads(document)
        except orjson.JSONDecodeError:
            raise InvalidParameterError("geometry is not valid JSON", "geometry") from None
    if document is not None:
        return parameters, read_geojson(document)
    if "coords" not in parameters:
        raise MissingParameterError("the parameter geometry or coords is missing", "geometry")
    return parameters, read_wkt(parameters.text("coords"))
