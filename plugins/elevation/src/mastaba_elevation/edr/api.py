"""The API: paths, queries and errors (elevation.md 2.2, 2.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from mastaba.api.catalogue import WGS84
from mastaba.api.web import (
    Document,
    Response,
    content_disposition,
    problem,
    spooled,
)
from mastaba.errors import InvalidParameterError, NoSuchValueError, UnknownPathError, public_message
from mastaba_elevation.edr import query as q
from mastaba_elevation.edr.answers import Cells, Found, Points, series
from mastaba_elevation.edr.areas import area_of, polygon_of
from mastaba_elevation.edr.collection import (
    collection_document,
    collections_document,
    interval_of,
)
from mastaba_elevation.edr.covjson import coverage
from mastaba_elevation.edr.geojson import features, statistics_feature
from mastaba_elevation.edr.landing import (
    collection_page,
    collections_page,
    conformance,
    conformance_page,
    landing_page,
    start_page,
)
from mastaba_elevation.edr.names import (
    AREA,
    COVERAGE,
    CSV,
    CUBE,
    DISTANCE,
    ELEVATION,
    GEOJSON,
    GEOTIFF,
    LAYER,
    MEDIA_TYPES,
    OUTPUT,
    PARAMETERS,
    POSITION,
    RADIUS,
    RESOLUTION,
    SOURCES,
    TRAJECTORY,
    collection_uri,
)
from mastaba_elevation.edr.openapi import api_page, definition
from mastaba_elevation.edr.sources import have_sources, source_columns
from mastaba_elevation.edr.table import table
from mastaba_elevation.edr.trajectory import heights_along
from mastaba_elevation.edr.written import coverage_pieces, feature_pieces, table_pieces
from mastaba_elevation.facades.native import statistics_wanted
from mastaba_elevation.queries.ground import TURN
from mastaba_elevation.queries.polygons import Ring
from mastaba_elevation.queries.sampling import SamplingOptions, resolutions
from mastaba_elevation.queries.taps import METHODS
from mastaba_elevation.web.facade import Context, Facade, status_of
from mastaba_elevation.web.geometry import LINES, POINTS, Geometry
from mastaba_elevation.web.numbers import json_document, json_response, rounded, to_json
from mastaba_elevation.web.pages import page_response
from mastaba_elevation.web.parameters import Parameters, parameters_of
from mastaba_ows.links import HTML, JSON, OPENAPI
from mastaba_render.api.encoders import Raster
from mastaba_server.web.large import large_response
from mastaba_server.web.pages import wants_page
from mastaba_server.web.pieces import in_pieces

if TYPE_CHECKING:
    from mastaba.api.web import Request
    from mastaba_elevation.queries.datasets import Dataset

MOST_VALUES: Final = 1_000_000
"""Values of a grid in one answer."""

MOST_TIMES: Final = 500
"""Times of a position in one answer."""

_GEOTIFF: Final = "image/geotiff"
_NODATA: Final = -99999.0
_TYPES: Final = {
    400: "InvalidParameterValue",
    404: "NotFound",
    406: "NotAcceptable",
    413: "RequestTooLarge",
    415: "UnsupportedMediaType",
}


class Edr(Facade):
    """Environmental Data Retrieval on every dataset."""

    name: ClassVar[str] = "edr"
    roots: ClassVar[frozenset[str]] = frozenset(("edr",))

    def __init__(self, context: Context, own: Mapping[str, Any]) -> None:
        super().__init__(context, own)
        self.uri = f"{context.uri}/edr"
        self._temporal: bool = own.get("temporal", True)
        self._documents = lru_cache(maxsize=1024)(self._document)
        self._pages = lru_cache(maxsize=1024)(self._page)

    def respond(self, request: Request, path: list[str]) -> Response:
        match path[1:]:
            case ["collections", identifier, name] if name in OUTPUT:
                return self._query(request, identifier, name)
            case ["collections"] if request.method == "GET":
                return self._collections(request)
            case ["api"] if request.method == "GET":
                return self._api(request)
            case rest if request.method == "GET" and wants_page(request):
                return page_response(request, self._pages(tuple(rest)))
            case rest if request.method == "GET":
                _check_json(request)
                return self._documents(tuple(rest)).respond(request)
        raise UnknownPathError

    def error_response(self, error: Exception, request: Request) -> Response:
        status = status_of(error)
        text = public_message(error)
        kind = _TYPES.get(status, "ServerError")
        # Required by the schema of exceptions of EDR.
        more = {"code": str(status), "description": text}
        return problem(status, text, kind=kind, more=more, media_type=JSON)

    def _document(self, path: tuple[str, ...]) -> Document:
        match path:
            case ():
                return json_document(landing_page(self.context, self.uri))
            case ("conformance",):
                return json_document(conformance())
            case ("collections", identifier):
                return json_document(self._collection(self._dataset(identifier)))
        raise UnknownPathError

    def _page(self, path: tuple[str, ...]) -> Document:
        match path:
            case ():
                return start_page(self.context, self.uri)
            case ("conformance",):
                return conformance_page(self.uri)
            case ("collections", identifier):
                return collection_page(self.context, self.uri, self._dataset(identifier))
        raise UnknownPathError

    def _dataset(self, identifier: str) -> Dataset:
        return self.context.datasets.qualified(identifier, "collectionId")

    def _collection(self, dataset: Dataset, described: set[str] | None = None) -> dict[str, Any]:
        return collection_document(
            self.context, self.uri, dataset, temporal=self._temporal, described=described
        )

    def _collections(self, request: Request) -> Response:
        """Return the list of collections, filtered by ``bbox`` and ``datetime``."""
        parameters = Parameters(request.query)
        q.check_ignored(parameters)
        is_page = wants_page(request)
        if not is_page:
            _check_json(request)
        chosen = list(self.context.datasets.values())
        if parameters.values.get("bbox"):
            box = q.box_of(parameters, WGS84)
            turns = [replace(box, xmin=box.xmin + x, xmax=box.xmax + x) for x in (-TURN, 0.0, TURN)]
            chosen = [item for item in chosen if any(map(item.extent.intersection, turns))]
        if self._temporal:
            times = [interval_of(self.context, item) for item in chosen]
            chosen = [
                item
                for item, time in zip(chosen, times, strict=True)
                if q.is_in_time(parameters, *time)
            ]
        if is_page:
            return page_response(request, collections_page(self.uri, chosen))
        described: set[str] = set()
        listed = [self._collection(item, described) for item in chosen]
        content = collections_document(self.uri, listed)
        return json_document(content).respond(request)

    @cached_property
    def _definition(self) -> dict[str, Any]:
        return definition(self.context, self.uri)

    def _api(self, request: Request) -> Response:
        form = request.query.get("f", "")
        if form in ("html", HTML):
            return page_response(request, api_page(self.context, self.uri, self._definition))
        if form not in ("", "json", JSON, OPENAPI):
            raise InvalidParameterError("f is neither json nor html", "f")
        return json_document(self._definition, OPENAPI).respond(request)

    def _query(self, request: Request, identifier: str, name: str) -> Response:
        dataset = self._dataset(identifier)
        parameters = parameters_of(request)
        crs = q.crs_of(parameters, dataset)
        form = q.format_of(request, parameters, name)
        q.check_ignored(parameters, dataset.dimensions)
        try:
            most = MOST_TIMES if name == POSITION else 1
            at = self.context.datasets.at(
                dataset, q.values_of(parameters, dataset.dimensions), most
            )
        except NoSuchValueError:
            return Response(204, [])
        dataset = at[0]
        found = Found(
            dataset,
            crs,
            q.names_of(parameters, name, self._known(dataset)),
            f"{collection_uri(self.uri, dataset)}/{name}",
            self.context.settings.decimals,
        )
        if name in (AREA, RADIUS) and parameters.flag("stats"):
            area = polygon_of(parameters, crs, name)
            return self._statistics(request, parameters, found, area)
        if name in (POSITION, TRAJECTORY):
            points = self._points(parameters, found, name)
            by_time: dict[float | None, Dataset] = {}
            for one in at:
                # Of a range of another dimension, a time has the first value.
                by_time.setdefault(_instant_of(one), one)
            if len(by_time) > 1 and len(points.x) == 1 and None not in by_time:
                others = [
                    self._points(parameters, replace(found, dataset=one), name)
                    for one in list(by_time.values())[1:]
                ]
                points = series([points, *others], list(by_time))
            return self._written(request, points, form)
        return self._grid(request, parameters, found, name, form)

    def _known(self, dataset: Dataset) -> tuple[str, ...]:
        """Return the parameters of a collection."""
        return PARAMETERS + (SOURCES if have_sources(self.context.site, dataset) else ())

    def _points(self, parameters: Parameters, found: Found, name: str) -> Points:
        """Return the answer to a query for points."""
        method = parameters.choice("interpolation", METHODS, found.dataset.interpolation)
        queries = self.context.queries
        if name == POSITION:
            geometry = q.geometry_of(parameters, POINTS, found.crs)
            x, y = geometry.x, geometry.y
            samples = queries.points(found.dataset, x, y, found.crs, SamplingOptions(method))
            domain, times, distances = geometry.kind, None, np.zeros(len(x))
        else:
            geometry = q.geometry_of(parameters, LINES, found.crs)
            line = heights_along(queries, found, geometry, parameters, method)
            x, y, samples, distances, times = line
            domain = "MultiPoint" if times is None else "Trajectory"
        cells = resolutions(found.dataset, samples, found.crs, x, y)
        layers = [layer.id for layer in found.dataset.layers]
        columns: dict[str, Any] = {
            DISTANCE: rounded(distances, 2),
            RESOLUTION: rounded(cells, 3),
            LAYER: [layers[n] if n >= 0 else None for n in samples.layers.tolist()],
        }
        asked = {key: values for key, values in columns.items() if key in found.names}
        asked |= source_columns(self.context.site, found, x, y, samples)
        return Points(
            found.dataset,
            found.crs,
            found.names,
            found.uri,
            found.decimals,
            domain,
            x,
            y,
            samples.heights,
            asked,
            times,
        )

    def _grid(
        self, request: Request, parameters: Parameters, found: Found, name: str, form: str
    ) -> Response:
        """Answer a query for an area."""
        crs, queries = found.crs, self.context.queries
        rings: tuple[Ring, ...] | None = None
        union = False
        across = down = 0
        if name == CUBE:
            box = q.box_of(parameters, crs)
            across = q.positions_of(parameters, "resolution-x", MOST_VALUES)
            down = q.positions_of(parameters, "resolution-y", MOST_VALUES)
        else:
            area = area_of(parameters, crs, name)
            rings, union, box = area.rings, area.union, area.box
        method = parameters.choice("interpolation", METHODS, found.dataset.interpolation)
        most = min(MOST_VALUES, queries.limits.pixels)
        grid = queries.grid(found.dataset, box, crs, most, whole=name == CUBE)
        if grid is None:
            return Response(204, [])
        if across or down:
            across, down = across or grid.x.count, down or grid.y.count
            grid = queries.grid_of_positions(box, crs, across, down, most)
        # The text of a grid is larger than its heights, so it is written in the same turn.
        with queries.admitted_grid(found.dataset, grid):
            heights = queries.heights(found.dataset, grid, method, rings, union=union)
            names = (ELEVATION,)
            cells = Cells(found.dataset, crs, names, found.uri, found.decimals, grid, heights)
            return self._written(request, cells, form)

    def _statistics(
        self, request: Request, parameters: Parameters, found: Found, area: Geometry
    ) -> Response:
        statistics = self.context.queries.statistics(
            found.dataset, area.parts, found.crs, statistics_wanted(parameters)
        )
        if statistics is None or "mean" not in statistics:
            return Response(204, [])
        content = statistics_feature(found, area, statistics)
        return json_response(request, content, MEDIA_TYPES[GEOJSON])

    def _written(self, request: Request, answer: Points | Cells, form: str) -> Response:
        # Without any value there is no content.
        if answer.is_empty:
            return Response(204, [])
        media_type = MEDIA_TYPES[form]
        if form == CSV:
            media_type += "; charset=utf-8; header=present"
        if isinstance(answer, Points):
            pieces = in_pieces(_POINTS[form](answer))
        elif form == GEOTIFF:
            return self._image(answer)
        else:
            pieces = _GRIDS[form](answer)
        return large_response(request, pieces, media_type)

    def _image(self, answer: Cells) -> Response:
        grid = answer.grid
        heights = np.where(np.isnan(answer.heights), _NODATA, answer.heights)
        pixels = heights.astype(np.float32)[:, :, np.newaxis]
        raster = Raster(pixels, grid.box, answer.crs, (_NODATA,), grid.registration)
        body = self.context.site.encoders[_GEOTIFF].encode(raster, {})
        headers = [
            ("Content-Type", "image/tiff;application=geotiff"),
            ("Content-Disposition", content_disposition("image/tiff")),
            ("Vary", "Accept"),
        ]
        return Response(200, headers, spooled(in_pieces(body)))


_POINTS: Final[Mapping[str, Callable[[Points], bytes]]] = {
    COVERAGE: lambda found: to_json(coverage(found)),
    GEOJSON: lambda found: to_json(features(found)),
    CSV: lambda found: table(found).encode(),
}
_GRIDS: Final[Mapping[str, Callable[[Cells], Iterator[bytes]]]] = {
    COVERAGE: coverage_pieces,
    GEOJSON: feature_pieces,
    CSV: table_pieces,
}


def _instant_of(dataset: Dataset) -> float | None:
    """Return the time of a dataset, Unix seconds; None if it has none, or none in our calendar."""
    interval = dataset.interval
    try:
        return datetime.fromisoformat(interval[0]).timestamp() if interval else None
    except ValueError:
        return None


def _check_json(request: Request) -> None:
    if request.query.get("f", "").lower() not in ("", "json", JSON):
        raise InvalidParameterError("f is neither json nor html", "f")
