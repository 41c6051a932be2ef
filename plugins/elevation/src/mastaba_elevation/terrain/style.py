"""A style for MapLibre GL: terrain, hillshade and colours of heights (elevation.md 4.3)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlencode

from mastaba.errors import UnknownPathError
from mastaba_elevation.terrain.encodings import ENCODINGS
from mastaba_elevation.terrain.options import choice, options_of, requested_options
from mastaba_elevation.terrain.resource import Resource
from mastaba_elevation.terrain.tilejson import SIZES
from mastaba_elevation.web.numbers import json_document
from mastaba_ows.boxes import bounds, centre

if TYPE_CHECKING:
    from mastaba.api.catalogue import Palette
    from mastaba.api.web import Request, Response
    from mastaba_elevation.queries.datasets import Dataset

_ENCODING: Final = "terrarium"
"""Its steps are invisible in a hillshade of fine data; those of ``mapbox`` are not."""
_EDGE: Final = 0.01
"""Metres between two colours that are not blended."""
_LIGHT: Final = 315
"""Direction of the light in degrees, the usual one of maps; the default of MapLibre is 335."""
_WIDEST: Final = 22


class MapStyle(Resource):
    """The document ``style.json``.

    Its query takes the parameters of TileJSON, and ``encoding``.
    """

    operation: ClassVar[str] = "style"

    def respond(self, request: Request, dataset: Dataset, path: list[str]) -> Response:
        if len(path) != 1:
            raise UnknownPathError
        source = {"type": "raster-dem", "url": self._tilejson(request, dataset)}
        # One source for both would draw the hillshade at the lower quality of the terrain.
        sources: dict[str, Any] = {"dem": source, "hillshade": source}
        layers: list[dict[str, Any]] = []
        palette = _palette(dataset)
        if palette is not None:
            colours = {"color-relief-color": _ramp(palette)}
            layers.append(
                {"id": "heights", "type": "color-relief", "source": "hillshade", "paint": colours}
            )
        paint = {
            "hillshade-illumination-direction": _LIGHT,
            "hillshade-illumination-anchor": "map",
        }
        layers.append(
            {"id": "hillshade", "type": "hillshade", "source": "hillshade", "paint": paint}
        )
        for resource in self.context.resources:
            more_sources, more_layers = resource.style(dataset)
            sources.update(more_sources)
            layers += more_layers
        west, south, east, north = bounds(dataset.box)
        document = {
            "version": 8,
            "name": dataset.title,
            "center": centre(dataset.box),
            "zoom": _zoom(max(east - west, north - south)),
            "sources": sources,
            "terrain": {"source": "dem", "exaggeration": 1},
            "layers": layers,
        }
        return json_document(document).respond(request)

    def links(self, dataset: Dataset) -> list[dict[str, str]]:
        return [{"rel": "style", "href": f"{self.context.uri(dataset)}/style.json"}]

    def _tilejson(self, request: Request, dataset: Dataset) -> str:
        query = request.query
        encoding = choice(query, "encoding", list(ENCODINGS), _ENCODING)
        default = self.context.settings.options
        # Of a missing tile, MapLibre shows the part of the coarser one.
        given = options_of(requested_options({"missing": "404", **query}, default), default)
        size = choice(query, "size", SIZES, SIZES[0])
        if size != SIZES[0]:
            given["size"] = size
        formats = self.context.formats
        extension = choice(query, "format", formats, formats[0])
        if extension != formats[0]:
            given["format"] = extension
        address = f"{self.context.uri(dataset)}/{encoding}.json"
        return f"{address}?{urlencode(given)}" if given else address


def _palette(dataset: Dataset) -> Palette | None:
    """Return the palette of heights: that of the first style that computes nothing else."""
    for item in dataset.layers:
        for style in item.layer.styles:
            if style.palette is not None and not style.processing:
                return style.palette
    return None


def _ramp(palette: Palette) -> list[Any]:
    """Return a palette as an expression of MapLibre, which only knows blended colours."""
    first = palette.entries[0]
    below = (first.red, first.green, first.blue, 0)
    stops: list[tuple[float, tuple[int, int, int, int]]] = [(first.value - _EDGE, below)]
    for entry in palette.entries:
        alpha = 255 if palette.no_alpha else max(entry.alpha, 0)
        if not palette.rgb_continuous and entry is not first:
            # The colour before goes on to this height.
            edge = entry.value - _EDGE
            if edge > stops[-1][0]:
                stops.append((edge, stops[-1][1]))
        stops.append((entry.value, (entry.red, entry.green, entry.blue, alpha)))
    expression: list[Any] = ["interpolate", ["linear"], ["elevation"]]
    for value, (red, green, blue, alpha) in stops:
        expression += [value, f"rgba({red},{green},{blue},{alpha / 255:.3g})"]
    return expression


def _zoom(degrees: float) -> float:
    """Return the zoom at which a map of 512 pixels shows some degrees."""
    if degrees <= 0:
        return _WIDEST
    return round(min(max(math.log2(360.0 / degrees), 0.0), _WIDEST), 2)
