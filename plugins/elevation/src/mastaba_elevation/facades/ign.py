"""The altimetry service of IGN (elevation.md 3.1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from mastaba.api.catalogue import WGS84
from mastaba.api.web import Document, Response, decode, message, printable
from mastaba.errors import (
    InvalidParameterError,
    MissingParameterError,
    public_message,
)
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.facade import Facade, status_of, unknown_path
from mastaba_elevation.facades.ign_xml import XML, elevations_xml, error_xml
from mastaba_elevation.ground import Floats
from mastaba_elevation.lines import EVEN, FILL, VERTICES, Line, Measure
from mastaba_elevation.numbers import JSON, json_document, rounded, to_json
from mastaba_elevation.parameters import Parameters, parameters_of
from mastaba_elevation.profile import ascent_and_descent
from mastaba_elevation.queries import ProfileWish
from mastaba_elevation.sampling import Samples, Wish

if TYPE_CHECKING:
    from mastaba.api.web import Request
    from mastaba_elevation.datasets import Dataset

_NO_DATA: Final = -99999.0
_DECIMALS: Final = 2
_MOST: Final = 5000
_PREFIXES: Final = (["1.0", "calcul", "alti", "rest"], ["calcul", "alti", "rest"])
_CSV: Final = "text/csv; charset=utf-8"
_DELIMITERS: Final = "|;,"


class Ign(Facade):
    """Heights of points, profiles and the list of resources."""

    name: ClassVar[str] = "ign"
    roots: ClassVar[frozenset[str]] = frozenset(("1.0", "calcul", "resources"))

    def respond(self, request: Request, path: list[str]) -> Response:
        if path[0] == "resources":
            return self._resources(request, path[1:])
        if path[:-1] not in _PREFIXES:
            raise unknown_path()
        operation, _, form = path[-1].partition(".")
        parameters = parameters_of(request)
        if operation == "elevation" and form in ("json", "xml", "csv"):
            return self._points(parameters, form, request)
        if operation == "elevationLine" and form in ("json", "xml"):
            return self._line(parameters, form, request)
        raise unknown_path()

    def error_response(self, error: Exception, request: Request) -> Response:
        status = status_of(error)
        if isinstance(error, TooMuchError):
            status = 400
        code = "MISSING_PARAMETER" if isinstance(error, MissingParameterError) else "BAD_PARAMETER"
        if status != 400:
            code = "NOT_FOUND" if status == 404 else "INTERNAL_ERROR" if status >= 500 else code
        fields = {"code": code, "description": public_message(error)}
        if request.path.endswith(".xml"):
            return message(status, error_xml(fields), XML)
        # Older clients read the inner object.
        return message(status, to_json({**fields, "error": fields}), JSON)

    def _dataset(self, parameters: Parameters) -> Dataset:
        name = parameters.text("resource", self.own.get("default_resource", ""))
        if not name:
            raise MissingParameterError("The parameter resource is missing", "resource")
        name = self.own.get("aliases", {}).get(name, name)
        found = self.context.datasets.get(name)
        if found is None:
            text = f"{printable(name)} is not an accepted resource"
            raise InvalidParameterError(text, "resource")
        return found

    def _points(self, parameters: Parameters, form: str, request: Request) -> Response:
        lon, lat = _positions(parameters)
        dataset = self._dataset(parameters)
        queries = self.context.queries
        wish = Wish(dataset.interpolation)
        samples = queries.points(dataset, lon, lat, WGS84, wish)
        elevations = self._elevations(dataset, lon, lat, samples)
        if parameters.flag("measures"):
            for single, entries in self._measures(dataset, lon, lat, wish):
                for number, measure in entries:
                    elevations[number].setdefault("measures", []).append(single | measure)
        content: dict[str, Any] = {"elevations": elevations}
        return _answer(content, form, parameters, request)

    def _measures(
        self, dataset: Dataset, lon: Floats, lat: Floats, wish: Wish
    ) -> list[tuple[dict[str, Any], list[tuple[int, dict[str, Any]]]]]:
        """Return, for each layer, what its measures have in common and its heights by point."""
        found = []
        for layer, vertical in zip(dataset.layers, dataset.verticals, strict=True):
            alone = self.context.datasets[layer.id]
            heights = self.context.queries.points(alone, lon, lat, WGS84, wish).heights
            common = {
                "source_name": vertical.source or layer.id,
                "source_measure": "Fixed value",
                "acc": _accuracy(vertical.accuracy),
                "title": layer.layer.title,
            }
            known = np.flatnonzero(~np.isnan(heights)).tolist()
            values = [(number, {"z": _z(heights[number])}) for number in known]
            found.append((common, values))
        return found

    def _line(self, parameters: Parameters, form: str, request: Request) -> Response:
        lon, lat = _positions(parameters)
        if len(lon) < 2:
            raise InvalidParameterError("A line has at least two points", "lon")
        dataset = self._dataset(parameters)
        sampling = parameters.integer("sampling", len(lon), 0, _MOST)
        profile_mode = parameters.choice("profile_mode", ("simple", "accurate"), "simple")
        mode = EVEN if sampling < len(lon) else FILL
        if sampling < 2:
            mode, sampling = VERTICES, len(lon)
        if profile_mode == "accurate":
            mode, sampling = FILL if mode == VERTICES else mode, 2 * sampling
        queries = self.context.queries
        line = Line.of(lon, lat, WGS84, Measure())
        wish = ProfileWish(mode, min(sampling, queries.limits.points), None, dataset.interpolation)
        found = queries.profile(dataset, line, wish)
        heights = np.round(found.samples.heights, _DECIMALS)
        up, down = ascent_and_descent(heights)
        content = {
            "elevations": self._elevations(dataset, found.x, found.y, found.samples),
            "height_differences": {
                "positive": round(up, _DECIMALS),
                "negative": round(down, _DECIMALS),
            },
        }
        return _answer(content, form, parameters, request)

    def _elevations(
        self, dataset: Dataset, lon: Floats, lat: Floats, samples: Samples
    ) -> list[dict[str, Any]]:
        accuracies = [_accuracy(vertical.accuracy) for vertical in dataset.verticals]
        heights = rounded(samples.heights, _DECIMALS)
        found = zip(lon.tolist(), lat.tolist(), heights, samples.layers.tolist(), strict=True)
        return [
            {
                "lon": x,
                "lat": y,
                "z": _NO_DATA if z is None else z,
                "acc": accuracies[max(layer, 0)],
            }
            for x, y, z, layer in found
        ]

    def _resources(self, request: Request, path: list[str]) -> Response:
        datasets = self.context.datasets
        if len(path) == 1:
            name = self.own.get("aliases", {}).get(path[0], path[0])
            return json_document(_resource(datasets.named(name, "resource"))).respond(request)
        if path:
            raise unknown_path()
        words = [word.lower() for word in _repeated(request.query_string, "keywords")]
        found = [
            _resource(dataset)
            for dataset in datasets.values()
            if set(words) <= {word.lower() for word in dataset.keywords}
        ]
        return json_document({"resources": found}).respond(request)


def _repeated(query: str, name: str) -> list[str]:
    """Return all values of a parameter, which may be given several times."""
    pairs = (item.partition("=") for item in query.split("&"))
    return [decode(value) for key, _, value in pairs if decode(key).lower() == name and value]


def _resource(dataset: Dataset) -> dict[str, Any]:
    box = dataset.box
    return {
        "id": dataset.id,
        "title": dataset.title,
        "description": dataset.description,
        "keywords": list(dataset.keywords),
        "bbox": [box.xmin, box.ymin, box.xmax, box.ymax],
        "used_data": [
            {
                "title": layer.layer.title,
                "source": vertical.source,
                "accuracy": _accuracy(vertical.accuracy),
            }
            for layer, vertical in zip(dataset.layers, dataset.verticals, strict=True)
        ],
    }


def _positions(parameters: Parameters) -> tuple[Floats, Floats]:
    """Return longitudes and latitudes.

    Raises:
        MissingParameterError, InvalidParameterError: they are missing or invalid.
    """
    delimiter = parameters.text("delimiter", "|")
    if delimiter not in _DELIMITERS:
        raise InvalidParameterError("The delimiter is not one of | ; ,", "delimiter")
    lon = _numbers(parameters, "lon", delimiter, 180.0)
    lat = _numbers(parameters, "lat", delimiter, 90.0)
    if len(lon) != len(lat):
        raise InvalidParameterError("lon and lat have different numbers of values", "lon")
    return lon, lat


def _numbers(parameters: Parameters, name: str, delimiter: str, most: float) -> Floats:
    value = parameters.values.get(name)
    items = value if isinstance(value, list) else parameters.text(name).split(delimiter)
    if not items:
        raise MissingParameterError(f"The parameter {name} is missing", name)
    if len(items) > _MOST:
        raise InvalidParameterError(f"{name} has more than {_MOST} values", name)
    try:
        numbers = [math.nan if isinstance(item, bool) else float(item) for item in items]
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameterError(f"{name} contains a value that is not a number", name) from None
    found = np.array(numbers)
    if not (np.abs(found) <= most).all():
        raise InvalidParameterError(f"{name} is not from -{most:g} to {most:g}", name)
    return found


def _z(height: float) -> float:
    return round(float(height), _DECIMALS) + 0.0


def _accuracy(accuracy: float | str | None) -> float | str:
    return "" if accuracy is None else accuracy


def _answer(
    content: dict[str, Any], form: str, parameters: Parameters, request: Request
) -> Response:
    elevations = content["elevations"]
    if form == "csv":
        rows = [f"{e['lon']};{e['lat']};{e['z']};{e['acc']}\r\n" for e in elevations]
        return Document("lon;lat;z;acc\r\n" + "".join(rows), _CSV).respond(request)
    if parameters.flag("zonly"):
        content = content | {"elevations": [entry["z"] for entry in elevations]}
    # Blanks are free; only the value is checked.
    parameters.flag("indent")
    if form == "json":
        return json_document(content).respond(request)
    return Document(elevations_xml(content), XML).respond(request)
