"""TileJSON 3.0.0 of the tiles of a dataset (elevation.md 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from mastaba.errors import InvalidParameterError, UnknownPathError
from mastaba_elevation.terrain.encodings import ENCODINGS
from mastaba_elevation.terrain.options import choice, query_of, requested_options
from mastaba_elevation.terrain.resource import Resource, attribution, described
from mastaba_elevation.terrain.tiles import DOUBLE
from mastaba_elevation.web.numbers import json_document
from mastaba_ows.boxes import bounds, centre

if TYPE_CHECKING:
    from mastaba.api.web import Request, Response
    from mastaba_elevation.queries.datasets import Dataset

SIZES: Final = ("256", "512")


class TileJson(Resource):
    """What clients must know of the tiles."""

    operation: ClassVar[str] = "tilejson"

    def respond(self, request: Request, dataset: Dataset, path: list[str]) -> Response:
        if len(path) != 1:
            raise UnknownPathError
        formats = self.context.formats
        size = int(choice(request.query, "size", SIZES, SIZES[0]))
        extension = choice(request.query, "format", formats, formats[0])
        default = self.context.settings.options
        options = requested_options(request.query, default)
        encoding = path[0].removesuffix(".json")
        suffix = DOUBLE if size == int(SIZES[1]) else ""
        uri = self.context.uri(dataset)
        address = f"{uri}/{encoding}/{{z}}/{{x}}/{{y}}{suffix}.{extension}"
        first, last = self.zooms(dataset, size)
        document: dict[str, Any] = {
            "tilejson": "3.0.0",
            "name": dataset.title,
            "description": dataset.description,
            "tiles": [address + query_of(options, default)],
            "scheme": "xyz",
            "format": extension,
            "encoding": encoding,
            "tileSize": size,
            "minzoom": first,
            "maxzoom": last,
            "bounds": bounds(dataset.box),
            "center": [*centre(dataset.box), first],
            # The TileJSON 3.0.0 schema requires it for raster layers too.
            "vector_layers": [],
            "precision": options.precision,
            **described(dataset),
        }
        if sources := attribution(dataset):
            document["attribution"] = sources
        return json_document(document).respond(request)

    def zooms(self, dataset: Dataset, size: int) -> tuple[int, int]:
        """Return the first and the last zoom of tiles of a size.

        Raises:
            InvalidParameterError: there are none.
        """
        coverage = self.context.coverage(dataset)
        if size == int(SIZES[0]):
            return coverage.first, coverage.last
        if coverage.last == 0:
            raise InvalidParameterError("the dataset has no tiles of this size", "size")
        return max(coverage.first - 1, 0), coverage.last - 1

    def offer(self, dataset: Dataset) -> str:
        first, last = self.zooms(dataset, int(SIZES[0]))
        formats = ", ".join(self.context.formats)
        return f"{' and '.join(ENCODINGS)} {first} to {last} ({formats})"

    def links(self, dataset: Dataset) -> list[dict[str, str]]:
        uri = self.context.uri(dataset)
        return [{"rel": "tilejson", "href": f"{uri}/{name}.json"} for name in ENCODINGS]
