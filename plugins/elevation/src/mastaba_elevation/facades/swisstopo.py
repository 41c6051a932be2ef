"""The height and profile services of swisstopo (elevation.md 3.2)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from mastaba.api.web import Response, message
from mastaba.errors import InvalidParameterError, UnknownPathError, public_message
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.facades.swisstopo_profile import MOST, csv, entries, profile_of
from mastaba_elevation.facades.swisstopo_request import coordinate_of, crs_of, geometry_of
from mastaba_elevation.queries.sampling import SamplingOptions
from mastaba_elevation.queries.taps import METHODS
from mastaba_elevation.web.facade import Facade, status_of
from mastaba_elevation.web.numbers import json_response, to_json
from mastaba_elevation.web.parameters import read_request
from mastaba_ows.links import JSON
from mastaba_server.web.large import large_response
from mastaba_server.web.pieces import in_pieces

if TYPE_CHECKING:
    from mastaba.api.web import Request
    from mastaba_elevation.queries.datasets import Dataset
    from mastaba_elevation.web.parameters import Parameters

_ALTS: Final = ("COMB", "DTM2", "DTM25")
_CALLBACK: Final = re.compile(r"[A-Za-z_$][\w$.]*")
_LONGEST_CALLBACK: Final = 200
_CSV: Final = "text/csv; charset=utf-8"


class ManyVerticesError(TooMuchError):
    """The line has more vertices than the service accepts."""


class Swisstopo(Facade):
    """A height, and profiles as JSON and CSV."""

    name: ClassVar[str] = "swisstopo"
    roots: ClassVar[frozenset[str]] = frozenset(("rest",))

    def respond(self, request: Request, path: list[str]) -> Response:
        if path[:2] != ["rest", "services"] or len(path) != 3:
            raise UnknownPathError
        parameters, body = read_request(request)
        match path[2]:
            case "height":
                return self._height(request, parameters)
            case "profile.json" | "profile.csv" as name:
                return self._profile(request, parameters, body, name.endswith("csv"))
            case _:
                raise UnknownPathError

    def implied(self, request: Request) -> str:
        return self.default_name(self.own.get("dataset"))

    def error_response(self, error: Exception, request: Request) -> Response:
        status = status_of(error)
        if isinstance(error, TooMuchError) and not isinstance(error, ManyVerticesError):
            status = 400
        content = {
            "success": False,
            "error": {"code": status, "message": public_message(error)},
        }
        return message(status, to_json(content), JSON)

    def _dataset(self) -> Dataset:
        found = self.default_dataset(self.own.get("dataset"))
        if found is None:
            raise InvalidParameterError("no dataset is configured for this service")
        return found

    def _method(self, dataset: Dataset) -> str:
        method: str = self.own.get("interpolation", dataset.interpolation)
        assert method in METHODS
        return method

    def _codes(self, dataset: Dataset) -> list[int]:
        given = self.own.get("crs")
        if given:
            return list(given)
        authority, _, native = dataset.layers[0].crs.code.partition(":")
        own = [int(native)] if authority == "EPSG" else []
        return list(dict.fromkeys([*own, 2056, 21781, 4326, 3857]))

    def _height(self, request: Request, parameters: Parameters) -> Response:
        x = coordinate_of(parameters, "easting", "lon")
        y = coordinate_of(parameters, "northing", "lat")
        dataset = self._dataset()
        crs = crs_of(parameters, x, y, self._codes(dataset), dataset)
        options = SamplingOptions(self._method(dataset))
        height = self.context.queries.points(dataset, x, y, crs, options).heights[0]
        if np.isnan(height):
            raise InvalidParameterError("Query is out of bounds", "easting")
        # A text: clients of the service compare it.
        return self._json({"height": f"{round(float(height), 1) + 0.0:.1f}"}, request, parameters)

    def _profile(
        self, request: Request, parameters: Parameters, body: Any, is_csv: bool
    ) -> Response:
        if is_csv and parameters.text("callback", ""):
            raise InvalidParameterError("callback is not possible with CSV", "callback")
        dataset = self._dataset()
        geometry = geometry_of(parameters, body)
        if len(geometry.x) > MOST:
            raise ManyVerticesError(f"Request Geometry contains more than {MOST} points")
        crs = crs_of(parameters, geometry.x, geometry.y, self._codes(dataset), dataset)
        method = self._method(dataset)
        profile = profile_of(self.context.queries, dataset, parameters, geometry, crs, method)
        # 203 says that the number of points is not the requested one.
        status = 200 if profile.is_complete else 203
        if is_csv:
            response = large_response(request, in_pieces(csv(profile).encode()), _CSV)
        else:
            names = self.own.get("alts", _ALTS)
            response = self._json(entries(profile, names), request, parameters)
        if response.status == 200:
            response.status = status
        return response

    def _json(self, content: Any, request: Request, parameters: Parameters) -> Response:
        callback = parameters.text("callback", "")
        if not callback:
            return json_response(request, content)
        if len(callback) > _LONGEST_CALLBACK or not _CALLBACK.fullmatch(callback):
            raise InvalidParameterError("callback is not the name of a function", "callback")
        script = f"{callback}({to_json(content).decode()});"
        response = large_response(request, in_pieces(script.encode()), "application/javascript")
        response.headers.append(("X-Content-Type-Options", "nosniff"))
        return response
