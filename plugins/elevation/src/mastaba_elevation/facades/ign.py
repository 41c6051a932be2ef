"""The altimetry service of IGN (elevation.md 3.1)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from mastaba.api.catalogue import WGS84
from mastaba.api.web import Response, message, printable
from mastaba.errors import (
    InvalidParameterError,
    MastabaError,
    MissingParameterError,
    UnknownPathError,
    public_message,
)
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.facades.ign_forms import (
    DECIMALS,
    MOST,
    answered,
    elevations_of,
    positions_of,
)
from mastaba_elevation.facades.ign_resources import accuracy_of, resource, resources
from mastaba_elevation.facades.ign_xml import XML, error_xml
from mastaba_elevation.queries.ground import Floats
from mastaba_elevation.queries.lines import EVEN, FILL, VERTICES, Line, Measure
from mastaba_elevation.queries.profile import ascent_and_descent
from mastaba_elevation.queries.queries import ProfileOptions
from mastaba_elevation.queries.sampling import SamplingOptions
from mastaba_elevation.web.facade import Facade, status_of
from mastaba_elevation.web.numbers import json_document, number, to_json
from mastaba_elevation.web.parameters import Parameters, parameters_of
from mastaba_ows.links import JSON
from mastaba_ows.offers import sources_at

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.web import Request
    from mastaba_elevation.queries.datasets import Dataset

logger = logging.getLogger("mastaba.elevation.ign")

Row = Mapping[str, Any]

_PREFIXES: Final = (["1.0", "calcul", "alti", "rest"], ["calcul", "alti", "rest"])


class Ign(Facade):
    """Heights of points, profiles and the list of resources."""

    name: ClassVar[str] = "ign"
    roots: ClassVar[frozenset[str]] = frozenset(("1.0", "calcul", "resources"))

    def respond(self, request: Request, path: list[str]) -> Response:
        if path[0] == "resources":
            return self._resources(request, path[1:])
        if path[:-1] not in _PREFIXES:
            raise UnknownPathError
        operation, _, form = path[-1].partition(".")
        parameters = parameters_of(request)
        if operation == "elevation" and form in ("json", "xml", "csv"):
            return self._points(parameters, form, request)
        if operation == "elevationLine" and form in ("json", "xml"):
            return self._line(parameters, form, request)
        raise UnknownPathError

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

    def implied(self, request: Request) -> str:
        root, *below = request.path.split("/")[1:]
        if root == "resources":
            return self._identifier(below[0]) if below else ""
        return self._identifier(request.query.get("resource") or self._default)

    @property
    def _default(self) -> str:
        name: str = self.own.get("default_resource", "")
        return name

    def _identifier(self, name: str) -> str:
        """Return the identifier of the dataset that a name of a resource means."""
        identifier: str = self.own.get("aliases", {}).get(name, name)
        return identifier

    def _dataset(self, parameters: Parameters) -> Dataset:
        name = parameters.text("resource", self._default)
        if not name:
            raise MissingParameterError("The parameter resource is missing", "resource")
        name = self._identifier(name)
        found = self.context.datasets.get(name)
        if found is None:
            text = f"{printable(name)} is not an accepted resource"
            raise InvalidParameterError(text, "resource")
        return self.context.datasets.default(found)

    def _points(self, parameters: Parameters, form: str, request: Request) -> Response:
        lon, lat = positions_of(parameters)
        dataset = self._dataset(parameters)
        queries = self.context.queries
        options = SamplingOptions(dataset.interpolation)
        samples = queries.points(dataset, lon, lat, WGS84, options)
        elevations = elevations_of(dataset, lon, lat, samples)
        if parameters.flag("measures"):
            for single, entries in self._measures(dataset, lon, lat, options):
                for index, measure in entries:
                    elevations[index].setdefault("measures", []).append(single | measure)
        content: dict[str, Any] = {"elevations": elevations}
        return answered(content, form, parameters, request)

    def _measures(
        self, dataset: Dataset, lon: Floats, lat: Floats, options: SamplingOptions
    ) -> list[tuple[dict[str, Any], list[tuple[int, dict[str, Any]]]]]:
        """Return, for each layer, what its measures have in common and its heights by point."""
        found = []
        for layer, vertical in zip(dataset.layers, dataset.verticals, strict=True):
            alone = replace(self.context.datasets[layer.layer.id], layers=(layer,))
            heights = self.context.queries.points(alone, lon, lat, WGS84, options).heights
            common = {
                "source_name": vertical.source or layer.id,
                "source_measure": "Fixed value",
                "acc": accuracy_of(vertical),
                "title": layer.layer.title,
            }
            known = np.flatnonzero(~np.isnan(heights)).tolist()
            sources = self._sources(layer.layer, lon[known], lat[known])
            values = [
                (index, {"z": number(heights[index], DECIMALS), **_own(row)})
                for index, row in zip(known, sources, strict=True)
            ]
            found.append((common, values))
        return found

    def _sources(self, layer: Layer, lon: Floats, lat: Floats) -> Sequence[Row | None]:
        """Return the source of each point; None where it is not known."""
        try:
            found = sources_at(self.context.site, layer, lon, lat, WGS84)
        except MastabaError as error:
            # Heights are an answer without them.
            logger.warning("the sources of %s cannot be read: %s", layer.key, error)
            found = None
        return [None] * len(lon) if found is None else found

    def _line(self, parameters: Parameters, form: str, request: Request) -> Response:
        lon, lat = positions_of(parameters)
        if len(lon) < 2:
            raise InvalidParameterError("A line has at least two points", "lon")
        dataset = self._dataset(parameters)
        sampling = parameters.integer("sampling", len(lon), 0, MOST)
        profile_mode = parameters.choice("profile_mode", ("simple", "accurate"), "simple")
        mode = EVEN if sampling < len(lon) else FILL
        if sampling < 2:
            mode, sampling = VERTICES, len(lon)
        if profile_mode == "accurate":
            mode, sampling = FILL if mode == VERTICES else mode, 2 * sampling
        queries = self.context.queries
        line = Line.of(lon, lat, WGS84, Measure())
        options = ProfileOptions(
            mode, min(sampling, queries.limits.points), None, dataset.interpolation
        )
        found = queries.profile(dataset, line, options)
        heights = np.round(found.samples.heights, DECIMALS)
        up, down = ascent_and_descent(heights)
        content = {
            "elevations": elevations_of(dataset, found.x, found.y, found.samples),
            "height_differences": {
                "positive": round(up, DECIMALS),
                "negative": round(down, DECIMALS),
            },
        }
        return answered(content, form, parameters, request)

    def _resources(self, request: Request, path: list[str]) -> Response:
        datasets = self.context.datasets
        if len(path) == 1:
            name = self._identifier(path[0])
            return json_document(resource(datasets.named(name, "resource"))).respond(request)
        if path:
            raise UnknownPathError
        return json_document(resources(datasets, request.query_string)).respond(request)


def _own(row: Row | None) -> dict[str, Any]:
    """Return what a measure says of the source of its pixel, instead of that of the layer."""
    if row is None:
        return {}
    accuracy = row.get("accuracy")
    return {
        "source_name": str(row.get("title") or row["id"]),
        "source_measure": "Pixel value",
        **({} if accuracy is None else {"acc": accuracy}),
    }
