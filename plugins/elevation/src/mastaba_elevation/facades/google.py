"""The elevation APIs of Google and Open Topo Data (elevation.md 3.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from mastaba.api.catalogue import WGS84
from mastaba.api.web import Response, message, printable
from mastaba.errors import (
    AccessError,
    InvalidParameterError,
    RequestError,
    UnknownPathError,
    public_message,
)
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.facades.google_forms import geojson, results
from mastaba_elevation.facades.locations import locations_of
from mastaba_elevation.queries.lines import EVEN, Line, Measure
from mastaba_elevation.queries.sampling import SamplingOptions, resolutions
from mastaba_elevation.queries.taps import METHODS
from mastaba_elevation.web.facade import Facade, status_of
from mastaba_elevation.web.numbers import json_document, json_response, rounded, to_json
from mastaba_elevation.web.parameters import Parameters, parameters_of
from mastaba_ows.links import JSON

if TYPE_CHECKING:
    from mastaba.api.web import Request
    from mastaba_elevation.queries.datasets import Dataset

_MILLIMETRES: Final = 3


class Google(Facade):
    """Heights of locations and along paths."""

    name: ClassVar[str] = "google"
    roots: ClassVar[frozenset[str]] = frozenset(("v1", "datasets", "maps"))

    def respond(self, request: Request, path: list[str]) -> Response:
        match path:
            case ["datasets"]:
                return self._datasets(request)
            case ["v1", names]:
                dataset = self._stack(names.split(","))
                return self._elevations(request, dataset, parameters_of(request), "locations")
            case ["maps", "api", "elevation", "json"]:
                found = self.default_dataset(self.own.get("dataset"))
                if found is None:
                    raise InvalidParameterError("no dataset is configured for this path")
                parameters = parameters_of(request)
                name = "path" if parameters.text("path", "") else "locations"
                return self._elevations(request, found, parameters, name)
            case _:
                raise UnknownPathError

    def implied(self, request: Request) -> str:
        is_default = request.path.startswith("/maps/")
        return self.default_name(self.own.get("dataset")) if is_default else ""

    def error_response(self, error: Exception, request: Request) -> Response:
        if isinstance(error, UnknownPathError):
            status, code = 404, "NOT_FOUND"
        elif isinstance(error, AccessError):
            status = error.status
            code = "OVER_QUERY_LIMIT" if status == 429 else "REQUEST_DENIED"
        elif isinstance(error, TooMuchError) and request.path.startswith("/maps/"):
            status, code = 400, "OVER_QUERY_LIMIT"
        elif isinstance(error, RequestError):
            status = status_of(error)
            status, code = (status if status in (413, 415, 501) else 400), "INVALID_REQUEST"
            status = 400 if isinstance(error, TooMuchError) else status
        else:
            status, code = status_of(error), "SERVER_ERROR"
        content = {"status": code, "error": public_message(error)}
        return message(status, to_json(content), JSON)

    def _datasets(self, request: Request) -> Response:
        names = list(self.context.datasets)
        found = [
            {
                "name": name,
                "child_datasets": [
                    layer.id for layer in self.context.datasets[name].layers if layer.id != name
                ],
            }
            for name in names
        ]
        return json_document({"results": found, "status": "OK"}).respond(request)

    def _stack(self, names: list[str]) -> Dataset:
        """Return the layers of some datasets in order.

        Raises:
            InvalidParameterError: a name is unknown or given twice.
        """
        if len(set(names)) < len(names):
            raise InvalidParameterError("a dataset is named twice", "dataset")
        found = [self.context.datasets.get(name) for name in names]
        datasets = [self.context.datasets.default(one) for one in found if one is not None]
        if len(datasets) < len(names):
            raise InvalidParameterError(
                f"there is no dataset {printable(','.join(names))}", "dataset"
            )
        if len(datasets) == 1:
            return datasets[0]
        return replace(
            datasets[0],
            id=",".join(names),
            layers=tuple(layer for dataset in datasets for layer in dataset.layers),
            verticals=tuple(item for dataset in datasets for item in dataset.verticals),
        )

    def _elevations(
        self, request: Request, dataset: Dataset, parameters: Parameters, name: str
    ) -> Response:
        queries = self.context.queries
        latitude, longitude = locations_of(parameters, name, queries.limits.points)
        if "samples" in parameters or name == "path":
            count = parameters.integer("samples", None, 2, queries.limits.points)
            line = Line.of(longitude, latitude, WGS84, Measure(geodesic_path=True))
            longitude, latitude = line.points(EVEN, count)
        options = SamplingOptions(
            parameters.choice("interpolation", METHODS, dataset.interpolation)
        )
        nodata = _nodata(parameters)
        form = parameters.choice("format", ("json", "geojson"), "json")
        samples = queries.points(dataset, longitude, latitude, WGS84, options)
        heights = [nodata if height is None else height for height in rounded(samples.heights, -1)]
        layers = [
            dataset.layers[layer].id if layer >= 0 else None for layer in samples.layers.tolist()
        ]
        cells = resolutions(dataset, samples, WGS84, longitude, latitude)
        rows = zip(
            longitude.tolist(),
            latitude.tolist(),
            heights,
            layers,
            rounded(cells, _MILLIMETRES),
            strict=True,
        )
        document = geojson if form == "geojson" else results
        return json_response(request, document(list(rows)))


def _nodata(parameters: Parameters) -> float | None:
    text = parameters.text("nodata_value", "null").lower()
    # NaN is not JSON.
    return None if text in ("null", "nan") else parameters.integer("nodata_value", None, -(2**31))
