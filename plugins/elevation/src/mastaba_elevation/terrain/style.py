"""A style for MapLibre GL: terrain, hillshade and colours of heights (elevation.md 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from mastaba_elevation.facade import unknown_path
from mastaba_elevation.numbers import json_document
from mastaba_elevation.terrain.resource import Resource

if TYPE_CHECKING:
    from mastaba.api.web import Request, Response
    from mastaba_elevation.datasets import Dataset


class MapStyle(Resource):
    """The document ``style.json``."""

    operation: ClassVar[str] = "style"

    def respond(self, request: Request, dataset: Dataset, path: list[str]) -> Response:
        if len(path) != 1:
            raise unknown_path()
        source = {"type": "raster-dem", "url": f"{self.context.uri(dataset)}/terrarium.json"}
        document: dict[str, Any] = {
            "version": 8,
            "name": dataset.title,
            # One source for both would draw the hillshade at the lower quality of the terrain.
            "sources": {"dem": source, "hillshade": source},
            "terrain": {"source": "dem", "exaggeration": 1},
            "layers": [
                {
                    "id": "hillshade",
                    "type": "hillshade",
                    "source": "hillshade",
                    "paint": {
                        "hillshade-illumination-direction": 315,
                        "hillshade-illumination-anchor": "map",
                    },
                },
            ],
        }
        return json_document(document).respond(request)

    def links(self, dataset: Dataset) -> list[dict[str, str]]:
        return [{"rel": "style", "href": f"{self.context.uri(dataset)}/style.json"}]
