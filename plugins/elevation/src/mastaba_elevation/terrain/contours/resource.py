"""Contour lines of a dataset: ``/contours.json`` and ``/contours/{z}/{x}/{y}.pbf``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from mastaba.api.tiles import tile_index
from mastaba.errors import TileOutOfRangeError, UnknownPathError
from mastaba_elevation.terrain.computed import ComputedTile
from mastaba_elevation.terrain.contours.source import ContourSource
from mastaba_elevation.terrain.resource import Resource, attribution, described
from mastaba_elevation.web.numbers import json_document
from mastaba_ows.boxes import bounds, centre

if TYPE_CHECKING:
    from mastaba.api.web import Request, Response
    from mastaba_elevation.queries.datasets import Dataset

MEDIA_TYPE: Final = "application/vnd.mapbox-vector-tile"
DOCUMENT: Final = "contours.json"

_EXTENSION: Final = ".pbf"
_DEEPEST: Final = 24
_STRONG, _WEAK = 1.2, 0.6
_COLOUR: Final = "rgba(120,80,40,0.7)"


class Contours(Resource):
    """Lines of equal height."""

    operation: ClassVar[str] = "contours"

    def respond(self, request: Request, dataset: Dataset, path: list[str]) -> Response:
        if path == [DOCUMENT]:
            return json_document(self._tilejson(dataset)).respond(request)
        if len(path) != 4 or not path[3].endswith(_EXTENSION):
            raise UnknownPathError
        z, x = tile_index(path[1], "z"), tile_index(path[2], "x")
        y = tile_index(path[3].removesuffix(_EXTENSION), "y")
        if z not in range(_DEEPEST + 1):
            raise TileOutOfRangeError("there is no such tile in this dataset", ["z"])
        coverage = self.context.coverage(dataset)
        if not coverage.zoom(str(z)).contains(y, x):
            raise TileOutOfRangeError("there is no such tile in this dataset", ["x", "y"])
        source, settings = self._source(dataset), self.context.settings
        tile = ComputedTile(
            dataset,
            (settings.contours, dataset.vertical.accuracy, z, x, y),
            MEDIA_TYPE,
            (),
            source.memory(z),
            lambda: source.tile(z, x, y, source.budget(z, settings.tiles)),
        )
        return tile.respond(request, self.context)

    def offer(self, dataset: Dataset) -> str:
        first, last = self._zooms(dataset)
        return f"contours {first} to {last}"

    def links(self, dataset: Dataset) -> list[dict[str, str]]:
        return [{"rel": "contours", "href": f"{self.context.uri(dataset)}/{DOCUMENT}"}]

    def style(self, dataset: Dataset) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        names = self.context.settings.contours
        source = {"type": "vector", "url": f"{self.context.uri(dataset)}/{DOCUMENT}"}
        layer = {
            "id": "contours",
            "type": "line",
            "source": "contours",
            "source-layer": names.layer,
            "paint": {
                "line-color": _COLOUR,
                "line-width": ["case", ["==", ["get", names.level], 0], _WEAK, _STRONG],
            },
        }
        return {"contours": source}, [layer]

    def _source(self, dataset: Dataset) -> ContourSource:
        coverage = self.context.coverage(dataset)
        return ContourSource(
            dataset,
            coverage.tile_matrix_set.crs,
            coverage.last - self.context.settings.overzoom,
            self.context.settings.contours,
            self.context.site.catalogue.settings.equivalences,
        )

    def _zooms(self, dataset: Dataset) -> tuple[int, int]:
        """Return the first and the last zoom with lines."""
        coverage = self.context.coverage(dataset)
        first = max(self._source(dataset).intervals.first, coverage.first)
        return min(first, coverage.last), coverage.last

    def _tilejson(self, dataset: Dataset) -> dict[str, Any]:
        """Return the TileJSON 3.0.0 of the tiles."""
        names = self.context.settings.contours
        first, last = self._zooms(dataset)
        fields = {names.ele: "Number", names.level: "Number", names.index: "Boolean"}
        document: dict[str, Any] = {
            "tilejson": "3.0.0",
            "name": dataset.title,
            "description": dataset.description,
            "tiles": [f"{self.context.uri(dataset)}/contours/{{z}}/{{x}}/{{y}}{_EXTENSION}"],
            "scheme": "xyz",
            "format": "pbf",
            "minzoom": first,
            "maxzoom": last,
            "bounds": bounds(dataset.box),
            "center": [*centre(dataset.box), first],
            "unit": names.unit,
            "vector_layers": [
                {"id": names.layer, "fields": fields, "minzoom": first, "maxzoom": last}
            ],
            **described(dataset),
        }
        if sources := attribution(dataset):
            document["attribution"] = sources
        return document
