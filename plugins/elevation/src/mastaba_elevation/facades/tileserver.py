"""The elevation of tileserver-gl (elevation.md 3.3)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from mastaba.api.catalogue import WGS84
from mastaba.api.web import Response, message
from mastaba.errors import InvalidParameterError, UnknownNameError, UnknownPathError, public_message
from mastaba_elevation.queries.sampling import SamplingOptions
from mastaba_elevation.web.facade import Facade, status_of
from mastaba_elevation.web.numbers import json_document, json_response, number, rounded
from mastaba_elevation.web.parameters import Parameters, parameters_of

if TYPE_CHECKING:
    from mastaba.api.web import Request
    from mastaba_elevation.queries.datasets import Dataset

_TILE: Final = 256
_MOST_NORTHERN: Final = 85.0511287798066
_FINEST: Final = 30
_WORLD: Final = 40075016.685578488
"""Length of the equator, metres."""


class Tileserver(Facade):
    """The height of one point by path, and of several by POST."""

    name: ClassVar[str] = "tileserver"
    roots: ClassVar[frozenset[str]] = frozenset(("data",))

    def respond(self, request: Request, path: list[str]) -> Response:
        match path:
            case ["data", identifier, "elevation", z, x, y] if request.method == "GET":
                return self._one(request, self._dataset(identifier), z, x, y)
            case ["data", identifier, "elevation"] if request.method == "POST":
                return self._several(request, self._dataset(identifier))
            case _:
                raise UnknownPathError

    def error_response(self, error: Exception, request: Request) -> Response:
        return message(status_of(error), public_message(error), "text/plain; charset=utf-8")

    def _dataset(self, identifier: str) -> Dataset:
        found = self.context.datasets.get(identifier)
        if found is None:
            raise UnknownNameError("Data not found", "id")
        return self.context.datasets.default(found)

    def _one(self, request: Request, dataset: Dataset, z: str, x: str, y: str) -> Response:
        zoom = self._zoom(dataset, Parameters({"z": z}).integer("z", None, 0, _FINEST))
        place = Parameters({"x": x, "y": y})
        if _is_whole(x) and _is_whole(y):
            # Whole numbers are the indices of a tile: the answer is for its middle.
            last = 2**zoom - 1
            column = place.integer("x", None, 0, last) + 0.5
            row = place.integer("y", None, 0, last) + 0.5
            longitude = column / 2**zoom * 360.0 - 180.0
            latitude = math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * row / 2**zoom))))
        else:
            longitude = place.number("x", None, -180.0, 180.0)
            latitude = place.number("y", None, -90.0, 90.0)
        options = SamplingOptions(dataset.interpolation, _metres(zoom, latitude))
        height = self.context.queries.points(
            dataset, np.array([longitude]), np.array([latitude]), WGS84, options
        ).heights[0]
        if np.isnan(height):
            return Response(204, [])
        content = {
            "long": longitude,
            "lat": latitude,
            "elevation": number(float(height), self.context.settings.decimals),
            **_pixel(zoom, longitude, latitude),
        }
        return json_document(content).respond(request)

    def _several(self, request: Request, dataset: Dataset) -> Response:
        points = parameters_of(request).values.get("points")
        if not isinstance(points, list) or not points:
            raise InvalidParameterError("points is not a list of points", "points")
        self.context.queries.check_count(len(points))
        longitudes, latitudes, zooms = _coordinates(points)
        known = {zoom: self._zoom(dataset, zoom) for zoom in set(zooms)}
        places = zip(zooms, latitudes.tolist(), strict=True)
        sizes = np.array([_metres(known[zoom], latitude) for zoom, latitude in places])
        heights = self.context.queries.at_resolutions(dataset, longitudes, latitudes, sizes)
        return json_response(request, rounded(heights, self.context.settings.decimals))

    def _zoom(self, dataset: Dataset, zoom: int) -> int:
        """Return a zoom between those of the coarsest and the finest level."""
        cells = [
            level.matrix.cell_size * layer.crs.metres_per_unit
            for layer in dataset.layers
            for level in layer.layer.pyramid.levels.values()
        ]
        zooms = [round(math.log2(_WORLD / _TILE / cell)) for cell in cells]
        return min(max(zoom, min(zooms), 0), max(*zooms, 0), _FINEST)


def _coordinates(points: list[Any]) -> tuple[Any, Any, list[int]]:
    x, y, zooms = [], [], []
    for point in points:
        if not isinstance(point, dict):
            raise InvalidParameterError("a point is not an object with lon, lat and z", "points")
        fields = Parameters(point)
        x.append(fields.number("lon", None, -180.0, 180.0))
        y.append(fields.number("lat", None, -90.0, 90.0))
        zooms.append(fields.integer("z", _FINEST, 0, _FINEST))
    return np.array(x), np.array(y), zooms


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _metres(zoom: int, latitude: float) -> float:
    """Return the size of a pixel of a zoom on the ground."""
    size: float = _WORLD / _TILE / 2**zoom
    return size * math.cos(math.radians(min(abs(latitude), _MOST_NORTHERN)))


def _pixel(zoom: int, longitude: float, latitude: float) -> dict[str, int]:
    """Return the tile of a place, and the pixel in it."""
    latitude = max(-_MOST_NORTHERN, min(_MOST_NORTHERN, latitude))
    size = _TILE * 2**zoom
    across = (longitude + 180.0) / 360.0 * size
    down = (1 - math.asinh(math.tan(math.radians(latitude))) / math.pi) / 2 * size
    column, row = (min(max(math.floor(place), 0), size - 1) for place in (across, down))
    return {
        "z": zoom,
        "x": column // _TILE,
        "y": row // _TILE,
        "pixelX": column % _TILE,
        "pixelY": row % _TILE,
    }
