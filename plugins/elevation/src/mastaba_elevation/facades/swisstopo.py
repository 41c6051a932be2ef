"""The height and profile services of swisstopo (elevation.md 3.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import orjson

from mastaba.api.catalogue import CRS, bbox_in
from mastaba.api.web import Document, Response, message
from mastaba.errors import InvalidParameterError, MissingParameterError, public_message
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.facade import Facade, status_of, unknown_path
from mastaba_elevation.geometry import Geometry, read_geojson
from mastaba_elevation.ground import Floats
from mastaba_elevation.lines import FILL, VERTICES, Line, Measure
from mastaba_elevation.numbers import JSON, number, to_json
from mastaba_elevation.parameters import Parameters, posted
from mastaba_elevation.profile import finest_step
from mastaba_elevation.queries import ProfileWish
from mastaba_elevation.sampling import Wish
from mastaba_elevation.taps import METHODS

if TYPE_CHECKING:
    from mastaba.api.web import Request
    from mastaba_elevation.datasets import Dataset

_DEFAULT_COUNT: Final = 200
_MOST: Final = 5000
_ALTS: Final = ("COMB", "DTM2", "DTM25")
_CALLBACK: Final = re.compile(r"[A-Za-z_$][\w$.]*")
_LONGEST_CALLBACK: Final = 200
_BOXES: Final = {
    2056: (2385000.0, 974000.0, 2935000.0, 1404000.0),
    21781: (385000.0, -26000.0, 940000.0, 456000.0),
}
"""Boxes by which the CRS of a geometry is guessed, besides areas of use."""
_METRES: Final = 2.0
"""Smallest step of ``smart_filling``."""


class ManyVerticesError(TooMuchError):
    """The line has more vertices than the service accepts."""


@dataclass(frozen=True, slots=True)
class _Profile:
    """Points with a height, and whether their number is the requested one."""

    distances: Floats
    heights: list[float]
    x: Floats
    y: Floats
    is_complete: bool


class Swisstopo(Facade):
    """A height, and profiles as JSON and CSV."""

    name: ClassVar[str] = "swisstopo"
    roots: ClassVar[frozenset[str]] = frozenset(("rest",))

    def respond(self, request: Request, path: list[str]) -> Response:
        if path[:2] != ["rest", "services"] or len(path) != 3:
            raise unknown_path()
        parameters, body = _read(request)
        match path[2]:
            case "height":
                return self._height(request, parameters)
            case "profile.json" | "profile.csv" as name:
                return self._profile(request, parameters, body, name.endswith("csv"))
            case _:
                raise unknown_path()

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

    def _crs(self, dataset: Dataset, parameters: Parameters, x: Floats, y: Floats) -> CRS:
        """Return the CRS that ``sr`` or ``projection`` names, or that contains the points."""
        name = next((key for key in ("sr", "projection") if parameters.text(key, "")), None)
        codes = self._codes(dataset)
        if name is not None:
            code = parameters.integer(name, None, 0)
            if code not in codes:
                listed = " or ".join(map(str, codes))
                text = f"Please provide a valid number for the spatial reference system: {listed}"
                raise InvalidParameterError(text, name)
            return CRS.from_code(f"EPSG:{code}")
        for code in codes:
            crs = CRS.from_code(f"EPSG:{code}")
            west, south, east, north = _box(code, crs, dataset)
            if (
                (x >= west).all()
                and (x <= east).all()
                and (y >= south).all()
                and (y <= north).all()
            ):
                return crs
        raise InvalidParameterError("No 'sr' given and cannot be guessed from 'geom'", "sr")

    def _height(self, request: Request, parameters: Parameters) -> Response:
        x = _coordinate(parameters, "easting", "lon")
        y = _coordinate(parameters, "northing", "lat")
        dataset = self._dataset()
        crs = self._crs(dataset, parameters, x, y)
        wish = Wish(self._method(dataset))
        height = self.context.queries.points(dataset, x, y, crs, wish).heights[0]
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
        geometry = _geometry(parameters, body)
        if len(geometry.x) > _MOST:
            raise ManyVerticesError(f"Request Geometry contains more than {_MOST} points")
        crs = self._crs(dataset, parameters, geometry.x, geometry.y)
        profile = self._points(dataset, parameters, geometry, crs)
        # 203 says that the number of points is not the requested one.
        status = 200 if profile.is_complete else 203
        if is_csv:
            response = Document(_csv(profile), "text/csv; charset=utf-8").respond(request)
        else:
            names = self.own.get("alts", _ALTS)
            response = self._json(_entries(profile, names), request, parameters)
        if response.status == 200:
            response.status = status
        return response

    def _points(
        self, dataset: Dataset, parameters: Parameters, geometry: Geometry, crs: CRS
    ) -> _Profile:
        name = "nb_points" if "nb_points" in parameters else "nbpoints"
        count = parameters.integer(name, _DEFAULT_COUNT, 2, _MOST)
        line = Line.of(geometry.x, geometry.y, crs, Measure.of(crs, distance="planar"))
        x, y = self._path(dataset, parameters, line, count)
        wish = ProfileWish(VERTICES, len(x), None, self._method(dataset))
        walked = Line.of(x, y, crs, line.measure)
        found = self.context.queries.profile(dataset, walked, wish)
        heights = _smoothed(found.samples.heights, parameters.integer("offset", 0, 0, _MOST))
        known = ~np.isnan(heights)
        shown = [number(height, 1) or 0.0 for height in heights[known].tolist()]
        distances = found.distances[known]
        complete = name not in parameters or int(known.sum()) == count
        return _Profile(distances, shown, found.x[known], found.y[known], complete)

    def _path(
        self, dataset: Dataset, parameters: Parameters, line: Line, count: int
    ) -> tuple[Floats, Floats]:
        """Return the points of a profile."""
        if parameters.flag("only_requested_points") or len(line.x) == 1:
            return line.points(VERTICES, count)
        if parameters.flag("smart_filling"):
            step = max(_METRES, finest_step(dataset, line))
            most = np.maximum(1, np.floor(line.lengths / step)).astype(np.int64)
        else:
            most = np.full(len(line.lengths), _MOST)
        if parameters.flag("distinct_points"):
            return line.points(FILL, count)
        if not line.length:
            return line.points(VERTICES, count)
        # The formula of the service: its number of points may differ from the requested one.
        shares = np.round((count - 1) * line.lengths / line.length)
        return line.divided(np.minimum(np.maximum(1, shares).astype(np.int64), most))

    def _json(self, content: Any, request: Request, parameters: Parameters) -> Response:
        callback = parameters.text("callback", "")
        if not callback:
            return Document(to_json(content), JSON).respond(request)
        if len(callback) > _LONGEST_CALLBACK or not _CALLBACK.fullmatch(callback):
            raise InvalidParameterError("callback is not the name of a function", "callback")
        script = f"{callback}({to_json(content).decode()});"
        response = Document(script, "application/javascript").respond(request)
        response.headers.append(("X-Content-Type-Options", "nosniff"))
        return response


def _read(request: Request) -> tuple[Parameters, Any]:
    """Return the parameters of a request, and the geometry that is its whole body, or None."""
    if request.method != "POST":
        return Parameters(request.query), None
    body = posted(request)
    if isinstance(body, dict) and "type" not in body:
        fields = {str(name).lower(): value for name, value in body.items()}
        return Parameters({**request.query, **fields}), None
    return Parameters(request.query), body


def _geometry(parameters: Parameters, body: Any) -> Geometry:
    if body is None:
        body = parameters.values.get("geom")
        if not body:
            raise MissingParameterError(
                "No 'geom' given, cannot create a profile without coordinates", "geom"
            )
    if isinstance(body, str):
        try:
            body = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise _invalid_geometry() from None
    if not isinstance(body, dict) or "type" not in body:
        raise _invalid_geometry()
    if body["type"] not in ("LineString", "Point"):
        raise InvalidParameterError("geom parameter must be a LineString/Point GEOJSON", "geom")
    try:
        return read_geojson(body, "geom")
    except InvalidParameterError:
        raise _invalid_geometry() from None


def _invalid_geometry() -> InvalidParameterError:
    return InvalidParameterError("Invalid geom parameter, must be a GEOJSON", "geom")


def _coordinate(parameters: Parameters, name: str, other: str) -> Floats:
    found = next((key for key in (name, other) if parameters.text(key, "")), None)
    if found is None:
        raise MissingParameterError(f"Missing parameter '{name}'/'{other}'", name)
    return np.array([parameters.number(found, None, -1e10, 1e10)])


def _box(code: int, crs: CRS, dataset: Dataset) -> tuple[float, float, float, float]:
    if code in _BOXES:
        return _BOXES[code]
    if crs.is_geographic:
        area = crs.area_of_use
        return area.xmin, area.ymin, area.xmax, area.ymax
    box = bbox_in(dataset.layers[0].layer, crs)
    if box is None:
        return (np.inf, np.inf, -np.inf, -np.inf)
    return box.xmin, box.ymin, box.xmax, box.ymax


def _smoothed(heights: Floats, offset: int) -> Floats:
    """Return moving averages over ± offset points with weights 1 / (distance + 1)."""
    offset = min(offset, len(heights) - 1)
    if offset < 1:
        return heights
    weights = 1.0 / (np.abs(np.arange(-offset, offset + 1)) + 1.0)
    known = ~np.isnan(heights)
    total = np.convolve(np.where(known, heights, 0.0), weights)[offset:-offset]
    share = np.convolve(known.astype(float), weights)[offset:-offset]
    return np.where(known, total / np.where(share > 0, share, 1.0), np.nan)


def _entries(profile: _Profile, names: Any) -> list[Mapping[str, Any]]:
    return [
        {
            "alts": dict.fromkeys(names, height),
            "dist": distance,
            "easting": x,
            "northing": y,
        }
        for height, distance, x, y in _rows(profile)
    ]


def _csv(profile: _Profile) -> str:
    lines = ['"Distance";"Altitude";"Easting";"Northing"\r\n']
    lines += [
        f'"{distance}";"{height}";"{x}";"{y}"\r\n' for height, distance, x, y in _rows(profile)
    ]
    return "".join(lines)


def _rows(profile: _Profile) -> list[tuple[float, float, float, float]]:
    return list(
        zip(
            profile.heights,
            np.round(profile.distances, 1).tolist(),
            np.round(profile.x, 3).tolist(),
            np.round(profile.y, 3).tolist(),
            strict=True,
        )
    )
